//! Every error of a request, and the body that reports it: `{"code", "message", "status"}`, as on Dify. Internal errors
//! are logged here, once, and not shown to the client.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use tidemill_common::dsl::Diagnostic;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Outage, StoreError};
use tidemill_common::wire::WireError;
use tidemill_common::workflows::WorkflowError;

use crate::background::limits::OverLimit;
use crate::features::NO_SPEECH;
use crate::submit::SubmitError;
use crate::submit::gate::NoVerdict;
use crate::submit::inner::InnerError;
use crate::workflows::GraphError;

/// The fields of an error about a write that may not survive.
pub(super) const RUN_ID: &str = "run_id";
const DURABILITY: &str = "durability";

/// A refused or failed request.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    cause: Cause,
    /// Additional fields of the body.
    details: Vec<(&'static str, Json)>,
}

/// The causes of errors that Dify's API answers in another way than ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Too much work waits already.
    Busy,
    /// The API key may spend nothing more.
    OverBudget,
    /// The app accepts no runs.
    AppClosed,
    /// The body of the request is too large.
    TooLarge,
    /// A defect, or a failure that the client cannot change.
    Internal,
    /// There is no such path.
    NoRoute,
    /// The path does not take this method.
    WrongMethod,
    /// All others.
    Other,
}

impl ApiError {
    /// An error with this status and code.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), cause: Cause::Other, details: Vec::new() }
    }
    /// 400 `invalid_param`: a value is invalid.
    pub fn invalid_param(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_param", message)
    }
    /// 400 `bad_request`: the request cannot be read.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }
    /// 400 `not_supported`: the request is valid, but this version cannot serve it.
    pub fn not_supported(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "not_supported", message)
    }
    /// 404 `not_found`.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }
    /// 401 `unauthorized`.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }
    /// 503 `unavailable`: the client can repeat the request a moment later.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }
    /// 422 `invalid_workflow`, with all problems of the file.
    pub fn invalid_workflow(diagnostics: &[Diagnostic]) -> Self {
        let first = diagnostics.iter().find(|d| d.is_error());
        let errors = diagnostics.iter().filter(|d| d.is_error()).count();
        let message = match first {
            Some(first) if errors > 1 => format!("{first} (and {} more problems)", errors - 1),
            Some(first) => first.to_string(),
            None => "the workflow cannot be run".to_string(),
        };
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_workflow", message)
            .with("diagnostics", diagnostics.iter().map(Diagnostic::to_json).collect())
    }
    /// 409 `run_over`: the run has ended and accepts no commands.
    pub fn run_over(status: RunStatus) -> Self {
        let message = format!("the run is over: {}", status.name());
        Self::new(StatusCode::CONFLICT, "run_over", message).with("run_status", status.name().into())
    }
    /// 400 for the failure of a model, in Dify's words by the error class of the node that asked it.
    pub fn of_model(class: &str, message: String) -> Self {
        let (code, message) = match class {
            NO_SPEECH => {
                ("provider_not_support_speech_to_text", "Provider not support speech to text.".into())
            }
            "ProviderTokenNotInitError" => ("provider_not_initialize", message),
            "QuotaExceededError" => ("provider_quota_exceeded", message),
            "ModelCurrentlyNotSupportError" => ("model_currently_not_support", message),
            _ => ("completion_request_error", message),
        };
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }
    /// The same error, with its cause.
    #[must_use]
    pub fn because(self, cause: Cause) -> Self {
        Self { cause, ..self }
    }
    /// The same error with another text.
    #[must_use]
    pub fn map_message(self, change: impl FnOnce(&str) -> String) -> Self {
        Self { message: change(&self.message), ..self }
    }
    /// The same error without additional fields, but with `params`, which Dify knows, and with those of a client that has
    /// asked for durability.
    #[must_use]
    pub fn without_details(mut self) -> Self {
        self.details.retain(|(key, _)| ["params", RUN_ID, DURABILITY].contains(key));
        self
    }
    /// Adds a field to the body.
    pub fn with(mut self, key: &'static str, value: Json) -> Self {
        self.details.push((key, value));
        self
    }
    /// 500 `internal_server_error`. The cause is logged, and not in the body.
    fn internal(cause: &dyn std::error::Error) -> Self {
        tracing::error!(error = %cause, "request failed");
        let message = "Internal Server Error, please contact support.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_server_error", message)
            .because(Cause::Internal)
    }
    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }
    /// Dify's word for the kind of error.
    pub fn code(&self) -> &'static str {
        self.code
    }
    /// The cause.
    pub fn cause(&self) -> Cause {
        self.cause
    }
    /// The text for the client.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = json!({"code": self.code, "message": self.message, "status": self.status.as_u16()});
        for (key, value) in &self.details {
            body[key] = value.clone();
        }
        let mut response = (self.status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"api\""));
        }
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        // Below `/v1` the answer is written again in Dify's words.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if let Some(outage) = Outage::of(&error) {
            tracing::warn!(error = %error, "store does not take the request");
            return Self::unavailable(format!("{}; try again in a moment", outage.words()));
        }
        if let StoreError::Unusable(_) = error {
            tracing::error!(error = %error, "store cannot be used");
            return Self::unavailable(
                "the store cannot be used as it is set up; the scheduler's log has the reason",
            );
        }
        if let StoreError::Newer { .. } = error {
            // This happens during an upgrade: another scheduler is new enough.
            return Self::unavailable(error.to_string());
        }
        Self::internal(&error)
    }
}

