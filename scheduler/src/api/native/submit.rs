//! `POST /api/v1/runs`. The answer comes as soon as the run is accepted: that is the asynchronous mode. With `wait` it comes
//! with the end of the run.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::value::JsonMap;

use crate::api::ApiState;
use crate::api::admin::AdminCaller;
use crate::api::auth::sha256_hex;
use crate::api::durability;
use crate::api::ends::wait_for_end;
use crate::api::error::{ApiError, RUN_ID};
use crate::api::native::{apps, labels, runs};
use crate::api::request::{Body, Params, nothing_left, take_count, take_list, take_object, take_text};
use crate::api::roles::Role;
use crate::submit::host;
use crate::submit::{Idempotency, Submission, SystemValues, USER_CHARS_MAX, WorkflowSource};
use crate::workflows::Seals;

/// The longest idempotency key, in characters.
const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// Submits a run. 201 when it is new, 200 when the same request under the same idempotency key created it before. With
/// `wait`: 200 and the run when it has ended or waits within this time, else 202 and the run as it is. The run continues when
/// the client leaves.
///
/// # Errors
/// The errors of [`crate::submit::SubmitError`], 403 when a text with seals comes from a key that is not of an admin, and 400 for an unreadable request.
pub(crate) async fn submit(
    State(state): State<ApiState>,
    Extension(caller): Extension<AdminCaller>,
    params: Params,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let wait = wait(&state, &params)?;
    let mut map = body.object()?;
    let workflow = workflow(&state, &mut map).await?;
    let inputs = take_object(&mut map, "inputs")?.unwrap_or_default();
    let told = take_host(&mut map)?;
    let sys = take_object(&mut map, "sys")?.map_or(SystemValues::Standard, SystemValues::Exactly);
    let mut options = take_object(&mut map, "options")?.unwrap_or_default();
    for (name, option) in host::LIMITS {
        if name != option
            && let Some(value) = options.remove(name)
        {
            options.entry(option).or_insert(value);
        }
    }
    for (name, value) in told.limits {
        options.entry(name).or_insert(value);
    }
    let submission = Submission {
        files: take_list(&mut map, "files")?,
        conversation: take_object(&mut map, "conversation")?.unwrap_or_default(),
        user: take_text(&mut map, "user")?.or(told.user).unwrap_or_default(),
        host: told.fields,
        conversation_id: take_text(&mut map, "conversation_id")?,
        query: take_text(&mut map, "query")?.unwrap_or_default(),
        memory: take_list(&mut map, "memory")?,
        commands: take_list(&mut map, "commands")?,
        call_depth: take_count(&mut map, "call_depth")?.unwrap_or(0),
        options,
        labels: labels::take(&mut map, &state.config.run)?,
        idempotency: idempotency(&headers, "admin", &body)?,
        root: take_text(&mut map, "root")?,
        is_of_operator: true,
        seals: if caller.role == Role::Admin { Seals::Allowed } else { Seals::Refused },
        durability: durability::take(&mut map)?,
        ..Submission::of(workflow, sys, inputs)
    };
    nothing_left(&map)?;
    let done = state.submitter.submit(submission).await?;
    if let Some(wait) = wait {
        // The run exists, so an error must not hide it.
        return Box::pin(waited(&state, done.run, wait))
            .await
            .map_err(|error| error.with(RUN_ID, done.run.to_string().into()));
    }
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

/// The longest wait that a request asks for.
fn wait(state: &ApiState, params: &Params) -> Result<Option<Duration>, ApiError> {
    let Some(text) = params.get("wait") else { return Ok(None) };
    let max = state.config.scheduler.wait_seconds_max;
    match text.parse::<u64>() {
        Ok(seconds) if seconds <= max => Ok(Some(Duration::from_secs(seconds))),
        Ok(_) | Err(_) => {
            let message =
                format!("wait must be a number of seconds from 0 to {max} (scheduler.wait_seconds_max)");
            Err(ApiError::invalid_param(message))
        }
    }
}

/// The run as it is when it has ended or waits, or after this time.
async fn waited(
    state: &ApiState,
    run: RunId,
    wait: Duration,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    drop(tokio::time::timeout(wait, wait_for_end(state, run)).await);
    let shown = Box::pin(runs::shown(state, run, false)).await?;
    let status = shown["status"].as_str().and_then(RunStatus::from_name);
    let has_come = status.is_some_and(|status| status.is_over() || status == RunStatus::Paused);
    Ok((if has_come { StatusCode::OK } else { StatusCode::ACCEPTED }, JsonBody(shown)))
}

/// What the host of a run tells about it, besides the run itself.
#[derive(Default)]
struct Told {
    /// The user, if the host names one.
    user: Option<String>,
    fields: Vec<host::HostField>,
    /// Limits, by the names of options.
    limits: Vec<(&'static str, Json)>,
}

/// Takes the fields of a host out of a request, from the request itself and from its `config`.
fn take_host(map: &mut JsonMap) -> Result<Told, ApiError> {
    let mut config = take_object(map, "config")?.unwrap_or_default();
    let mut told = Told::default();
    for name in host::NAMES {
        let (own, inner) = (take_text(map, name)?, take_text(&mut config, name)?);
        let Some(text) = own.or(inner) else { continue };
        if text.chars().count() > USER_CHARS_MAX {
            let message = format!("{name} must have at most {USER_CHARS_MAX} characters");
            return Err(ApiError::invalid_param(message));
        }
        if name == host::USER_ID {
            told.user = Some(text.clone());
        }
        told.fields.push((name, text.replace('\0', "")));
    }
    for (name, option) in host::LIMITS {
        let given =
            [map.remove(name), config.remove(name)].into_iter().flatten().find(|value| !value.is_null());
        told.limits.extend(given.map(|value| (option, value)));
    }
    if let Some(depth) = config.remove("call_depth") {
        map.entry("call_depth").or_insert(depth);
    }
    nothing_left(&config)?;
    Ok(told)
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
