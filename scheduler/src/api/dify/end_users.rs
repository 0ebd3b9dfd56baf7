//! `GET /v1/end-users/{id}`: a user of the app. Its id follows from app and user, and stands in events and logs.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::request::IdInPath;
use crate::api::times;
use crate::runs::ids::{end_user_uuid, tenant_uuid};

/// Dify's name of the way on which these users come.
const TYPE: &str = "service-api";
/// The user of requests that name none, as on Dify.
pub(super) const DEFAULT_USER: &str = "DEFAULT-USER";

/// Shows a user of the app.
///
/// # Errors
/// 404 for a user that this app does not have.
pub async fn show(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    IdInPath(id): IdInPath,
) -> Result<JsonBody<Json>, ApiError> {
    let gone = || ApiError::new(StatusCode::NOT_FOUND, "end_user_not_found", "End user not found.");
    let id = Uuid::try_parse(&id).map_err(|_| gone())?.to_string();
    let known = state.store.app_records().end_user(&id).await?;
    let known = known.filter(|known| known.app == app.id).ok_or_else(gone)?;
    Ok(JsonBody(json!({
        "id": id,
        "tenant_id": tenant_uuid(&state.config.redis.namespace),
        "app_id": app.id,
        "type": TYPE,
        "external_user_id": known.user,
        "name": null,
        "is_anonymous": known.user == DEFAULT_USER,
        "session_id": known.user,
        "created_at": times::iso(known.created_at),
        "updated_at": times::iso(known.updated_at),
    })))
}

/// A user in a list of other things.
pub(super) fn short(app: &str, user: &str) -> Json {
    json!({
        "id": end_user_uuid(app, user),
        "type": TYPE,
        "is_anonymous": user == DEFAULT_USER,
        "session_id": user,
    })
}
