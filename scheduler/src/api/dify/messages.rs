//! `GET /v1/messages`: the messages of a conversation, newest page first, oldest message first in each page.

use axum::extract::State;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};

use super::user_conversation::UserConversation;
use super::{
    check_chat, check_uuid, given, limit_in, links, message_fields, message_files, renderer,
    user_in_or_default,
};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::request::Params;
use crate::background::turns;
use crate::runs::end_user;
use crate::runs::file_links::{FileLinks, OwnerOfRun};
use crate::runs::forms::FormTokens;

/// The parent id of every message. Conversations over Dify's API have no branches, and Dify says so by this id.
const NO_BRANCH: &str = "00000000-0000-0000-0000-000000000000";

/// Lists the messages of a conversation of this user. Without one (an empty id) there are none.
///
/// # Errors
/// 400 for missing or invalid parameters, 404 for a conversation that does not exist or belongs to another user.
pub async fn list(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    check_chat(&app)?;
    let user = user_in_or_default(&params);
    let id = params.get("conversation_id");
    let id = id.ok_or_else(|| ApiError::invalid_param("conversation_id is required"))?;
    let limit = limit_in(&params)?;
    let first = given(&params, "first_id");
    first.map_or(Ok(()), |first| check_uuid("first_id", first))?;
    if id.is_empty() {
        return Ok(JsonBody(json!({"limit": limit, "has_more": false, "data": []})));
    }
    check_uuid("conversation_id", id)?;
    let user_conversation = UserConversation::get(&state, &app, user, id).await?;
    let under_way = user_conversation.settle(&state, &app).await?;
    let mut turns = user_conversation.turns(&state).await?;
    for record in under_way {
        let (render, _) = renderer(&state, &record).await?;
        turns.push(turns::turn(&*state.store, &render, &state.submitter, record).await?);
    }
    turns::sort(&mut turns);
    let end = match first {
        None => turns.len(),
        Some(first) => {
            let place = turns.iter().position(|turn| turn["id"] == first);
            place.ok_or_else(|| ApiError::not_found("First Message Not Exists."))?
        }
    };
    let begin = end.saturating_sub(limit);
    let page = &turns[begin..end];
    let ids: Vec<String> = page.iter().map(|turn| turn["id"].as_str().unwrap_or_default().into()).collect();
    let ratings = state.store.ratings(user_conversation.of.shard, &user_conversation.of.id, &ids).await?;
    let ratings = ratings.into_iter().map(|text| text.and_then(|text| serde_json::from_str(&text).ok()));
    let tokens = state.forms.tokens(&*state.store).await?;
    let links = links(&state).await?.shown_to(OwnerOfRun { app: &app.id, user });
    let data: Vec<Json> = page
        .iter()
        .zip(ratings)
        .map(|(turn, rating)| to_json(&user_conversation.of.id, turn, rating, &tokens, &links))
        .collect();
    Ok(JsonBody(json!({"limit": limit, "has_more": begin > 0, "data": data})))
}

/// A message with every field of Dify's, in its order.
fn to_json(
    conversation: &str,
    turn: &Json,
    rating: Option<Json>,
    tokens: &FormTokens,
    links: &FileLinks,
) -> Json {
    let or = |key: &str, default: Json| turn.get(key).cloned().unwrap_or(default);
    let error =
        |error: &Json| format!("Run failed: {}", end_user::error_text(error.as_str().unwrap_or_default()));
    let error = turn.get("error").map(error);
    let status = match turn["status"].as_str() {
        _ if error.is_some() => "error",
        Some("paused") => "paused",
        Some(_) | None => "normal",
    };
    let usage = message_fields::usage(turn);
    let mut message = json!({
        "id": turn["id"],
        "conversation_id": conversation,
        "parent_message_id": NO_BRANCH,
        "inputs": or("inputs", json!({})),
        "query": turn["query"],
        "answer": turn["answer"],
        "feedback": rating.map(|rating| json!({"rating": rating["rating"]})),
        "retriever_resources": message_fields::resources(turn),
        "created_at": turn["created_at"],
        "agent_thoughts": or("thoughts", json!([])),
        "message_files": message_files::of(turn, links),
        "message_tokens": usage.prompt,
        "answer_tokens": usage.completion,
        "provider_response_latency": or("seconds", 0.0.into()),
        "total_price": usage.price,
        "currency": usage.currency,
        "status": status,
        "error": error,
        "extra_contents": message_fields::forms(turn, tokens),
        "total_tokens": usage.total,
    });
    links.fill_texts(&mut message);
    message
}
