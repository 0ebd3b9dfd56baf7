//! `GET /v1/app/feedbacks`: the ratings of all messages of the app, newest first. The newest 10 000 are listed; a rating
//! leaves the list with its message.

use axum::extract::State;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::store::{App, Feedback, Page};

use super::{PAGE, number_in};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::request::Params;
use crate::api::times;
use crate::runs::ids::{end_user_uuid, feedback_uuid};

/// The most ratings in a page, as on Dify.
const LIMIT_MAX: usize = 101;

/// Lists the ratings of the app.
///
/// # Errors
/// 400 for an invalid parameter.
pub async fn list(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    let page = number_in(&params, "page", 1, usize::MAX)?;
    let count = number_in(&params, "limit", PAGE, LIMIT_MAX)?;
    let wanted = Page { from: (page - 1).saturating_mul(count), count };
    let found = state.store.app_records().feedbacks(&app.id, wanted).await?;
    let data: Vec<Json> = found.iter().map(|it| to_json(&app, it)).collect();
    Ok(JsonBody(json!({"data": data})))
}

fn to_json(app: &App, it: &Feedback) -> Json {
    let rating: Json = serde_json::from_str(&it.rating).unwrap_or_default();
    let updated_at =
        rating["at"].as_i64().map_or(it.created_at, tidemill_common::clock::Timestamp::from_millis);
    json!({
        "id": feedback_uuid(it.message),
        "app_id": app.id,
        "conversation_id": it.conversation,
        "message_id": it.message.to_string(),
        "rating": rating["rating"],
        "content": rating["content"],
        "from_source": "user",
        "from_end_user_id": rating["user"].as_str().map(|user| end_user_uuid(&app.id, user)),
        "from_account_id": null,
        "created_at": times::iso(it.created_at),
        "updated_at": times::iso(updated_at),
    })
}
