//! `GET` and `POST /api/v1/shards`: the shards with their owners and runs, and more shards for a namespace that grows.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::ids::ShardId;
use tidemill_common::store::{AppState, Raised, ShardUse};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::Body;

/// Lists the shards.
///
/// # Errors
/// Errors of the store.
pub async fn list(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let meta = state.store.meta().await?;
    let data: Vec<Json> = state.store.fleet().shard_uses(meta.shards).await?.iter().map(shard_json).collect();
    Ok(JsonBody(json!({"shards": meta.shards, "shards_first": meta.shards_first, "data": data})))
}

/// Marks the apps that accept no runs on all shards again: new ones have no marks.
async fn close_on_new_shards(state: &ApiState) -> Result<(), ApiError> {
    for id in state.store.apps().await? {
        let found = state.store.app(&id).await?.map(|app| app.state);
        if let Some(closed) = found.filter(|state| *state != AppState::On) {
            state.store.removals().set_app_state(&id, closed).await?;
        }
    }
    Ok(())
}

/// Raises the number of shards. New runs are spread over all of them; nothing moves.
///
/// # Errors
/// 400 for a number that is less than now, or too large; 409 `older_processes` while processes of an older version live,
/// which would not notice.
pub async fn raise(State(state): State<ApiState>, body: Body) -> Result<JsonBody<Json>, ApiError> {
    let (max, body) = (ShardId::COUNT_MAX, body.object()?);
    if let Some(unknown) = body.keys().find(|key| *key != "shards") {
        return Err(ApiError::invalid_param(format!("unknown field {unknown}; the body has only shards")));
    }
    let wanted = body.get("shards").and_then(Json::as_u64).and_then(|wanted| u16::try_from(wanted).ok());
    let wanted = wanted.filter(|wanted| (1..=max).contains(wanted));
    let wrong =
        || ApiError::invalid_param(format!("shards must be 1 to {max}, the most that a run's id can name"));
    let wanted = wanted.ok_or_else(wrong)?;
    let from = match state.store.fleet().raise_shards(wanted).await? {
        Raised::From(from) => from,
        Raised::Same => wanted,
        Raised::Less(now) => {
            let message = format!(
                "there are {now} shards already, and runs on each of them: shards cannot be taken away"
            );
            return Err(ApiError::invalid_param(message));
        }
        Raised::OlderProcesses(version) => {
            let message = format!(
                "the namespace has version {version}: processes of an older version may live, which would not notice more \
                 shards. Upgrade all schedulers and workers first (`tidemill doctor` lists them)"
            );
            return Err(ApiError::new(StatusCode::CONFLICT, "older_processes", message));
        }
    };
    state.submitter.namespace_changed().await?;
    close_on_new_shards(&state).await?;
    if from != wanted {
        tracing::info!(from, to = wanted, "the number of shards was raised");
    }
    Ok(JsonBody(json!({"shards": wanted, "raised_from": from})))
}

fn shard_json(it: &ShardUse) -> Json {
    json!({
        "shard": it.shard.0,
        "owner": it.owner,
        "scheduled": it.scheduled,
        "running": it.running,
        "paused": it.paused,
        "ended": it.ended,
        "inbox": it.inbox,
    })
}
