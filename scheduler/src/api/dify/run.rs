//! `POST /v1/workflows/run` and `POST /v1/workflows/{workflow_id}/run`, blocking and streaming.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::store::App;
use tidemill_common::wire::event::EventRecord;

use super::answer::{Mode, StartOutcome, begin, pause_data};
use super::versions::pinned;
use super::{check_mode, facts, links, owner_of, renderer, take_files, totals_so_far, user_of};
use crate::api::ApiState;
use crate::api::auth::{CallingApp, CallingKey};
use crate::api::durability;
use crate::api::error::ApiError;
use crate::api::native::submit::idempotency;
use crate::api::request::{Body, IdInPath, take_object, take_text};
use crate::runs::end_user;
use crate::runs::projection::{Projection, clean_outputs};
use crate::runs::record::{RunRecord, whole_seconds};
use crate::submit::{Submission, SystemValues, WorkflowSource};

/// Runs the app. The run continues when the client leaves.
///
/// # Errors
/// Dify's 400s, and the errors of [`crate::submit::SubmitError`]. In streaming mode wrong inputs are reported by an
/// event.
pub async fn run(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    start(&state, app, key, None, &headers, &body).await
}

/// `POST /v1/workflows/{workflow_id}/run`: runs a version of the app.
///
/// # Errors
/// As [`run`]; 400 for a malformed id of a version, 404 for an unknown one.
pub async fn run_version(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    IdInPath(version): IdInPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    start(&state, app, key, Some(&version), &headers, &body).await
}

async fn start(
    state: &ApiState,
    app: Arc<App>,
    key: String,
    version: Option<&str>,
    headers: &HeaderMap,
    body: &Body,
) -> Result<Response, ApiError> {
    let mut map = body.dify_object()?;
    let user = user_of(&map)?;
    check_mode(&app)?;
    let inputs = take_object(&mut map, "inputs")?;
    let mode = Mode::of(take_text(&mut map, "response_mode")?.as_deref())?;
    let inputs = inputs.ok_or_else(|| ApiError::invalid_param("inputs is required"))?;
    let who = match version {
        None => format!("app {}", app.id),
        Some(version) => format!("app {} version {version}", app.id),
    };
    let app = pinned(state, app, version).await?;
    let submission = Submission {
        files: take_files(&mut map)?,
        key: Some(key),
        user,
        durability: durability::of_header(headers)?,
        idempotency: idempotency(headers, &who, body)?,
        ..Submission::of(WorkflowSource::App(app.clone()), SystemValues::Standard, inputs)
    };
    match begin(state, &app, mode, submission).await? {
        StartOutcome::Answered(response) => Ok(response),
        StartOutcome::Paused(record, pause) => paused(state, record, &pause).await,
        StartOutcome::Waited(record) => result(state, record).await,
    }
}

/// The response to a blocking request.
async fn result(state: &ApiState, mut record: RunRecord) -> Result<Response, ApiError> {
    let id = record.id.to_string();
    if !record.status.is_over() {
        let message = format!("the run has not ended yet; ask GET /v1/workflows/run/{id}");
        return Err(ApiError::unavailable(message));
    }
    let (render, _) = renderer(state, &record).await?;
    let withheld = state.submitter.withheld(&record, &render).await?;
    render.outputs(&mut record.outputs).await?;
    clean_outputs(render.features(), withheld.as_deref(), &mut record.outputs);
    let links = links(state).await?.shown_to(owner_of(&record));
    links.fill(record.outputs.values_mut());
    record.outputs.values_mut().for_each(|value| links.fill_texts(value));
    let data = json!({
        "id": id,
        "workflow_id": record.workflow_id(),
        "status": record.status.name(),
        "outputs": record.outputs,
        "error": end_user::error(record.error.clone().into()),
        "elapsed_time": record.elapsed_since_pause(SystemClock.now()),
        "total_tokens": record.tokens.unwrap_or(0),
        "total_steps": record.steps.unwrap_or(0),
        "created_at": record.created_at.seconds(),
        "finished_at": whole_seconds(record.finished_at),
    });
    Ok(JsonBody(json!({"task_id": id, "workflow_run_id": id, "data": data})).into_response())
}

/// The response to a blocking request whose run waits for a person.
async fn paused(state: &ApiState, record: RunRecord, pause: &EventRecord) -> Result<Response, ApiError> {
    let (render, graph) = renderer(state, &record).await?;
    let totals = totals_so_far(state, record.id, &graph).await?;
    let mut projection = Projection::new(facts(state, &record, &render).await?, graph);
    let payloads = projection.project(pause);
    let pause_payload = payloads.first().map_or(&Json::Null, |payload| &payload["data"]);
    let mut data = pause_data(&record, totals, pause_payload);
    data["outputs"] = json!({});
    data["error"] = Json::Null;
    data["finished_at"] = Json::Null;
    let id = record.id.to_string();
    Ok(JsonBody(json!({"task_id": id, "workflow_run_id": id, "data": data})).into_response())
}
