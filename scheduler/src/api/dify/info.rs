//! `GET /v1/info`, `GET /v1/parameters`, `GET /v1/meta` and `GET /v1/site`: front-ends read these before they show an app.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::json;
use tidemill_common::app_parameters::{AppSettings, ShownApp};
use tidemill_common::store::App;

use super::annotations;
use super::parameters::{form, site_of, tags_of, tool_icons};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::etag::tagged;
use crate::workflows::Workflow;

/// The app's name, mode and description.
///
/// # Errors
/// The stored workflow cannot be read.
pub async fn info(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let workflow = workflow_of(&state, &app)?;
    let shown = json!({
        "name": app.name,
        "description": workflow.description,
        "tags": tags_of(&workflow.graph.front),
        "mode": app.mode,
        "author_name": workflow.graph.front.shown.get("author_name"),
    });
    Ok(tagged(&headers, shown))
}

/// The app's form and features: only those that are served here are on.
///
/// # Errors
/// As [`info`].
pub async fn parameters(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let workflow = workflow_of(&state, &app)?;
    let shown = AppSettings::of(&state.config).shown(ShownApp {
        features: &workflow.graph.features,
        is_simple: workflow.graph.front.mode.is_some(),
        form: form(&workflow)?,
        has_annotation_reply: annotations::in_force(&state, &app)?.is_some(),
    });
    Ok(tagged(&headers, shown))
}

/// The icons of the app's tools.
///
/// # Errors
/// As [`info`].
pub async fn meta(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let workflow = workflow_of(&state, &app)?;
    Ok(tagged(&headers, json!({"tool_icons": tool_icons(&workflow)?})))
}

/// The texts and the icon of the app's page.
///
/// # Errors
/// As [`info`].
pub async fn site(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let workflow = workflow_of(&state, &app)?;
    Ok(tagged(&headers, site_of(&app.name, &workflow.graph.front)))
}

fn workflow_of(state: &ApiState, app: &Arc<App>) -> Result<Arc<Workflow>, ApiError> {
    Ok(state.workflows.of_document(&app.version, &app.document)?)
}
