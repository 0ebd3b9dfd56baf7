//! `POST /v1/chat-messages`, blocking and streaming, and its stop: one message of a conversation.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::graph::SimpleMode;
use tidemill_common::ids::EntryId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::App;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::event::EventRecord;

use super::answer::{Mode, StartOutcome, begin, pause_data};
use super::user_conversation::UserConversation;
use super::versions::pinned;
use super::{
    check_chat, check_has_workflow, facts, renderer, stop, take_files, totals_so_far, truth, user_of,
};
use crate::api::ApiState;
use crate::api::auth::{CallingApp, CallingKey};
use crate::api::durability;
use crate::api::error::ApiError;
use crate::api::native::submit::idempotency;
use crate::api::request::{Body, IdInPath, take_object, take_text};
use crate::runs::projection::{ChatFailure, Projection, Totals};
use crate::runs::record::RunRecord;
use crate::submit::{Submission, SystemValues, WorkflowSource};

/// Events read at once.
const PAGE: usize = 512;

/// Answers a message. The run continues when the client leaves.
///
/// # Errors
/// Dify's 400s, the errors of [`crate::submit::SubmitError`], for a blocking request the failure of its run, and 404 for an
/// unknown version or, in an app that had no workflow, an unknown conversation.
pub async fn send(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut map = body.dify_object()?;
    let user = user_of(&map)?;
    check_chat(&app)?;
    let query = query(&mut map)?;
    let conversation = conversation(&mut map)?;
    let inputs = take_object(&mut map, "inputs")?;
    let mode = Mode::of(take_text(&mut map, "response_mode")?.as_deref())?;
    let inputs = inputs.ok_or_else(|| ApiError::invalid_param("inputs is required"))?;
    if mode == Mode::Blocking && app.mode == SimpleMode::AgentChat.name() {
        return Err(ApiError::invalid_param("Agent Chat App does not support blocking mode"));
    }
    let version = take_text(&mut map, "workflow_id")?;
    let app = match check_has_workflow(&app) {
        Ok(()) => pinned(&state, app, version.as_deref()).await?,
        // Such an app has no versions on Dify, and there it refuses a conversation that it does not know.
        Err(_) if conversation.is_empty() => app,
        Err(_) => {
            UserConversation::get(&state, &app, &user, &conversation).await?;
            app
        }
    };
    let submission = Submission {
        files: take_files(&mut map)?,
        only_known_conversation: !conversation.is_empty(),
        conversation_id: Some(conversation),
        query,
        is_nameless: !truth(&mut map, "auto_generate_name", true)?,
        user,
        key: Some(key),
        durability: durability::of_header(&headers)?,
        idempotency: idempotency(&headers, &format!("app {}", app.id), &body)?,
        ..Submission::of(WorkflowSource::App(app.clone()), SystemValues::Standard, inputs)
    };
    match begin(&state, &app, mode, submission).await? {
        StartOutcome::Answered(response) => Ok(response),
        StartOutcome::Paused(record, pause) => paused(&state, &app, record, &pause).await,
        StartOutcome::Waited(record) => result(&state, &app, record).await,
    }
}

/// `POST /v1/chat-messages/{id}/stop`: only the user who asked can stop a run. Others get the same answer, as on Dify.
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
    let user = user_of(&body.dify_object()?)?;
    check_chat(&app)?;
    stop::message(&state, &app, &id, &user, &headers).await
}

fn query(map: &mut JsonMap) -> Result<String, ApiError> {
    match map.remove("query") {
        Some(Json::String(query)) if !query.is_empty() => Ok(query.replace('\0', "")),
        None | Some(Json::Null | Json::String(_)) => Err(ApiError::invalid_param("query is required")),
        Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
            Err(ApiError::invalid_param("query must be a string"))
        }
    }
}

/// The id of the conversation, empty for a new one.
fn conversation(map: &mut JsonMap) -> Result<String, ApiError> {
    let id = take_text(map, "conversation_id")?.unwrap_or_default();
    let id = id.trim();
    if !id.is_empty() && uuid::Uuid::try_parse(id).is_err() {
        return Err(ApiError::invalid_param("conversation_id must be a valid UUID"));
    }
    Ok(id.to_ascii_lowercase())
}

/// The response to a blocking request.
pub(super) async fn result(state: &ApiState, app: &App, record: RunRecord) -> Result<Response, ApiError> {
    let id = record.id.to_string();
    let (_, graph) = renderer(state, &record).await?;
    match record.status {
        RunStatus::Succeeded | RunStatus::PartialSucceeded | RunStatus::Stopped => {}
        RunStatus::Failed => {
            let projection = projected(state, &record).await?;
            let error = record.error.as_deref().unwrap_or_default();
            let failure = ChatFailure::of(projection.failed_by(), error, graph.front.mode.is_some());
            return Err(ApiError::new(StatusCode::BAD_REQUEST, failure.code, failure.message));
        }
        RunStatus::Scheduled | RunStatus::Running | RunStatus::Paused => {
            let message = format!("the run has not ended yet; ask GET /v1/workflow/{id}/events");
            return Err(ApiError::unavailable(message));
        }
    }
    let projection = projected(state, &record).await?;
    let mut answer = message(app, &record, &projection);
    answer["event"] = "message".into();
    if let (Some(SimpleMode::Completion), Json::Object(fields)) = (graph.front.mode, &mut answer) {
        fields.shift_remove("conversation_id");
    }
    Ok(JsonBody(answer).into_response())
}

/// The response to a blocking request whose run waits for a person.
async fn paused(
    state: &ApiState,
    app: &App,
    record: RunRecord,
    pause: &EventRecord,
) -> Result<Response, ApiError> {
    let mut projection = projected(state, &record).await?;
    let (_, graph) = renderer(state, &record).await?;
    let totals = totals_so_far(state, record.id, &graph).await?;
    projection.set_totals(totals);
    let payloads = projection.project(pause);
    let data = payloads.first().map_or(&Json::Null, |payload| &payload["data"]);
    let mut answer = message(app, &record, &projection);
    answer["event"] = "workflow_paused".into();
    answer["workflow_run_id"] = record.id.to_string().into();
    answer["data"] = pause_data(&record, totals, data);
    Ok(JsonBody(answer).into_response())
}

fn message(app: &App, record: &RunRecord, projection: &Projection) -> Json {
    let id = record.id.to_string();
    json!({
        "event": "",
        "task_id": id,
        "id": id,
        "message_id": id,
        "conversation_id": record.conversation_id,
        // Of the app, because an answer in place of its workflow is the run of another one.
        "mode": app.mode,
        "answer": projection.linked_answer(),
        "metadata": projection.metadata(),
        "created_at": record.created_at.seconds(),
    })
}

/// A projection that has seen all events of a run so far.
async fn projected(state: &ApiState, record: &RunRecord) -> Result<Projection, ApiError> {
    let (render, graph) = renderer(state, record).await?;
    let mut projection = Projection::new(facts(state, record, &render).await?, graph);
    projection.set_totals(Totals::of(record));
    projection.withhold(state.submitter.withheld(record, &render).await?);
    let mut after = EntryId::ZERO;
    loop {
        let events = state.store.events(record.id, after, PAGE).await?;
        let Some(last) = events.last() else { return Ok(projection) };
        after = last.entry;
        for mut event in events {
            render.chunk(&mut event).await?;
            projection.project(&event);
        }
    }
}
