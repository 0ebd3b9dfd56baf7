//! Scheduler and workers inside this process: the one place where the command touches the two other programs.

use std::net::SocketAddr;

use tidemill_common::config::Config;

use crate::error::Exit;

/// Why they did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalError {
    #[error("this build of the command has no scheduler of its own; name a running one with --url and --key")]
    Absent,
}

impl LocalError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Absent => Exit::Unreachable,
        }
    }
}

/// The running ones.
pub(crate) struct Local {
    addr: SocketAddr,
}

impl Local {
    /// Starts a scheduler and so many workers on the Redis of the settings.
    pub(crate) async fn start(config: &Config, workers: usize) -> Result<Self, LocalError> {
        let _ = (config, workers);
        Err(LocalError::Absent)
    }
    /// Where the API listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
    /// Stops the workers, then the scheduler, each within its grace.
    pub(crate) async fn stop(self) {}
}
