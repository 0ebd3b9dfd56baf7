//! Failures of tool calls, and the messages a node reports for them.

use tidemill_common::failure::NodeFailure;
use tidemill_common::need::Need;
use tidemill_common::nodes::tool::ErrorType;

/// The stage a call reached. Dify's messages differ by stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The tool was not found.
    Resolve,
    /// The call was not accepted.
    Invoke,
    /// The answer could not be read.
    Read,
    /// A message of the answer has missing or invalid fields. On Dify that is an exception that leaves the node.
    Message,
    /// The tool itself reported a failure.
    Tool,
}

/// The failure of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    pub stage: Stage,
    pub message: String,
    /// True if a retry could help.
    pub retryable: bool,
    /// The wait the server asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// As [`NodeFailure::lacks`].
    pub lacks: Option<Box<Need>>,
}

impl ToolError {
    /// Creates an error that a retry would not fix.
    pub fn new(stage: Stage, message: impl Into<String>) -> Self {
        Self { stage, message: message.into(), retryable: false, retry_after_ms: None, lacks: None }
    }
    /// The tool was not found.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Stage::Resolve, message)
    }
    /// Marks the error as caused by the set-up of this worker.
    pub fn lacking(self, need: Need) -> Self {
        Self { lacks: Some(Box::new(need)), ..self }
    }
    /// Marks the error as retryable.
    pub fn passing(self) -> Self {
        Self { retryable: true, ..self }
    }
    /// Sets whether a retry could help, by the HTTP status.
    pub fn by_status(self, status: u16) -> Self {
        Self { retryable: status >= 500 || matches!(status, 408 | 425 | 429), ..self }
    }

    /// Converts it to the node's failure.
    pub fn failure(self, provider_name: &str) -> NodeFailure {
        let Self { stage, message, retryable, retry_after_ms, lacks } = self;
        let (class, message) = match stage {
            Stage::Resolve => (ErrorType::Resolution, format!("Failed to get tool runtime: {message}")),
            Stage::Invoke => (ErrorType::Invocation, format!("Failed to invoke tool: {message}")),
            Stage::Read => (ErrorType::Invocation, message),
            Stage::Message => {
                return NodeFailure { retryable, retry_after_ms, ..NodeFailure::escaped(message) };
            }
            Stage::Tool => {
                (ErrorType::Invocation, format!("Failed to invoke tool {provider_name}: {message}"))
            }
        };
        NodeFailure { retryable, retry_after_ms, lacks, ..class.failure(message) }
    }
}

/// A setting of `[tools]` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("setting tools.{key}: {reason}")]
pub struct ToolSettingError {
    pub key: String,
    pub reason: String,
}

impl ToolSettingError {
    /// Creates the error.
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into() }
    }
}
