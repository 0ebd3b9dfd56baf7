//! Failures of model calls: Dify's error classes, and messages that name provider, class and cause.

use serde_json::Value as Json;
use tidemill_common::failure::NodeFailure;
use tidemill_common::need::Need;
use tidemill_common::nodes::llm::usage::Tokens;

/// Longest provider message that is passed on, in characters. Real messages are shorter; the web page of a broken proxy
/// is longer.
const DETAIL_CHARS_MAX: usize = 1000;

/// Error classes with Dify's names. Workflows branch on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The provider was unreachable, or the reply broke off.
    Connection,
    /// The provider has a failure.
    ServerUnavailable,
    RateLimit,
    /// The key is wrong, or lacks a permission.
    Authorization,
    /// The provider rejects the request.
    BadRequest,
    /// There is no profile or no key for this provider.
    NotInitialized,
    /// A value is invalid before anything is sent (Dify's `ValueError`).
    Value,
}

impl ErrorClass {
    /// Dify's class name, the `error_type` of the node.
    pub const fn error_type(self) -> &'static str {
        match self {
            Self::Connection => "InvokeConnectionError",
            Self::ServerUnavailable => "InvokeServerUnavailableError",
            Self::RateLimit => "InvokeRateLimitError",
            Self::Authorization => "InvokeAuthorizationError",
            Self::BadRequest => "InvokeBadRequestError",
            Self::NotInitialized => "ProviderTokenNotInitError",
            Self::Value => "ValueError",
        }
    }

    /// The class's message text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Connection => "Connection Error",
            Self::ServerUnavailable => "Server Unavailable Error",
            Self::RateLimit => "Rate Limit Error",
            Self::Authorization => "Incorrect model credentials provided, please check and try again",
            Self::BadRequest => "Bad Request Error",
            Self::NotInitialized => "Model credentials are not initialized",
            Self::Value => "Value Error",
        }
    }
}

/// The failure of a model call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub class: ErrorClass,
    /// `[provider] class, cause`, without secrets.
    pub message: String,
    /// True when the same request may succeed later.
    pub retryable: bool,
    /// The provider's own hint about a retry (`x-should-retry`). Retries of the call follow it; a node's retries do
    /// not.
    pub hint: Option<bool>,
    /// The wait the provider asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    pub detail: Detail,
    /// Estimated tokens of a reply that broke off, because they were paid for.
    pub lost: Tokens,
    /// As [`NodeFailure::lacks`].
    pub lacks: Option<Box<Need>>,
}

/// More information about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    #[default]
    None,
    /// The HTTP status of the answer.
    Status(u16),
    /// No answer came in time.
    Late,
    /// The answer could not be parsed.
    Unreadable,
    /// The API does not have the operation.
    Lacking,
}

impl ModelError {
    /// Creates a failure with its class and cause.
    pub fn new(label: &str, class: ErrorClass, cause: &str) -> Self {
        let message = format!("[{label}] {}, {}", class.text(), cut(cause));
        let (detail, lost) = (Detail::None, Tokens::default());
        Self { class, message, retryable: false, hint: None, retry_after_ms: None, detail, lost, lacks: None }
    }

    /// A value that cannot be sent, with exactly this message.
    pub fn value(message: impl Into<String>) -> Self {
        let (class, message) = (ErrorClass::Value, message.into());
        let (detail, lost) = (Detail::None, Tokens::default());
        Self { class, message, retryable: false, hint: None, retry_after_ms: None, detail, lost, lacks: None }
    }

    /// Marks it as caused by the set-up of this worker.
    #[must_use]
    pub fn for_want_of(self, need: Need) -> Self {
        Self { lacks: Some(Box::new(need)), ..self }
    }

    /// The API does not support the operation.
    pub fn lacking(label: &str, model: &str, what: &str) -> Self {
        let cause = format!("the API of the model {model} has no {what}");
        Self { detail: Detail::Lacking, ..Self::new(label, ErrorClass::BadRequest, &cause) }
    }

    /// The reply broke off before its end.
    pub fn broke_off(label: &str) -> Self {
        Self::new(label, ErrorClass::Connection, "the reply broke off before its end").passing()
    }

