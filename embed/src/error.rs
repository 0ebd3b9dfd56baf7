//! The errors of an embedded engine: what keeps it from starting, and what it refuses, with the codes of the API.

use std::path::PathBuf;

use serde_json::Value as Json;
use tidemill_common::store::StoreError;

/// The reason why an embedded engine refuses something.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// A setting cannot be used.
    #[error(transparent)]
    Config(#[from] tidemill_common::config::ConfigError),
    /// No program is where [`EngineConfig::tidemill`](crate::EngineConfig::tidemill) says.
    #[error("there is no tidemill program {}: name another one, or none, so that the engine looks for it", .0.display())]
    NoHelper(PathBuf),
    /// The folder for files cannot be made.
    #[error("cannot make a temporary folder for files: {0}; set files.url")]
    Folder(std::io::Error),
    /// The scheduler's part does not start.
    #[error("the engine does not start: {0}")]
    Scheduler(#[from] tidemill_scheduler::app::StartError),
    /// The worker's part does not start.
    #[error("the engine does not start: {0}")]
    Worker(#[from] tidemill_worker::StartError),
    /// The store refuses something.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine refuses a request: a workflow, a command, an answer. The code is that of the API.
    #[error("{message} ({code})")]
    Refused {
        /// For example `invalid_workflow`, `not_found`, `run_over`.
        code: String,
        message: String,
        /// The problems of a workflow file, as in the API; empty for other requests.
        diagnostics: Vec<Json>,
    },
    /// An answer of the engine cannot be read. This is a bug.
    #[error("the engine gave an answer that cannot be read; please report this as a bug: {0}")]
    Unreadable(String),
}
