//! `tidemill watch`: shows the events of a run until it ends. Ending the command does not affect the run.

use clap::Args;

use super::common::SchedulerArgs;
use crate::client::Follow;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::Report;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Id of the run
    run: String,
    /// Show every event, not only those of nodes
    #[arg(long)]
    events: bool,
    /// Show every event as a JSON object, and then the run as one
    #[arg(long)]
    json: bool,
    /// Only events after the event with this id
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    scheduler: SchedulerArgs,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let client = arguments.scheduler.client()?;
    let mut report = Report::new(arguments.json, arguments.events, console);
    let mut follow = Follow::new(&client, &arguments.run, arguments.after.clone());
    while let Some(event) = follow.next().await? {
        report.event(&event, console)?;
    }
    report.result(&client.run(&arguments.run).await?, console)
}
