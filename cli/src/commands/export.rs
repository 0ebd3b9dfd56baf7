//! `tidemill export`: writes a run that has not ended as one document (a snapshot), to continue it elsewhere.

use std::path::PathBuf;

use clap::Args;

use super::common::SchedulerArgs;
use crate::console::Console;
use crate::error::{Error, Exit};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Id of the run
    run: String,
    /// Write the snapshot to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    scheduler: SchedulerArgs,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let client = arguments.scheduler.client()?;
    let snapshot = client.snapshot(&arguments.run).await?;
    let Some(path) = &arguments.output else {
        console.line(&snapshot)?;
        return Ok(Exit::Succeeded);
    };
    std::fs::write(path, format!("{snapshot}\n"))
        .map_err(|error| Error::Failed(format!("cannot write {}: {error}", path.display())))?;
    let (run, path) = (&arguments.run, path.display());
    console.note(format_args!(
        "run {run} is stored in {path}; the run itself continues, so stop it if it should not"
    ));
    Ok(Exit::Succeeded)
}
