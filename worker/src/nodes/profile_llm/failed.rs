//! The node's failures, with their error types and additional data.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::need::Need;
use tidemill_common::nodes::llm::profile::{CallErrorType, LLM_ERROR, NOT_FOUND, VALIDATION};

use crate::outside::providers::profile::ProfileError;
use crate::outside::providers::{Detail, ErrorClass, ModelError};

/// A failure with additional data.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    pub(super) failure: NodeFailure,
    pub(super) data: Option<Json>,
}

impl From<NodeFailure> for Failed {
    fn from(failure: NodeFailure) -> Self {
        Self { failure, data: None }
    }
}

impl Failed {
    /// The node's configuration or input is invalid; a retry would not help.
    pub(super) fn validation(message: impl Into<String>) -> Self {
        NodeFailure::new(VALIDATION, message).into()
    }

    /// The failure of a call.
    pub(super) fn of_call(error: ModelError, provider: &str, model: &str) -> Self {
        let kind = kind_of(&error);
        let status = match error.detail {
            Detail::Status(status) => Some(status),
            Detail::None | Detail::Late | Detail::Unreadable | Detail::Lacking => None,
        };
        // A used-up quota does not return during a run.
        let is_over = error.class == ErrorClass::RateLimit && !error.retryable;
        let failure = NodeFailure {
            message: format!("LLM call failed: {}", error.message),
            error_type: LLM_ERROR.into(),
            retryable: kind.may_pass(status) && !is_over,
            retry_after_ms: error.retry_after_ms,
            lacks: error.lacks,
        };
        Self { failure, data: Some(error_data(kind, provider, model, status)) }
    }

    /// A reply that exceeds a limit.
    pub(super) fn of_reply(message: String, provider: &str, model: &str) -> Self {
        let data = error_data(CallErrorType::Validation, provider, model, None);
        Self { failure: NodeFailure::new(LLM_ERROR, message), data: Some(data) }
    }

    /// There is no usable profile.
    pub(super) fn of_profile(error: ProfileError) -> Self {
        match error {
            ProfileError::NotFound { ref id } => {
                let need = Need::Profile { id: id.clone() };
                NodeFailure::new(NOT_FOUND, error.to_string()).lacking(need).into()
            }
            ProfileError::Unusable(error) => Self::of_call(error, "", ""),
        }
    }

    /// Converts the failure for the record.
    pub(super) fn to_json(&self) -> Json {
        let NodeFailure { message, error_type, retryable, .. } = &self.failure;
        let mut error_data = json!({"error_type": error_type, "message": message, "retryable": retryable});
        if let Some(data) = &self.data {
            error_data["data"] = data.clone();
        }
        error_data
    }
}

fn error_data(kind: CallErrorType, provider: &str, model: &str, status: Option<u16>) -> Json {
    json!({"type": kind.name(), "provider": provider, "model": model, "status_code": status})
}

fn kind_of(error: &ModelError) -> CallErrorType {
    match (error.detail, error.class) {
        (Detail::Status(status), _) => CallErrorType::of_status(status),
        (Detail::Late, _) => CallErrorType::Timeout,
        (Detail::Unreadable, _) => CallErrorType::Parse,
        (Detail::None | Detail::Lacking, ErrorClass::Connection) => CallErrorType::Network,
        (Detail::None | Detail::Lacking, ErrorClass::ServerUnavailable) => CallErrorType::Api,
        (Detail::None | Detail::Lacking, ErrorClass::RateLimit) => CallErrorType::RateLimit,
        (Detail::None | Detail::Lacking, ErrorClass::Authorization | ErrorClass::NotInitialized) => {
            CallErrorType::Config
        }
        (Detail::None | Detail::Lacking, ErrorClass::BadRequest | ErrorClass::Value) => {
            CallErrorType::Validation
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lp_a09_a_failed_call_has_a_kind_that_says_whether_it_may_pass() {
        let of = |error: ModelError| {
            let failed = Failed::of_call(error, "acme", "m");
            let data = failed.data.clone().unwrap();
            (data["type"].as_str().unwrap().to_owned(), data["status_code"].clone(), failed.failure.retryable)
        };
        let connection = ModelError::new("p", ErrorClass::Connection, "gone").passing();
        let late = ModelError { detail: Detail::Late, ..connection.clone() };
        let unreadable = ModelError { detail: Detail::Unreadable, ..connection.clone() };
        let quota = ModelError::of_status("p", 429, r#"{"error":{"code":"insufficient_quota"}}"#);
        for (error, kind, status, retryable) in [
            (ModelError::of_status("p", 401, "{}"), "CONFIG_ERROR", json!(401), false),
            (ModelError::of_status("p", 400, "{}"), "VALIDATION_ERROR", json!(400), false),
            (ModelError::of_status("p", 429, "{}"), "RATE_LIMIT_ERROR", json!(429), true),
            (quota, "RATE_LIMIT_ERROR", json!(429), false),
            (ModelError::of_status("p", 500, "{}"), "API_ERROR", json!(500), true),
            (ModelError::of_status("p", 404, "{}"), "API_ERROR", json!(404), false),
            (connection, "NETWORK_ERROR", json!(null), true),
            (late, "TIMEOUT_ERROR", json!(null), true),
            (unreadable, "PARSE_ERROR", json!(null), false),
        ] {
            assert_eq!(of(error.clone()), (kind.into(), status, retryable), "{error:?}");
        }
    }

    #[test]
    fn lp_a04_a_profile_that_is_not_there_is_no_failure_that_passes() {
        let failed = Failed::of_profile(ProfileError::NotFound { id: "ghost".into() });
        let expected = NodeFailure::new("NotFoundError", "LLM Profile not found: ghost");
        assert_eq!(failed.failure, expected.lacking(Need::Profile { id: "ghost".into() }));
    }
}
