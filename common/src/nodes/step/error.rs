//! Why a call did not come to an end, as a workflow sees it: a text, and whatever the call says besides.

use serde_json::{Value as Json, json};

use crate::failure::NodeFailure;
use crate::value::JsonMap;

/// The class of an error of a call that has none of its own.
pub const CALL_ERROR: &str = "CallError";

/// An error of a call. Holds no secret.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What happened, for people.
    pub message: String,
    /// What else there is to say; `{}` for most.
    pub data: JsonMap,
    /// The class on which workflows branch.
    pub error_type: String,
    /// Whether another try could help.
    pub retryable: bool,
    /// How long the other side asked to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl CallError {
    /// An error of the class `CallError`.
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(CALL_ERROR, message)
    }
    /// An error of a class of its own.
    pub fn of(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        let (error_type, message) = (error_type.into(), message.into());
        Self { message, data: JsonMap::new(), error_type, retryable: false, retry_after_ms: None }
    }
    /// The same with something to say besides; anything but an object says nothing.
    #[must_use]
    pub fn with(self, data: Json) -> Self {
        let data = match data {
            Json::Object(data) => data,
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => JsonMap::new(),
        };
        Self { data, ..self }
    }
    /// The same, but that another try could help.
    #[must_use]
    pub fn passing(self) -> Self {
        Self { retryable: true, ..self }
    }
    /// Both keys, always: what the output `error_message` is.
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
        }
    }
}

impl From<NodeFailure> for CallError {
    fn from(failure: NodeFailure) -> Self {
        let NodeFailure { message, error_type, retryable, retry_after_ms } = failure;
        Self { message, data: JsonMap::new(), error_type, retryable, retry_after_ms }
    }
}
