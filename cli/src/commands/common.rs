//! Arguments that most commands share: the scheduler to talk to, and the form of the output.

use clap::Args;

use crate::client::Client;
use crate::error::Error;
use crate::target::{FolderArgs, Target, TargetArgs};

/// The scheduler to talk to.
#[derive(Debug, Args)]
pub(super) struct SchedulerArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    folder: FolderArgs,
}

impl SchedulerArgs {
    /// Returns the scheduler that the user named, or that of this folder.
    pub(super) fn target(&self) -> Target {
        self.target.resolve(&self.folder)
    }

    /// Creates a client of the scheduler.
    pub(super) fn client(&self) -> Result<Client, Error> {
        Ok(Client::new(&self.target())?)
    }
}

/// The scheduler to talk to, and the form of the output.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Show the answer as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) scheduler: SchedulerArgs,
}

impl Common {
    /// Creates a client of the scheduler.
    pub(super) fn client(&self) -> Result<Client, Error> {
        self.scheduler.client()
    }
}
