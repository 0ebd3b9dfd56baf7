//! `/api/v1/dead`: dead letters (jobs, facts and timers that were given up), and retrying them.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::GraphHash;
use tidemill_common::ids::RunId;
use tidemill_common::limits;
use tidemill_common::machine::rewind;
use tidemill_common::store::{DeadFact, DeadId, DeadLetter, ListDead, PutBack, Reserved};
use tidemill_common::value::JsonMap;
use tidemill_common::wire;

use crate::api::ApiState;
use crate::api::auth::sha256_hex;
use crate::api::error::ApiError;
use crate::api::native::snapshot;
use crate::api::request::{IdInPath, Params};
use crate::runs::record::RunRecord;
use crate::submit::Retry;

const LIST_DEFAULT: usize = 20;
const LIST_MAX: usize = 100;

/// Lists dead letters of all shards, newest first. `next` is the `before` of the following page.
///
/// # Errors
/// 400 for invalid parameters.
pub async fn list(State(state): State<ApiState>, params: Params) -> Result<JsonBody<Json>, ApiError> {
    let wrong = |name: &str, expected: &str| ApiError::invalid_param(format!("{name} must be {expected}"));
    let limit = match params.get("limit") {
        None => LIST_DEFAULT,
        Some(text) => {
            let read = text.parse().ok().filter(|n| (1..=LIST_MAX).contains(n));
            read.ok_or_else(|| wrong("limit", "1 to 100"))?
        }
    };
    let before = match params.get("before") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| wrong("before", "the next of an earlier page"))?),
    };
    let letters = state.store.dead_letters(&ListDead { before, limit }).await?;
    let next = letters.last().filter(|_| letters.len() >= limit).map(|letter| letter.id.to_string());
    let data: Vec<Json> = letters.iter().map(|letter| Json::Object(summary(letter))).collect();
    Ok(JsonBody(json!({"data": data, "next": next})))
}

/// Shows a dead letter with its content.
///
/// # Errors
/// 404 for an unknown dead letter.
pub async fn show(State(state): State<ApiState>, id: IdInPath) -> Result<JsonBody<Json>, ApiError> {
    let letter = find(&state, &id).await?;
    let mut shown = summary(&letter);
    shown.insert("content".into(), letter.content.into());
    shown.insert("is_whole".into(), letter.is_whole.into());
    Ok(JsonBody(Json::Object(shown)))
}

/// Removes a dead letter.
///
/// # Errors
/// 404 for an unknown dead letter.
pub async fn forget(State(state): State<ApiState>, id: IdInPath) -> Result<StatusCode, ApiError> {
    if state.store.drop_dead_letter(parse(&id)?).await? { Ok(StatusCode::NO_CONTENT) } else { Err(gone()) }
}

/// Retries a dead letter and removes it. A job is retried as a new run that begins at its node with all earlier
/// results, a fact by applying it to its run.
///
/// # Errors
/// 404 for an unknown dead letter, 409 `not_retryable` with the reason.
pub async fn retry(
    State(state): State<ApiState>,
    id: IdInPath,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let letter = find(&state, &id).await?;
    let (status, answer) = retry_letter(&state, &letter).await?;
    Ok((status, JsonBody(answer)))
}

/// As [`retry`].
pub(super) async fn retry_letter(
    state: &ApiState,
    letter: &DeadLetter,
) -> Result<(StatusCode, Json), ApiError> {
    match letter.what.as_str() {
        "job" => retry_job(state, letter).await,
        "fact" => retry_fact(state, letter).await,
        what => Err(not_retryable(format!("a {what} cannot be tried once more"))),
    }
}

