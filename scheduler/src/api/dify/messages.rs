//! `GET /v1/messages`: what was said in a conversation, newest page first, each page in the order of time.

use axum::extract::State;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::limits::CONVERSATION_TURNS_MAX;

use super::{NO_USER, check_chat};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::request::Params;
use crate::turns::SettleError;

/// Messages of a page when nobody says how many (Dify's).
const PAGE: usize = 20;
/// Most messages of a page (Dify's).
const PAGE_MAX: usize = 100;

/// Messages of a conversation that this user has with the app.
///
/// # Errors
/// 400 for parameters that are missing or do not fit, 404 for a conversation that is not there or somebody else's.
pub async fn list(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    check_chat(&app)?;
    let given = |name: &str| params.get(name).filter(|text| !text.is_empty());
    let user = given("user").ok_or_else(|| ApiError::invalid_param(NO_USER))?;
    let id =
        given("conversation_id").ok_or_else(|| ApiError::invalid_param("conversation_id is required"))?;
    let limit = match given("limit").map(str::parse::<usize>) {
        None => PAGE,
        Some(Ok(limit @ 1..=PAGE_MAX)) => limit,
        Some(_) => return Err(ApiError::invalid_param(format!("limit must be from 1 to {PAGE_MAX}"))),
    };
    let gone = || ApiError::not_found("Conversation Not Exists.");
    let shard = state.submitter.shard_of_conversation(id).await.map_err(|_| gone())?;
    let fields = state.store.conversation(shard, id).await?;
    let is_theirs = |name: &str, value: &str| fields.get(name).is_some_and(|known| known == value);
    if !is_theirs("app", &app.id) || !is_theirs("user", user) {
        return Err(gone());
    }
    if let Some(last) = fields.get("last").and_then(|run| run.parse::<RunId>().ok()) {
        settled(state.submitter.settle_turn(last).await)?;
    }
    let turns = state.store.turns(shard, id, CONVERSATION_TURNS_MAX).await?;
    let turns: Vec<Json> = turns.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    let end = match given("first_id") {
        None => turns.len(),
        Some(first) => {
            let place = turns.iter().position(|turn| turn["id"] == first);
            place.ok_or_else(|| ApiError::not_found("First Message Not Exists."))?
        }
    };
    let begin = end.saturating_sub(limit);
    let data: Vec<Json> = turns[begin..end].iter().map(|turn| shown(id, turn)).collect();
    Ok(JsonBody(json!({"limit": limit, "has_more": begin > 0, "data": data})))
}

/// What cannot be read is left out of the list, as the conversation does without it.
fn settled(outcome: Result<(), SettleError>) -> Result<(), ApiError> {
    match outcome {
        Err(SettleError::Store(error)) => Err(error.into()),
        Ok(()) | Err(SettleError::Graph(_) | SettleError::Unreadable(_)) => Ok(()),
    }
}

fn shown(conversation: &str, turn: &Json) -> Json {
    let or = |key: &str, default: Json| turn.get(key).cloned().unwrap_or(default);
    let error = or("error", Json::Null);
    json!({
        "id": turn["id"],
        "conversation_id": conversation,
        "parent_message_id": null,
        "inputs": or("inputs", json!({})),
        "query": turn["query"],
        "answer": turn["answer"],
        "message_files": or("files", json!([])),
        "feedback": null,
        "retriever_resources": [],
        "created_at": turn["created_at"],
        "agent_thoughts": [],
        "status": if error.is_null() { "normal" } else { "error" },
        "error": error,
    })
}
