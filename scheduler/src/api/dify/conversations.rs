//! `GET /v1/conversations`, `DELETE /v1/conversations/{id}`, `POST /v1/conversations/{id}/name`: the conversations of a
//! user with the app.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::limits::CONVERSATION_NAME_CHARS_MAX;
use tidemill_common::store::{App, ConversationChange, ConversationsBy, ListConversations};

use super::user_conversation::{UserConversation, gone, spelled};
use super::{check_chat, check_uuid, given, limit_in, renderer, truth, user_in_or_default, user_or_default};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, Params, take_text};
use crate::background::turns;
use crate::submit::naming::{NAMELESS, name_of};

/// Lists the conversations of a user, page by page.
///
/// # Errors
/// 400 for missing or invalid parameters, 404 for a `last_id` that is not one of them.
pub async fn list(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    check_chat(&app)?;
    let (user, limit) = (user_in_or_default(&params), limit_in(&params)?);
    let (by, newest_first) = match given(&params, "sort_by") {
        None | Some("-updated_at") => (ConversationsBy::Use, true),
        Some("updated_at") => (ConversationsBy::Use, false),
        Some("-created_at") => (ConversationsBy::Begin, true),
        Some("created_at") => (ConversationsBy::Begin, false),
        Some(_) => {
            let message = "sort_by must be created_at, -created_at, updated_at or -updated_at";
            return Err(ApiError::invalid_param(message));
        }
    };
    let no_last = || ApiError::not_found("Last Conversation Not Exists.");
    let after = match given(&params, "last_id").map(spelled) {
        None => None,
        Some(id) => {
            check_uuid("last_id", &id)?;
            Some((state.submitter.shard_of_conversation(&id).await.map_err(|_| no_last())?, id))
        }
    };
    let query = ListConversations {
        app: app.id.clone(),
        user: user.to_string(),
        by,
        newest_first,
        after,
        limit: limit + 1,
    };
    let mut found = state.store.conversations(&query).await?.ok_or_else(no_last)?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let data: Vec<Json> = found.iter().map(|it| to_json(&it.id, &it.fields)).collect();
    Ok(JsonBody(json!({"limit": limit, "has_more": has_more, "data": data})))
}

/// Removes a conversation with all its turns and runs, and what was made beside them. An open run of it continues, and its stream stays open to the
/// end, but no turn is stored, and the run goes when it has ended.
///
/// # Errors
/// 400 for an unreadable body, 404 for a conversation that does not exist or belongs to another user.
pub async fn remove(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let user = user_or_default(&body.dify_object()?);
    check_chat(&app)?;
    let user_conversation = UserConversation::get(&state, &app, &user, &id.0).await?;
    user_conversation.settle(&state, &app).await?;
    let runs = user_conversation.runs(&state).await?;
    let of = &user_conversation.of;
    // First, so that a crash after the removal leaves nothing that can be read.
    state.submitter.forget_messages(of, &runs).await?;
    if !state.store.drop_conversation(of).await? {
        return Err(gone());
    }
    // Again, because a run may have ended before the removal and stored its turn.
    state.submitter.forget_messages(of, &runs).await?;
    tracing::info!(conversation = user_conversation.of.id, "conversation removed");
    Ok(StatusCode::NO_CONTENT)
}

/// Renames a conversation: to the given name, or after its first question.
///
/// # Errors
/// 400 for a missing or too long name and for a conversation without messages to name it after; 404 for a conversation that
/// does not exist or belongs to another user.
pub async fn rename(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let mut map = body.dify_object()?;
    let user = user_or_default(&map);
    check_chat(&app)?;
    let is_generated = truth(&mut map, "auto_generate", false)?;
    let name = take_text(&mut map, "name")?.unwrap_or_default();
    if !is_generated && name.trim().is_empty() {
        return Err(ApiError::invalid_param("name is required when auto_generate is false"));
    }
    if name.chars().count() > CONVERSATION_NAME_CHARS_MAX {
        let message = format!("name must have at most {CONVERSATION_NAME_CHARS_MAX} characters");
        return Err(ApiError::invalid_param(message));
    }
    let mut user_conversation = UserConversation::get(&state, &app, &user, &id.0).await?;
    let mut fields = Vec::new();
    let mut used_at = None;
    if is_generated {
        fields.push(("name".to_string(), name_of(&first_query(&state, &app, &user_conversation).await?)));
    } else {
        let now = state.store.time().await?;
        fields.push(("name".to_string(), name.replace('\0', "")));
        fields.push(("updated_at".to_string(), now.millis().to_string()));
        used_at = Some(now);
    }
    user_conversation.fields.extend(fields.iter().cloned());
    let change =
        ConversationChange { conversation: user_conversation.of.clone(), fields, copy: None, used_at };
    if !state.store.change_conversation(&change).await? {
        return Err(gone());
    }
    Ok(JsonBody(to_json(&user_conversation.of.id, &user_conversation.fields)))
}

/// The first question that is still known.
async fn first_query(
    state: &ApiState,
    app: &App,
    user_conversation: &UserConversation,
) -> Result<String, ApiError> {
    let under_way = user_conversation.settle(state, app).await?;
    let query = |turn: &Json| turn["query"].as_str().unwrap_or_default().to_owned();
    if let Some(first) = user_conversation.turns(state).await?.first() {
        return Ok(query(first));
    }
    let first = under_way.into_iter().next();
    let first =
        first.ok_or_else(|| ApiError::invalid_param("the conversation has no messages to name it after"))?;
    let (render, _) = renderer(state, &first).await?;
    Ok(query(&turns::turn(&*state.store, &render, &state.submitter, first).await?))
}

fn to_json(id: &str, fields: &HashMap<String, String>) -> Json {
    let text = |name: &str| fields.get(name).map(String::as_str);
    let seconds = |name: &str| text(name).and_then(|at| at.parse::<i64>().ok()).map(|ms| ms / 1000);
    let inputs = text("inputs").and_then(|text| serde_json::from_str(text).ok());
    json!({
        "id": id,
        "name": text("name").unwrap_or(NAMELESS),
        "inputs": inputs.unwrap_or_else(|| json!({})),
        "status": "normal",
        "introduction": text("introduction").unwrap_or_default(),
        "created_at": seconds("created_at"),
        "updated_at": seconds("updated_at"),
    })
}
