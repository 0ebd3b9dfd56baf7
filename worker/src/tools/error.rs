//! Why a tool brought nothing, and what a node says then.

use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::tool::ErrorType;

/// How far a call came; Dify has other words at each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// There is no way to the tool.
    Resolve,
    /// The call was not taken.
    Invoke,
    /// What came back cannot be read.
    Read,
    /// The tool itself says that it failed.
    Tool,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// How far it came.
    pub stage: Stage,
    /// What happened.
    pub message: String,
    /// Whether another try could help.
    pub retryable: bool,
    /// How long the other side asked to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl ToolError {
    /// An error that another try will not mend.
    pub fn new(stage: Stage, message: impl Into<String>) -> Self {
        Self { stage, message: message.into(), retryable: false, retry_after_ms: None }
    }
    /// There is no way to the tool.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Stage::Resolve, message)
    }
    /// The same, and it may pass.
    pub fn passing(self) -> Self {
        Self { retryable: true, ..self }
    }
    /// What a status says of another try.
    pub fn by_status(self, status: u16) -> Self {
        Self { retryable: status >= 500 || matches!(status, 408 | 425 | 429), ..self }
    }

    /// It as the node's failure.
    pub fn failure(self, provider_name: &str) -> NodeFailure {
        let Self { stage, message, retryable, retry_after_ms } = self;
        let (class, message) = match stage {
            Stage::Resolve => (ErrorType::Resolution, format!("Failed to get tool runtime: {message}")),
            Stage::Invoke => (ErrorType::Invocation, format!("Failed to invoke tool: {message}")),
            Stage::Read => (ErrorType::Invocation, message),
            Stage::Tool => {
                (ErrorType::Invocation, format!("Failed to invoke tool {provider_name}: {message}"))
            }
        };
        NodeFailure { retryable, retry_after_ms, ..class.failure(message) }
    }
}

/// A setting of `[tools]` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("setting tools.{key}: {reason}")]
pub struct ToolSettingError {
    /// Which.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

impl ToolSettingError {
    /// See the type.
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into() }
    }
}
