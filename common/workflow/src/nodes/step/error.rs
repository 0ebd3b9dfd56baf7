//! The error of a call, as a workflow sees it: a text, and data of the call.

use serde_json::{Value as Json, json};

use tidemill_base::failure::NodeFailure;
use tidemill_base::need::Need;
use tidemill_base::value::JsonMap;

/// The error type of a call without its own.
pub const CALL_ERROR: &str = "CallError";

/// An error of a call. It contains no secret.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// The message for people.
    pub message: String,
    /// Further data; `{}` for most errors.
    pub data: JsonMap,
    /// The error type that workflows branch on.
    pub error_type: String,
    /// True when a retry can help.
    pub retryable: bool,
    /// The wait that the server asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// As [`NodeFailure::lacks`].
    pub lacks: Option<Box<Need>>,
}

impl CallError {
    /// An error of type `CallError`.
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(CALL_ERROR, message)
    }
    /// An error of its own type.
    pub fn of(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        let (error_type, message) = (error_type.into(), message.into());
        Self {
            message,
            data: JsonMap::new(),
            error_type,
            retryable: false,
            retry_after_ms: None,
            lacks: None,
        }
    }
    /// Adds data; anything except an object is ignored.
    #[must_use]
    pub fn with(self, data: Json) -> Self {
        let data = match data {
            Json::Object(data) => data,
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => JsonMap::new(),
        };
        Self { data, ..self }
    }
    /// Marks the error as retryable.
    #[must_use]
    pub fn passing(self) -> Self {
        Self { retryable: true, ..self }
    }
    /// Marks the error as caused by the set-up of this worker.
    #[must_use]
    pub fn lacking(self, need: Need) -> Self {
        Self { lacks: Some(Box::new(need)), ..self }
    }
    /// The output `error_message`; always has both keys.
    pub fn object(&self) -> Json {
        json!({"err_msg": self.message, "data": self.data})
    }
    /// The failure of the node.
    pub fn failure(&self) -> NodeFailure {
        NodeFailure {
            message: self.message.clone(),
            error_type: self.error_type.clone(),
            retryable: self.retryable,
            retry_after_ms: self.retry_after_ms,
            lacks: self.lacks.clone(),
        }
    }
}

impl From<NodeFailure> for CallError {
    fn from(failure: NodeFailure) -> Self {
        let NodeFailure { message, error_type, retryable, retry_after_ms, lacks } = failure;
        Self { message, data: JsonMap::new(), error_type, retryable, retry_after_ms, lacks }
    }
}
