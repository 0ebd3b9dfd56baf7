//! What nearly every verb is told: which scheduler it asks, and how the answer is shown.

use clap::Args;

use crate::client::Client;
use crate::error::Error;
use crate::target::{FolderArgs, Target, TargetArgs};

/// Which scheduler.
#[derive(Debug, Args)]
pub(super) struct Place {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    folder: FolderArgs,
}

impl Place {
    /// The scheduler that was named, or that of this folder.
    pub(super) fn target(&self) -> Target {
        self.target.resolve(&self.folder)
    }

    /// A client of it.
    pub(super) fn client(&self) -> Result<Client, Error> {
        Ok(Client::new(&self.target())?)
    }
}

/// Which scheduler, and how answers are shown.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Show the answer as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

impl Common {
    /// A client of that scheduler.
    pub(super) fn client(&self) -> Result<Client, Error> {
        self.place.client()
    }
}
