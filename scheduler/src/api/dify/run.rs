//! `POST /v1/workflows/run`, blocking and streaming.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonBody};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::ids::RunId;
use tidemill_common::machine::run::RunStatus;
use tidemill_common::wire::event::{EventRecord, kind};
use tokio::time::Instant;

use super::stream::{Stream, Wanted};
use super::{check_mode, facts, find, renderer, totals_so_far, user_of};
use crate::api::ApiState;
use crate::api::auth::{CallingApp, CallingKey};
use crate::api::error::ApiError;
use crate::api::events::{After, Follower, News, PING_EVERY, closing};
use crate::api::own::submit::idempotency;
use crate::api::projection::Projection;
use crate::api::record::{RunRecord, whole_seconds};
use crate::api::request::{Body, take_list, take_object, take_text};
use crate::api::sse;
use crate::submit::{Submission, SubmitError, SystemValues, WorkflowSource};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
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
    Extension(CallingKey(key_id)): Extension<CallingKey>,
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
        only_known_conversation: false,
        query: String::new(),
        memory: Vec::new(),
        commands: Vec::new(),
        call_depth: 0,
        key: Some(key_id),
        user,
        options: serde_json::Map::new(),
        idempotency: idempotency(&headers, &format!("app {}", app.id), &body)?,
        root: None,
        run: None,
        schedule: None,
        called: None,
        has_files: false,
    };
    let submitted = match state.submitter.submit(submission).await {
        Ok(submitted) => submitted,
        Err(SubmitError::Inputs { message, .. }) if mode == Mode::Streaming => {
            return Ok(refused(&state, &message));
        }
        Err(error) => return Err(error.into()),
    };
    let record = find(&state, &app, submitted.run).await?;
    let record = record.ok_or_else(|| ApiError::unavailable("the store lost the run; try again"))?;
    match mode {
        Mode::Streaming => Stream::answer(&state, record, After::Start, Wanted::default()).await,
        Mode::Blocking => {
            let pause = wait_for_end(&state, submitted.run).await;
            let record = find(&state, &app, submitted.run).await?;
            let record = record.ok_or_else(|| ApiError::not_found("Workflow run not found."))?;
            match pause {
                Some(pause) if record.status == RunStatus::Paused => paused(&state, record, pause).await,
                Some(_) | None => result(&state, record).await,
            }
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
    render.outputs(&mut record.outputs).await?;
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

/// The answer to a blocking request whose run waits for somebody.
async fn paused(state: &ApiState, record: RunRecord, pause: EventRecord) -> Result<Response, ApiError> {
    let (render, graph) = renderer(state, &record).await?;
    let totals = totals_so_far(state, record.id, &graph).await?;
    let mut projection = Projection::new(facts(state, &record, &render).await?, graph);
    let told = projection.project(&pause);
    let told = told.first().map_or(&Json::Null, |payload| &payload["data"]);
    let id = record.id.to_string();
    let data = json!({
        "id": id,
        "workflow_id": record.version,
        "status": record.status.name(),
        "outputs": {},
        "error": null,
        "elapsed_time": record.elapsed(SystemClock.now()),
        "total_tokens": totals.tokens,
        "total_steps": totals.steps,
        "created_at": record.created_at.seconds(),
        "finished_at": null,
        "paused_nodes": told["paused_nodes"],
        "reasons": told["reasons"],
    });
    Ok(JsonBody(json!({"task_id": id, "workflow_run_id": id, "data": data})).into_response())
}

pub(super) fn mode(given: Option<&str>) -> Result<Mode, ApiError> {
    match given {
        None | Some("blocking") => Ok(Mode::Blocking),
        Some("streaming") => Ok(Mode::Streaming),
        Some(_) => Err(ApiError::invalid_param("response_mode must be streaming or blocking")),
    }
}

/// Inputs that do not fit, as Dify tells it to a streaming client.
pub(super) fn refused(state: &ApiState, message: &str) -> Response {
    let event: Json = json!({"event": "error", "message": message, "status": 500});
    let frames: [Bytes; 2] = [sse::DIFY_PING, sse::dify(None, &event)];
    let frames = futures_util::stream::iter(frames);
    if state.config.compat.error_event_closes_stream {
        return sse::answer(frames);
    }
    sse::answer(frames.chain(pings(state)))
}

/// Signs of life until the stream was silent for as long as it may be, or the process stops.
fn pings(state: &ApiState) -> impl futures_util::Stream<Item = Bytes> + use<> {
    let until = Instant::now() + Duration::from_secs(state.config.scheduler.stream_idle_seconds);
    futures_util::stream::unfold((state.shutdown.clone(), until), async |(mut shutdown, until)| {
        let next = (Instant::now() + PING_EVERY).min(until);
        let is_closing = tokio::select! {
            () = closing(&mut shutdown) => true,
            () = tokio::time::sleep_until(next) => false,
        };
        (!is_closing && next < until).then_some((sse::DIFY_PING, (shutdown, until)))
    })
}

/// Returns when the run is over, or waits for somebody: then with the event that says so. A process that is told to
/// stop waits nearly as long as it may.
pub(super) async fn wait_for_end(state: &ApiState, run: RunId) -> Option<EventRecord> {
    let mut follower = Follower::to_the_end(state, run);
    let end = async {
        while let Some(news) = follower.next().await {
            let News::Entry(entry) = news else { continue };
            let mut events = entry.events.events();
            let pause = events.find(|(event, _)| event.kind == kind::GRAPH_RUN_PAUSED);
            let pause = pause.and_then(|(event, is_last)| event.record(entry.events.id, is_last).ok());
            if pause.is_some() && is_paused(state, run).await {
                return pause;
            }
        }
        None
    };
    let mut shutdown = state.shutdown.clone();
    let grace = Duration::from_secs(state.config.scheduler.grace_seconds.saturating_sub(1));
    let stopped = async {
        closing(&mut shutdown).await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        pause = end => pause,
        () = stopped => None,
    }
}

/// Whether the run still waits: one that goes on already has an end to wait for.
async fn is_paused(state: &ApiState, run: RunId) -> bool {
    let fields = state.store.run_fields(run).await.ok().flatten();
    fields.is_some_and(|fields| fields.get("status").map(String::as_str) == Some(RunStatus::Paused.name()))
}
