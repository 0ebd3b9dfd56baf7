//! Commands to a run.

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
    /// Pauses the run when the nodes that run now have ended.
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
