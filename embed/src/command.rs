//! Commands to a run, as values instead of the JSON of `POST /api/v1/runs/{id}/commands`.

use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;

/// A command to a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Ends the run; its status is `stopped`.
    Stop {
        /// Stands in the run's record.
        reason: String,
    },
    /// Lets no new node begin, and pauses the run when the running ones have ended. The job of a node that the engine has
    /// not seen begin is taken back: its executor runs again after [`Command::Resume`].
    Pause {
        /// Stands in the run's record.
        reason: String,
    },
    /// Ends a pause that a command began.
    Resume,
    /// Sets variables: `node.name` (or `conversation.name`) to values.
    Update(JsonMap),
}

impl Command {
    /// The body of the request.
    pub(crate) fn into_body(self) -> Json {
        match self {
            Self::Stop { reason } => json!({"command": "stop", "reason": reason}),
            Self::Pause { reason } => json!({"command": "pause", "reason": reason}),
            Self::Resume => json!({"command": "resume"}),
            Self::Update(values) => json!({"command": "update_variables", "variables": values}),
        }
    }
}
