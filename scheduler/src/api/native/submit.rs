//! `POST /api/v1/runs`.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;

use crate::api::ApiState;
use crate::api::auth::sha256_hex;
use crate::api::error::ApiError;
use crate::api::native::apps;
use crate::api::request::{Body, nothing_left, take_count, take_list, take_object, take_text};
use crate::submit::{Idempotency, Submission, SystemValues, WorkflowSource};

/// The longest idempotency key, in characters.
const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// Submits a run. 201 when it is new, 200 when the same request under the same idempotency key created it before.
///
/// # Errors
/// The errors of [`crate::submit::SubmitError`], and 400 for an unreadable request.
pub async fn submit(
    State(state): State<ApiState>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let mut map = body.object()?;
    let workflow = workflow(&state, &mut map).await?;
    let inputs = take_object(&mut map, "inputs")?.unwrap_or_default();
    let sys = take_object(&mut map, "sys")?.map_or(SystemValues::Standard, SystemValues::Exactly);
    let submission = Submission {
        files: take_list(&mut map, "files")?,
        conversation: take_object(&mut map, "conversation")?.unwrap_or_default(),
        user: take_text(&mut map, "user")?.unwrap_or_default(),
        conversation_id: take_text(&mut map, "conversation_id")?,
        query: take_text(&mut map, "query")?.unwrap_or_default(),
        memory: take_list(&mut map, "memory")?,
        commands: take_list(&mut map, "commands")?,
        call_depth: take_count(&mut map, "call_depth")?.unwrap_or(0),
        options: take_object(&mut map, "options")?.unwrap_or_default(),
        idempotency: idempotency(&headers, "admin", &body)?,
        root: take_text(&mut map, "root")?,
        ..Submission::of(workflow, sys, inputs)
    };
    nothing_left(&map)?;
    let done = state.submitter.submit(submission).await?;
    let status = if done.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut answer = json!({
        "id": done.run.to_string(),
        "status": done.status.name(),
        "version": done.workflow.graph.hash.to_string(),
    });
    if let Some(id) = done.conversation_id {
        answer["conversation_id"] = id.into();
    }
    Ok((status, JsonBody(answer)))
}

async fn workflow(state: &ApiState, map: &mut JsonMap) -> Result<WorkflowSource, ApiError> {
    match (take_text(map, "app")?, take_text(map, "workflow")?) {
        (Some(id), None) => Ok(WorkflowSource::App(apps::find(state, &id).await?)),
        (None, Some(text)) => Ok(WorkflowSource::Text(text)),
        (None, None) => Err(ApiError::invalid_param("app or workflow is required")),
        (Some(_), Some(_)) => Err(ApiError::invalid_param("app and workflow exclude each other")),
    }
}

/// The idempotency key of a request. `who` separates the keys of different clients.
///
/// # Errors
/// 400 when the key is empty or too long.
pub fn idempotency(headers: &HeaderMap, who: &str, body: &Body) -> Result<Option<Idempotency>, ApiError> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    if !(1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&key.len()) {
        let message = format!("Idempotency-Key must have 1 to {IDEMPOTENCY_KEY_CHARS_MAX} characters");
        return Err(ApiError::invalid_param(message));
    }
    let key_hash = sha256_hex([who.as_bytes(), b"\n", key.as_bytes()].concat());
    Ok(Some(Idempotency { key_hash, request_hash: sha256_hex(&body.0) }))
}
