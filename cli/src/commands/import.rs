//! `tidemill import`: creates a new run that continues an exported one.

use std::io::Read;

use clap::Args;

use super::common::SchedulerArgs;
use crate::console::Console;
use crate::error::{Error, Exit};

/// The file name that means standard input.
const STANDARD_INPUT: &str = "-";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Snapshot that `tidemill export` has written; `-` for standard input
    file: String,
    #[command(flatten)]
    scheduler: SchedulerArgs,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let snapshot = read(&arguments.file)?;
    let client = arguments.scheduler.client()?;
    console.line(client.import(snapshot).await?)?;
    Ok(Exit::Succeeded)
}

fn read(file: &str) -> Result<String, Error> {
    if file != STANDARD_INPUT {
        let text = std::fs::read_to_string(file);
        return text.map_err(|error| Error::Usage(format!("cannot read {file}: {error}")));
    }
    let mut text = String::new();
    match std::io::stdin().read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Error::Usage(format!("cannot read standard input: {error}"))),
    }
}
