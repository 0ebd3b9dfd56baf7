//! `tidemill stop`: asks a run to stop.

use clap::Args;

use crate::client::Client;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::target::{FolderArgs, TargetArgs};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The run's id
    run: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    folder: FolderArgs,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let client = Client::new(&arguments.target.resolve(&arguments.folder))?;
    client.stop(&arguments.run, arguments.reason.as_deref()).await?;
    console.note(format_args!("run {} is asked to stop", arguments.run));
    Ok(Exit::Succeeded)
}
