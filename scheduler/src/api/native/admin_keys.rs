//! `/api/v1/admin-keys`: named keys of `/api/v1` itself, each with a role. They are stored like keys of apps: a key opens its
//! role in the place of an app. The key itself is shown once, when it is created.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::store::{AppKey, KeyGrant};

use super::keys::{Made, created, revoked, seconds, take_end, take_label, unknown};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, nothing_left, take_text};
use crate::api::roles::Role;

/// `GET /api/v1/admin-keys`: all admin keys, revoked ones too. The key of the settings is not among them.
///
/// # Errors
/// Errors of the store.
pub async fn list(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let keys = state.store.keys().await?;
    let data: Vec<Json> = keys.iter().filter_map(|key| Some(shown(key, Role::of(&key.app)?))).collect();
    Ok(JsonBody(json!({"data": data})))
}

/// `POST /api/v1/admin-keys`: creates an admin key with a `label` and a `role`. It is in this response and never shown again.
/// The body may have `expires_in_seconds`.
///
/// # Errors
/// 400 for an invalid body.
pub async fn add(
    State(state): State<ApiState>,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let mut map = body.object()?;
    let now = state.store.time().await?;
    let label = take_label(&mut map)?.filter(|label| !label.trim().is_empty());
    let role = take_text(&mut map, "role")?;
    let expires_at = take_end(&mut map, now)?;
    nothing_left(&map)?;
    if label.is_none() {
        let message = "label is required: it says in the audit log who has the key";
        return Err(ApiError::invalid_param(message));
    }
    let role = role.as_deref().and_then(Role::named).ok_or_else(|| {
        let names = Role::ALL.map(Role::name).join(", ");
        ApiError::invalid_param(format!("role must be one of {names}"))
    })?;
    let made = Made::now(KeyGrant { app: role.opens(), scopes: None, expires_at }, label, now);
    state.store.add_key(&made.new).await?;
    tracing::info!(key = made.id(), role = role.name(), "admin key created");
    created(&state, &made).await
}

/// `DELETE /api/v1/admin-keys/{id}`: revokes an admin key, and ends its open streams. Revoking it again is no error.
///
/// # Errors
/// 404 for an unknown admin key.
pub async fn revoke(State(state): State<ApiState>, IdInPath(id): IdInPath) -> Result<StatusCode, ApiError> {
    if is_one(&state, &id).await == Some(false) {
        return Err(unknown(&id));
    }
    revoked(&state, &id).await
}

/// Whether this is the id of an admin key. `None` if that cannot be read: a full Redis refuses it, and a leaked key of any kind
/// must be revocable then, too.
pub(super) async fn is_one(state: &ApiState, id: &str) -> Option<bool> {
    let keys = state.store.keys().await.ok()?;
    Some(keys.iter().any(|key| key.id == id && Role::of(&key.app).is_some()))
}

/// A new admin key, with the key itself.
pub(super) fn made(made: &Made, role: Role) -> Json {
    json!({
        "id": made.id(),
        "label": made.new.label,
        "role": role.name(),
        "key": made.key,
        "created_at": seconds(made.new.created_at),
        "expires_at": made.new.grant.expires_at.map(seconds),
    })
}

fn shown(key: &AppKey, role: Role) -> Json {
    json!({
        "id": key.id,
        "label": key.label,
        "role": role.name(),
        "created_at": key.created_at.map(seconds),
        "expires_at": key.expires_at.map(seconds),
        "last_used_at": key.used_at.map(seconds),
        "revoked_at": key.revoked_at.map(seconds),
    })
}
