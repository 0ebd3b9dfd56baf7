//! `GET /v1/messages/{id}/suggested`: questions that the user may ask next.

use axum::extract::State;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::dsl::features::{SUGGESTED, is_served};

use super::feedback::find;
use super::{check_chat, check_on, user_in};
use crate::api::ApiState;
use crate::api::auth::{CallingApp, CallingKey};
use crate::api::error::ApiError;
use crate::api::request::{IdInPath, Params};
use crate::features::suggested::{Wanted, questions};

/// Suggests questions after an answer. They are made at the first request, and the same for all later ones. A message that
/// is not answered yet, and one for which the model fails, has none.
///
/// # Errors
/// 400 for an app that is off, or whose feature is off or not served, 404 for a message that does not exist or belongs to another user.
pub async fn suggested(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    id: IdInPath,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    let user = user_in(&params)?;
    check_chat(&app)?;
    check_on(&app)?;
    let (message, user_conversation) = find(&state, &app, user, &id).await?;
    let features = &user_conversation.workflow.graph.features;
    if !is_served(features, SUGGESTED, state.workflows.served()) {
        return Err(ApiError::bad_request("Suggested Questions Is Disabled."));
    }
    let under_way = user_conversation.settle(&state, &app).await?;
    let mut data = Vec::new();
    if under_way.iter().all(|record| record.id != message) {
        let turns = user_conversation.turns(&state).await?;
        let (id, up_to) = (message.to_string(), |at: usize| &turns[..=at]);
        if let Some(turns) = turns.iter().position(|turn| turn["id"] == id.as_str()).map(up_to) {
            let wanted = Wanted { message, features, turns, user: user.to_owned(), key };
            data = questions(&state.submitter, &state.config.features, wanted).await?;
        }
    }
    Ok(JsonBody(json!({"result": "success", "data": data})))
}
