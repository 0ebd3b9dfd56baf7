//! `POST /v1/workflows/tasks/{id}/stop`. The id of a task is the id of its run.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::store::{App, Durability, RunCommand, Sent};
use tidemill_common::wire::fact;

use super::{check_mode, find_any, user_of};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::durability;
use crate::api::error::ApiError;
use crate::api::native::commands::findable;
use crate::api::request::{Body, IdInPath};

/// Dify's reason for a stop through its API.
const STOP_REASON: &str = "User requested stop";

/// Stops a run of this app. The answer for an unknown run is the same, as on Dify.
///
/// # Errors
/// 400 without a user.
pub async fn stop(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
    headers: HeaderMap,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    user_of(&body.dify_object()?)?;
    check_mode(&app)?;
    let level = state.submitter.durability(durability::of_header(&headers)?);
    if let Ok(run) = id.run()
        && find_any(&state, &app, run).await?.is_some()
    {
        send(&state, run, level).await?;
    }
    Ok(JsonBody(json!({"result": "success"})))
}

/// Stops the run of a message, for the user who asked. Others get the same answer, as on Dify.
///
/// # Errors
/// An error of the store.
pub(super) async fn message(
    state: &ApiState,
    app: &App,
    id: &IdInPath,
    user: &str,
    headers: &HeaderMap,
) -> Result<JsonBody<Json>, ApiError> {
    let level = state.submitter.durability(durability::of_header(headers)?);
    if let Ok(run) = id.run()
        && find_any(state, app, run).await?.is_some_and(|record| record.user == user)
    {
        send(state, run, level).await?;
    }
    Ok(JsonBody(json!({"result": "success"})))
}

/// Sends the command to stop to a run.
async fn send(state: &ApiState, run: RunId, level: Durability) -> Result<(), ApiError> {
    state.submitter.gives(level).await?;
    let mut command = RunCommand::new(fact::kind::STOP, fact::stop_body(STOP_REASON));
    let written = findable(run, &mut command, level);
    let sent = state.store.send_command(run, &command).await?;
    tracing::info!(%run, ?sent, "stop requested");
    match written {
        Some(written) if sent == Sent::Accepted => Ok(state.submitter.confirm(written, level).await?),
        Some(_) | None => Ok(()),
    }
}
