//! `tidemill watch`: a run's events as they come, until it ends. Leaving does not touch the run.

use clap::Args;

use super::common::Place;
use crate::client::Follow;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::Report;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The run's id
    run: String,
    /// Show every event, not only what nodes do
    #[arg(long)]
    events: bool,
    /// Show every event as a JSON object, then the run as one
    #[arg(long)]
    json: bool,
    /// Only what comes behind this event id
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let client = arguments.place.client()?;
    let mut report = Report::new(arguments.json, arguments.events, console);
    let mut follow = Follow::new(&client, &arguments.run, arguments.after.clone());
    while let Some(event) = follow.next().await? {
        report.event(&event, console)?;
    }
    report.result(&client.run(&arguments.run).await?, console)
}