    /// Returns the class and the detail, for logs. The message may contain the prompt and so a secret of the
    /// workflow, which the log could not mask.
    pub fn brief(&self) -> String {
        let class = self.class.error_type();
        match self.detail {
            Detail::None => class.to_owned(),
            Detail::Status(status) => format!("{class}, status {status}"),
            Detail::Late => format!("{class}, no answer in time"),
            Detail::Unreadable => format!("{class}, unreadable answer"),
            Detail::Lacking => format!("{class}, no such operation"),
        }
    }

    /// Returns true if the call is worth a retry.
    pub fn may_be_tried_again(&self) -> bool {
        self.hint.unwrap_or(self.retryable)
    }

    /// Marks the failure as retryable.
    #[must_use]
    pub fn passing(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// An answer with an error status and its body.
    pub fn of_status(label: &str, status: u16, body: &str) -> Self {
        let parsed = match serde_json::from_str::<Json>(body) {
            // Gemini's OpenAI-compatible API puts its error into a list.
            Ok(Json::Array(mut list)) if list.len() == 1 => list.swap_remove(0),
            Ok(parsed) => parsed,
            Err(_) => Json::Null,
        };
        let detail = error_text(&parsed).unwrap_or_else(|| body.trim().to_owned());
        let cause =
            if detail.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {detail}") };
        let (class, retryable) = class_of_status(status, &parsed);
        Self { retryable, detail: Detail::Status(status), ..Self::new(label, class, &cause) }
    }

    /// An error object inside a stream that started successfully.
    pub fn in_stream(label: &str, body: &Json) -> Self {
        let detail = error_text(body).unwrap_or_else(|| body.to_string());
        let (class, retryable) = class_of_kind(body);
        Self { retryable, ..Self::new(label, class, &format!("the reply ended with an error: {detail}")) }
    }
}

impl From<ModelError> for NodeFailure {
    fn from(error: ModelError) -> Self {
        Self {
            message: error.message,
            error_type: error.class.error_type().into(),
            retryable: error.retryable,
            retry_after_ms: error.retry_after_ms,
            lacks: error.lacks,
        }
    }
}

/// The class of a status, and whether the same request may succeed later.
fn class_of_status(status: u16, body: &Json) -> (ErrorClass, bool) {
    match status {
        401 | 403 => (ErrorClass::Authorization, false),
        408 => (ErrorClass::Connection, true),
        409 => (ErrorClass::BadRequest, true),
        425 => (ErrorClass::ServerUnavailable, true),
        // A used-up quota does not return during a call.
        429 => (ErrorClass::RateLimit, !mentions_kind(body, &["insufficient_quota"])),
        501 | 505 => (ErrorClass::ServerUnavailable, false),
        500.. => (ErrorClass::ServerUnavailable, true),
        _ => (ErrorClass::BadRequest, false),
    }
}

/// Names of errors without their own status: those of OpenAI and Anthropic, and statuses as codes.
const KINDS: [(&[&str], ErrorClass, bool); 4] = [
    (&["insufficient_quota"], ErrorClass::RateLimit, false),
    (&["rate_limit_error", "rate_limit_exceeded", "429"], ErrorClass::RateLimit, true),
    (
        &["authentication_error", "permission_error", "invalid_api_key", "401", "403"],
        ErrorClass::Authorization,
        false,
    ),
    (
        &[
            "invalid_request_error",
            "context_length_exceeded",
            "content_filter",
            "not_found_error",
            "model_not_found",
            "request_too_large",
            "billing_error",
            "400",
            "402",
            "404",
            "413",
            "422",
        ],
        ErrorClass::BadRequest,
        false,
    ),
];

/// The class of an error without its own status. Unknown errors count as retryable.
fn class_of_kind(body: &Json) -> (ErrorClass, bool) {
    let known = KINDS.iter().find(|(names, ..)| mentions_kind(body, names));
    known.map_or((ErrorClass::ServerUnavailable, true), |(_, class, retryable)| (*class, *retryable))
}

/// Returns true if the error's type or code is one of these.
fn mentions_kind(body: &Json, kinds: &[&str]) -> bool {
    let error = body.get("error").unwrap_or(body);
    ["type", "code"].iter().filter_map(|key| error.get(key)).any(|value| match value {
        Json::String(text) => kinds.contains(&text.as_str()),
        Json::Number(number) => kinds.contains(&number.to_string().as_str()),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => false,
    })
}

/// The text of an error, in any of the forms of OpenAI-compatible servers.
fn error_text(body: &Json) -> Option<String> {
    let text = |value: &Json| match value {
        Json::String(text) => Some(text.clone()),
        Json::Object(map) => map.get("message").and_then(Json::as_str).map(str::to_owned),
        Json::Array(_) => Some(value.to_string()),
        Json::Null | Json::Bool(_) | Json::Number(_) => None,
    };
    ["error", "detail", "message", "error_msg"]
        .iter()
        .filter_map(|key| body.get(key))
        .find_map(text)
        .filter(|text| !text.is_empty())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((at, _)) => format!("{}… (cut)", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_becomes_a_class_and_says_whether_to_try_again() {
        for (status, body, error_type, retryable) in [
            (400, "{}", "InvokeBadRequestError", false),
            (401, "{}", "InvokeAuthorizationError", false),
            (402, "{}", "InvokeBadRequestError", false),
            (403, "{}", "InvokeAuthorizationError", false),
            (404, "{}", "InvokeBadRequestError", false),
            (405, "", "InvokeBadRequestError", false),
            (410, "", "InvokeBadRequestError", false),
            (413, "", "InvokeBadRequestError", false),
            (415, "", "InvokeBadRequestError", false),
            (400, r#"{"error":{"code":"content_filter"}}"#, "InvokeBadRequestError", false),
            (408, "", "InvokeConnectionError", true),
            (409, "", "InvokeBadRequestError", true),
            (422, "", "InvokeBadRequestError", false),
            (425, "", "InvokeServerUnavailableError", true),
            (429, "{}", "InvokeRateLimitError", true),
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, "InvokeRateLimitError", false),
            (500, "", "InvokeServerUnavailableError", true),
            (501, "", "InvokeServerUnavailableError", false),
            (502, "", "InvokeServerUnavailableError", true),
            (503, "", "InvokeServerUnavailableError", true),
            (504, "", "InvokeServerUnavailableError", true),
            (505, "", "InvokeServerUnavailableError", false),
            (520, "", "InvokeServerUnavailableError", true),
            (524, "", "InvokeServerUnavailableError", true),
            (529, "", "InvokeServerUnavailableError", true),
            (302, "", "InvokeBadRequestError", false),
        ] {
            let error = ModelError::of_status("p", status, body);
            assert_eq!(
                (error.class.error_type(), error.retryable),
                (error_type, retryable),
                "{status} {body}"
            );
        }
    }

    #[test]
    fn the_providers_own_words_are_in_the_message() {
        for (body, message) in [
            (r#"{"error":{"message":"slow down"}}"#, "[p] Rate Limit Error, HTTP 429: slow down"),
            (r#"{"error":"slow down"}"#, "[p] Rate Limit Error, HTTP 429: slow down"),
            (r#"{"detail":"slow down"}"#, "[p] Rate Limit Error, HTTP 429: slow down"),
            (
                r#"{"object":"error","message":"slow down","code":429}"#,
                "[p] Rate Limit Error, HTTP 429: slow down",
            ),
            (r#"{"error_code":1,"error_msg":"slow down"}"#, "[p] Rate Limit Error, HTTP 429: slow down"),
            ("slow down\n", "[p] Rate Limit Error, HTTP 429: slow down"),
            ("", "[p] Rate Limit Error, HTTP 429"),
        ] {
            assert_eq!(ModelError::of_status("p", 429, body).to_string(), message);
        }
    }

    #[test]
    fn an_error_within_a_stream_has_a_class_by_its_type_or_code() {
        for (body, error_type) in [
            (r#"{"error":{"type":"rate_limit_error","message":"m"}}"#, "InvokeRateLimitError"),
            (r#"{"error":{"code":"invalid_api_key","message":"m"}}"#, "InvokeAuthorizationError"),
            (r#"{"object":"error","message":"m","code":400}"#, "InvokeBadRequestError"),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
                "InvokeServerUnavailableError",
            ),
            (
                r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#,
                "InvokeServerUnavailableError",
            ),
            (r#"{"type":"error","error":{"type":"not_found_error","message":"m"}}"#, "InvokeBadRequestError"),
            (r#"{"error":"m"}"#, "InvokeServerUnavailableError"),
        ] {
            let error = ModelError::in_stream("p", &serde_json::from_str(body).unwrap());
            assert_eq!(error.class.error_type(), error_type, "{body}");
            assert!(error.message.ends_with(": m"), "{error}");
        }
    }

    #[test]
    fn long_pages_are_cut() {
        assert!(ModelError::of_status("p", 500, &"é".repeat(5000)).message.chars().count() < 1100);
    }
}
