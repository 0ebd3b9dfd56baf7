//! `/api/v1/apps/{id}/limits` and `/api/v1/keys/{id}/limits`: how many requests a second, and how many runs at the same
//! time, an app or an API key may have.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value as Json;
use tidemill_common::store::LimitOf;

use super::{apps, keys};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath};
use crate::api::roles::Role;
use crate::background::limits::OwnLimits;

/// `PUT /api/v1/apps/{id}/limits`: `requests_per_second`, `runs_max`; 0: no limit. Absent fields have the default of the
/// settings. Runs that work go on.
///
/// # Errors
/// 404 for an unknown app, 400 for an invalid limit.
pub async fn set_for_app(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    apps::find(&state, &id).await?;
    set(&state, LimitOf::App(id.clone()), &id, &body).await
}

/// `DELETE /api/v1/apps/{id}/limits`: the defaults of the settings hold again.
///
/// # Errors
/// 404 for an unknown app.
pub async fn drop_for_app(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
) -> Result<StatusCode, ApiError> {
    apps::find(&state, &id).await?;
    remove(&state, LimitOf::App(id.clone()), &id).await
}

/// `PUT /api/v1/keys/{id}/limits`: as [`set_for_app`], for one key.
///
/// # Errors
/// 404 for an unknown key, 400 for an invalid limit.
pub async fn set_for_key(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let app = app_of_key(&state, &id).await?;
    set(&state, LimitOf::Key(id), &app, &body).await
}

/// `DELETE /api/v1/keys/{id}/limits`: as [`drop_for_app`], for one key.
///
/// # Errors
/// 404 for an unknown key.
pub async fn drop_for_key(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
) -> Result<StatusCode, ApiError> {
    let app = app_of_key(&state, &id).await?;
    remove(&state, LimitOf::Key(id), &app).await
}

async fn set(state: &ApiState, of: LimitOf, app: &str, body: &Body) -> Result<JsonBody<Json>, ApiError> {
    let own = OwnLimits::of(&body.object()?).map_err(ApiError::invalid_param)?;
    state.submitter.limiter.set(&of, app, Some(own)).await?;
    tracing::info!(of = of.name(), limits = %own.to_json(), "limits set");
    Ok(JsonBody(own.to_json()))
}

async fn remove(state: &ApiState, of: LimitOf, app: &str) -> Result<StatusCode, ApiError> {
    state.submitter.limiter.set(&of, app, None).await?;
    tracing::info!(of = of.name(), "limits removed");
    Ok(StatusCode::NO_CONTENT)
}

/// The app that a key opens, or opened before it was revoked.
async fn app_of_key(state: &ApiState, id: &str) -> Result<String, ApiError> {
    let is_it = |key: &tidemill_common::store::AppKey| key.id == id && Role::of(&key.app).is_none();
    let key = state.store.keys().await?.into_iter().find(is_it);
    key.map(|key| key.app).ok_or_else(|| keys::unknown(id))
}
