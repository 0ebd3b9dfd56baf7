//! `POST /api/v1/runs/{id}/commands`.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::store::Sent;
use tidemill_common::wire::fact;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, take_text};

/// Dify's reason when nobody gives one.
const STOP_REASON: &str = "User requested abort";

/// Sends a command. 202: it will take effect, unless the run ends before.
///
/// # Errors
/// 404, 409 `run_ended`, 400 for what cannot be commanded.
pub async fn send(
    State(state): State<ApiState>,
    id: IdInPath,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let run = id.run()?;
    let mut map = body.object()?;
    match take_text(&mut map, "command")?.as_deref() {
        Some("stop") => {}
        Some(other) => {
            return Err(ApiError::not_supported(format!("command {other} is not supported; there is stop")));
        }
        None => return Err(ApiError::invalid_param("command is required")),
    }
    let reason = take_text(&mut map, "reason")?.unwrap_or_else(|| STOP_REASON.into());
    if let Some(unknown) = map.keys().next() {
        return Err(ApiError::invalid_param(format!("unknown key {unknown} in the request")));
    }
    match state.store.send_command(run, fact::kind::STOP, &fact::stop_body(&reason)).await? {
        Sent::Accepted => Ok((StatusCode::ACCEPTED, JsonBody(json!({"accepted": true})))),
        Sent::NotFound => Err(ApiError::not_found("Workflow run not found.")),
        Sent::Over(status) => {
            let message = format!("the run is over: {}", status.name());
            Err(ApiError::new(StatusCode::CONFLICT, "run_ended", message))
        }
    }
}
