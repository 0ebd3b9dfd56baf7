//! Errors below `/v1` in Dify's words. All handlers return the same [`ApiError`]s; here those that Dify knows under another
//! code, status or text get these, and the others lose what only an operator may read.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::error::{ApiError, Cause};
use crate::runs::end_user;

/// Rewrites the answer if it is an error.
pub(in crate::api) async fn as_dify(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let Some(error) = response.extensions_mut().remove::<ApiError>() else { return response };
    let (mut head, _) = response.into_parts();
    let (said, body) = in_difys_words(error).into_response().into_parts();
    head.status = said.status;
    head.headers.extend(said.headers);
    Response::from_parts(head, body)
}

/// The error as Dify answers it.
pub(in crate::api) fn in_difys_words(error: ApiError) -> ApiError {
    match error.cause() {
        Cause::Busy => ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_requests",
            "Too many requests. Please try again later.",
        ),
        Cause::OverBudget => {
            let message = shown(&error);
            ApiError::new(StatusCode::BAD_REQUEST, "provider_quota_exceeded", message)
        }
        Cause::AppClosed => super::app_unavailable(),
        Cause::TooLarge => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "request_entity_too_large",
            "The data value transmitted exceeds the capacity limit.",
        ),
        Cause::Internal => ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_server_error",
            "The server encountered an internal error and was unable to complete your request. Either the server is \
             overloaded or there is an error in the application.",
        ),
        Cause::NoRoute => ApiError::not_found(
            "The requested URL was not found on the server. If you entered the URL manually please check your spelling \
             and try again.",
        ),
        Cause::WrongMethod => ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "The method is not allowed for the requested URL.",
        ),
        Cause::Other => {
            let message = shown(&error);
            error.map_message(|_| message).without_details()
        }
    }
}

/// The text for end users. Which settings it named is logged: the operator has to change them. The whole text may hold
/// secrets.
fn shown(error: &ApiError) -> String {
    let message = end_user::error_text(error.message());
    let hidden = end_user::hidden_settings(error.message(), &message);
    if !hidden.is_empty() {
        tracing::info!(
            code = error.code(),
            settings = hidden.join(", "),
            "an error was shown without names of settings"
        );
    }
    message.into_owned()
}
