//! `tidemill export`: a run that is not over as one document, to go on from elsewhere.

use std::path::PathBuf;

use clap::Args;

use super::common::Place;
use crate::console::Console;
use crate::error::{Error, Exit};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The run's id
    run: String,
    /// Write the snapshot to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let client = arguments.place.client()?;
    let snapshot = client.snapshot(&arguments.run).await?;
    let Some(path) = &arguments.output else {
        console.line(&snapshot)?;
        return Ok(Exit::Succeeded);
    };
    std::fs::write(path, format!("{snapshot}\n"))
        .map_err(|error| Error::Failed(format!("cannot write {}: {error}", path.display())))?;
    let (run, path) = (&arguments.run, path.display());
    console.note(format_args!(
        "run {run} is in {path} as it stood, and goes on as well: stop it if it shall not"
    ));
    Ok(Exit::Succeeded)
}
