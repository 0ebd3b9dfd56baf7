//! `/api/v1/apps/{id}/disable`, `/enable`, `/rollback`: switches an app off and on, and makes an earlier version current.

use axum::Json as JsonBody;
use axum::extract::State;
use serde_json::Value as Json;
use tidemill_common::store::{App, AppState, StateSet};

use super::apps::{being_removed, find, put_version, to_json};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, nothing_left, take_text};

/// Switches an app off: it accepts no new run. Runs that are under way continue. May be repeated.
///
/// # Errors
/// 404 for an unknown app; 409 for one that is being removed.
pub async fn disable(state: State<ApiState>, IdInPath(id): IdInPath) -> Result<JsonBody<Json>, ApiError> {
    set(&state, &id, AppState::Off).await
}

/// Switches an app on again. May be repeated.
///
/// # Errors
/// As [`disable`].
pub async fn enable(state: State<ApiState>, IdInPath(id): IdInPath) -> Result<JsonBody<Json>, ApiError> {
    set(&state, &id, AppState::On).await
}

async fn set(state: &ApiState, id: &str, to: AppState) -> Result<JsonBody<Json>, ApiError> {
    let app = find(state, id).await?;
    match state.store.removals().set_app_state(id, to).await? {
        StateSet::Done => {}
        StateSet::Removing => return Err(being_removed(id)),
        StateSet::Unknown => return Err(ApiError::not_found(format!("there is no app {id}"))),
    }
    tracing::info!(app = id, state = to.name(), "the state of an app was set");
    Ok(JsonBody(to_json(&App { state: to, ..(*app).clone() })))
}

/// Makes a kept version of an app the current one. Requests that pin a version are not affected. The answer is that of
/// publishing.
///
/// # Errors
/// 404 for an unknown app or version; 409 for an app that is being removed; 400 for an invalid body.
pub async fn rollback(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let mut map = body.object()?;
    let version = take_text(&mut map, "version")?;
    let version = version.ok_or_else(|| ApiError::invalid_param("version is required"))?;
    nothing_left(&map)?;
    let app = find(&state, &id).await?;
    if app.state == AppState::Removing {
        return Err(being_removed(&id));
    }
    let document = match app.version == version {
        true => Some(app.document.clone()),
        false => state.store.app_records().version_document(&id, &version).await?,
    };
    let Some(document) = document else {
        let message =
            format!("the app {id} has no version {version}; GET /api/v1/apps/{id}/versions lists them");
        return Err(ApiError::not_found(message));
    };
    let workflow = state.workflows.of_document(&version, &document)?;
    state.workflows.check_moderation(&workflow.graph)?;
    let answer = put_version(&state, &workflow, (&id, None), Some(&*app), Vec::new()).await?;
    tracing::info!(app = id, version, before = app.version, "an earlier version of an app is current again");
    Ok(JsonBody(answer))
}
