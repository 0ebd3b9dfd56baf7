//! `POST /v1/workflows/run`, blocking and streaming.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonBody};
use bytes::Bytes;
use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::ids::RunId;

use super::stream::{Stream, Wanted};
use super::{check_mode, find, renderer, user_of};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::events::{After, Follower, closing};
use crate::api::own::submit::idempotency;
use crate::api::record::{RunRecord, whole_seconds};
use crate::api::request::{Body, take_list, take_object, take_text};
use crate::api::sse;
use crate::submit::{Submission, SubmitError, SystemValues, WorkflowSource};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Blocking,
    Streaming,
}

/// Runs the app. However the client leaves, the run goes on.
///
/// # Errors
/// Dify's 400s; what [`SubmitError`] says. In streaming mode inputs that do not fit are an event, as on Dify.
pub async fn run(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut map = body.dify_object()?;
    let user = user_of(&map)?;
    check_mode(&app)?;
    let inputs = take_object(&mut map, "inputs")?;
    let mode = mode(take_text(&mut map, "response_mode")?.as_deref())?;
    let submission = Submission {
        workflow: WorkflowSource::App(app.clone()),
        inputs: inputs.ok_or_else(|| ApiError::invalid_param("inputs is required"))?,
        files: take_list(&mut map, "files")?,
        sys: SystemValues::Standard,
        conversation: serde_json::Map::new(),
        conversation_id: None,
        commands: Vec::new(),
        call_depth: 0,
        user,
        options: serde_json::Map::new(),
        idempotency: idempotency(&headers, &format!("app {}", app.id), &body)?,
    };
    let submitted = match state.submitter.submit(submission).await {
        Ok(submitted) => submitted,
        Err(SubmitError::Inputs { message, .. }) if mode == Mode::Streaming => return Ok(refused(&message)),
        Err(error) => return Err(error.into()),
    };
    let record = find(&state, &app, submitted.run).await?;
    let record = record.ok_or_else(|| ApiError::unavailable("the store lost the run; try again"))?;
    match mode {
        Mode::Streaming => Stream::answer(&state, record, After::Start, Wanted::Events).await,
        Mode::Blocking => {
            wait_for_end(&state, submitted.run).await;
            let record = find(&state, &app, submitted.run).await?;
            let record = record.ok_or_else(|| ApiError::not_found("Workflow run not found."))?;
            result(&state, record).await
        }
    }
}

/// The answer to a blocking request.
async fn result(state: &ApiState, mut record: RunRecord) -> Result<Response, ApiError> {
    let id = record.id.to_string();
    if !record.status.is_over() {
        let message = format!("the run goes on, its end was not waited for; ask GET /v1/workflows/run/{id}");
        return Err(ApiError::unavailable(message));
    }
    let (render, _) = renderer(state, &record).await?;
    render.named(&mut record.outputs).await?;
    let data = json!({
        "id": id,
        "workflow_id": record.version,
        "status": record.status.name(),
        "outputs": record.outputs,
        "error": record.error,
        "elapsed_time": record.elapsed(SystemClock.now()),
        "total_tokens": record.tokens.unwrap_or(0),
        "total_steps": record.steps.unwrap_or(0),
        "created_at": record.created_at.seconds(),
        "finished_at": whole_seconds(record.finished_at),
    });
    Ok(JsonBody(json!({"task_id": id, "workflow_run_id": id, "data": data})).into_response())
}

fn mode(given: Option<&str>) -> Result<Mode, ApiError> {
    match given {
        None | Some("blocking") => Ok(Mode::Blocking),
        Some("streaming") => Ok(Mode::Streaming),
        Some(_) => Err(ApiError::invalid_param("response_mode must be streaming or blocking")),
    }
}

/// Inputs that do not fit, as Dify tells it to a streaming client.
fn refused(message: &str) -> Response {
    let event: Json = json!({"event": "error", "message": message, "status": 500});
    let frames: [Bytes; 2] = [sse::DIFY_PING, sse::dify(None, &event)];
    sse::answer(futures_util::stream::iter(frames))
}

/// Returns when the run is over. A process that is told to stop waits nearly as long as it may.
async fn wait_for_end(state: &ApiState, run: RunId) {
    let mut follower = Follower::to_the_end(state, run);
    let end = async { while follower.next().await.is_some() {} };
    let mut shutdown = state.shutdown.clone();
    let grace = Duration::from_secs(state.config.scheduler.grace_seconds.saturating_sub(1));
    let stopped = async {
        closing(&mut shutdown).await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        () = end => {}
        () = stopped => {}
    }
}