async fn retry_job(state: &ApiState, letter: &DeadLetter) -> Result<(StatusCode, Json), ApiError> {
    let of = run_of(letter)?;
    let Some((frame, node)) = letter.place.clone() else {
        return Err(not_retryable("the job names no node"));
    };
    let (record, rest) = match state.store.run_at_rest(of).await? {
        Some(rest) => (RunRecord::read(of, &rest.run)?, rest),
        None => {
            return Err(not_retryable(format!("run {of} is gone: ended runs are kept only for some time")));
        }
    };
    let hash = GraphHash(record.version.as_str().into());
    let workflow = state.workflows.of_run(&*state.store, of.shard(), &hash).await?;
    let stored = wire::state::load(of, workflow.graph.clone(), rest.clone());
    let stored = stored.map_err(|e| not_retryable(format!("run {of} cannot be read: {e}")))?;
    let place = rewind::begins_at(&stored, &frame, &node);
    let (_, begins_at) = place.map_err(|e| not_retryable(format!("run {of}: {e}")))?;
    let begins_at = workflow.graph.node(begins_at).id.clone();

    // A client that repeats the request, because the response was lost, gets the same run.
    let mut run = RunId::generate(of.shard());
    let key = sha256_hex(format!("dead/{}", letter.id));
    if let Reserved::Same(earlier) = state.store.reserve(&key, "retry", run).await? {
        run = earlier;
    }
    let document = snapshot::document(state, of, &record, &rest).await?;
    let retry = Retry { run, of, from: (frame, node) };
    state.submitter.retry(&document.to_string(), &retry).await?;
    state.store.drop_dead_letter(letter.id).await?;
    tracing::info!(%run, %of, letter = %letter.id, "a dead job is tried once more");
    let answer = json!({"id": run.to_string(), "status": "scheduled", "retry_of": of.to_string(),
        "begins_at": begins_at});
    Ok((StatusCode::CREATED, answer))
}

async fn retry_fact(state: &ApiState, letter: &DeadLetter) -> Result<(StatusCode, Json), ApiError> {
    let run = run_of(letter)?;
    if !letter.is_whole {
        let max = limits::DEAD_BYTES_MAX;
        return Err(not_retryable(format!("only the first {max} bytes of the fact were kept")));
    }
    let Some((kind, body)) = letter.fact() else {
        return Err(not_retryable("the stored fact cannot be read"));
    };
    match state.store.put_back(DeadFact { id: letter.id, run, kind, body }).await? {
        PutBack::Done => {
            tracing::info!(%run, letter = %letter.id, kind, "a dead fact is applied once more");
            let answer = json!({"id": run.to_string(), "accepted": true});
            Ok((StatusCode::ACCEPTED, answer))
        }
        PutBack::Gone => Err(gone()),
        PutBack::NoRun => Err(not_retryable(format!("run {run} is gone"))),
        PutBack::Over(status) => {
            let status = status.name();
            Err(not_retryable(format!("run {run} is over ({status}): no fact changes it any more")))
        }
    }
}

async fn find(state: &ApiState, id: &IdInPath) -> Result<DeadLetter, ApiError> {
    state.store.dead_letter(parse(id)?).await?.ok_or_else(gone)
}

fn parse(id: &IdInPath) -> Result<DeadId, ApiError> {
    id.0.parse().map_err(|_| gone())
}

fn run_of(letter: &DeadLetter) -> Result<RunId, ApiError> {
    let run: Option<RunId> = letter.run.parse().ok();
    run.filter(|run| run.shard() == letter.id.shard).ok_or_else(|| not_retryable("it names no run"))
}

fn gone() -> ApiError {
    ApiError::not_found("there is no such dead letter")
}

fn not_retryable(reason: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "not_retryable", reason)
}

/// The time when a letter was given up: its entry's id.
pub(super) fn given_up_at(id: DeadId) -> Timestamp {
    Timestamp::from_millis(i64::try_from(id.entry.major).unwrap_or(i64::MAX / 1000))
}

fn summary(letter: &DeadLetter) -> JsonMap {
    let (frame, node) = letter.place.clone().unzip();
    let at = given_up_at(letter.id);
    let shown = json!({
        "id": letter.id.to_string(),
        "what": letter.what,
        "run": (!letter.run.is_empty()).then_some(&letter.run),
        "node_id": node,
        "frame": frame,
        "reason": letter.reason,
        "at": at.seconds_f64(),
    });
    shown.as_object().cloned().unwrap_or_default()
}