impl From<WireError> for ApiError {
    fn from(error: WireError) -> Self {
        if let WireError::Version { .. } = error {
            return Self::unavailable(error.to_string());
        }
        Self::internal(&error)
    }
}

impl From<GraphError> for ApiError {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::Store(error) => error.into(),
            GraphError::Invalid(diagnostics) => Self::invalid_workflow(&diagnostics),
            GraphError::Moderated(why) => Self::invalid_workflow(&[*why]),
            error @ GraphError::SealGiven(_) => {
                Self::new(StatusCode::FORBIDDEN, "forbidden", error.to_string())
            }
            GraphError::Secrets(error) | GraphError::Stored(WorkflowError::Secrets(error)) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "secrets_unusable", error.to_string())
            }
            error @ (GraphError::Stored(_) | GraphError::Broken(_)) => Self::internal(&error),
        }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let message = error.to_string();
        match error {
            SubmitError::Workflow(error) => error.into(),
            SubmitError::OverBudget(_) => {
                let refused = Self::new(StatusCode::PAYMENT_REQUIRED, "budget_exceeded", message);
                refused.because(Cause::OverBudget)
            }
            SubmitError::OverLimit(_) => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_runs", message).because(Cause::Busy)
            }
            SubmitError::AppOff(_) => {
                Self::new(StatusCode::CONFLICT, "app_off", message).because(Cause::AppClosed)
            }
            SubmitError::AppRemoved(_) => {
                Self::new(StatusCode::CONFLICT, "app_removing", message).because(Cause::AppClosed)
            }
            SubmitError::Store(error) => error.into(),
            SubmitError::Inputs { invalid_param: false, .. } => Self::internal(&error),
            SubmitError::Inputs { invalid_param: true, .. }
            | SubmitError::UnknownOption { .. }
            | SubmitError::Option { .. }
            | SubmitError::Conversation { .. }
            | SubmitError::Memory(_)
            | SubmitError::ForeignConversation
            | SubmitError::Command { .. }
            | SubmitError::Root(_)
            | SubmitError::ConversationId
            | SubmitError::CallDepth(_)
            | SubmitError::Snapshot(_)
            | SubmitError::Moderated(_)
            | SubmitError::User => Self::invalid_param(message),
            SubmitError::NotSupported(_) => Self::not_supported(message),
            SubmitError::ValueTooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "value_too_large", message)
            }
            SubmitError::Passed => Self::new(StatusCode::CONFLICT, "schedule_passed", message),
            SubmitError::KeyTaken => Self::new(StatusCode::CONFLICT, "idempotency_conflict", message),
            SubmitError::Busy | SubmitError::QueueFull => Self::unavailable(message).because(Cause::Busy),
            SubmitError::Undurable(_) => {
                Self::new(StatusCode::BAD_REQUEST, "durability_unsupported", message)
            }
            SubmitError::Unconfirmed { run, .. } => {
                let unknown = Self::new(StatusCode::SERVICE_UNAVAILABLE, "durability_unknown", message);
                unknown.with(RUN_ID, run.to_string().into()).with(DURABILITY, "unknown".into())
            }
            SubmitError::BlobGone | SubmitError::Uploads | SubmitError::ModerationFailed => {
                Self::unavailable(message)
            }
        }
    }
}

impl From<OverLimit> for ApiError {
    /// Too many requests within a second. Dify's code for a limit of a rate.
    fn from(over: OverLimit) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", over.to_string())
    }
}

impl From<NoVerdict> for ApiError {
    fn from(error: NoVerdict) -> Self {
        match error {
            NoVerdict::Store(error) => error.into(),
            NoVerdict::Late => Self::unavailable(error.to_string()),
        }
    }
}

impl From<InnerError> for ApiError {
    fn from(error: InnerError) -> Self {
        match error {
            InnerError::Submit(error) => error.into(),
            InnerError::Unreadable(error) => error.into(),
            InnerError::Late { .. } | InnerError::Gone => Self::unavailable(error.to_string()),
            InnerError::Failed { class, message } => Self::of_model(&class, message),
        }
    }
}
