//! `POST /v1/messages/{id}/feedbacks`: a user's rating of an answer.

use axum::extract::State;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::limits::FEEDBACK_CHARS_MAX;
use tidemill_common::store::{App, Rated, Rating};

use super::user_conversation::UserConversation;
use super::user_of;
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, take_text};

/// Stores a rating with its message, or removes it.
///
/// # Errors
/// 400 for invalid fields, 404 for a message that does not exist or belongs to another user.
pub async fn rate(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let mut map = body.dify_object()?;
    let user = user_of(&map)?;
    let rating = take_text(&mut map, "rating")?;
    let content = take_text(&mut map, "content")?;
    if rating.as_deref().is_some_and(|rating| !matches!(rating, "like" | "dislike")) {
        return Err(ApiError::invalid_param("rating must be like, dislike or null"));
    }
    if content.as_ref().is_some_and(|content| content.chars().count() > FEEDBACK_CHARS_MAX) {
        let message = format!("content must have at most {FEEDBACK_CHARS_MAX} characters");
        return Err(ApiError::invalid_param(message));
    }
    let (message, user_conversation) = find(&state, &app, &user, &id).await?;
    let at = state.store.time().await?.millis();
    let rating = rating.map(|rating| json!({"rating": rating, "content": content, "at": at}).to_string());
    let rating = Rating { conversation: user_conversation.of, message, rating };
    match state.store.rate_message(&rating).await? {
        Rated::Done => Ok(JsonBody(json!({"result": "success"}))),
        Rated::Absent => Err(ApiError::invalid_param("rating cannot be None when feedback not exists")),
        Rated::Unknown => Err(gone()),
    }
}

/// A message of this user, and its conversation.
///
/// # Errors
/// 404 for a message that does not exist or belongs to another user.
pub(super) async fn find(
    state: &ApiState,
    app: &App,
    user: &str,
    id: &IdInPath,
) -> Result<(RunId, UserConversation), ApiError> {
    let message = id.run().map_err(|_| gone())?;
    let user_conversation = UserConversation::of_message(state, app, user, message).await?;
    Ok((message, user_conversation.ok_or_else(gone)?))
}

fn gone() -> ApiError {
    ApiError::not_found("Message Not Exists.")
}
