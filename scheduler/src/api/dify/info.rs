//! `GET /v1/info`, `GET /v1/parameters`, `GET /v1/meta` and `GET /v1/site`: front-ends read these before they show an app.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value as Json, json};
use tidemill_common::dsl::features::{ServedFeatures, not_served};
use tidemill_common::graph::Graph;
use tidemill_common::store::App;
use tidemill_common::value::JsonMap;

use super::annotations;
use super::parameters::{form, site_of, tags_of, tool_icons};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::etag::tagged;
use crate::api::upload_limits::system_parameters;
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
    let graph = &workflow.graph;
    let served = state.workflows.served();
    let feature = |name: &str, absent: Json| feature(graph, served, name, absent);
    let off = || json!({"enabled": false});
    let shown = json!({
        "opening_statement": feature("opening_statement", Json::Null),
        "suggested_questions": feature("suggested_questions", json!([])),
        "suggested_questions_after_answer": feature("suggested_questions_after_answer", off()),
        "speech_to_text": feature("speech_to_text", off()),
        "text_to_speech": feature("text_to_speech", off()),
        "retriever_resource": feature("retriever_resource", json!({"enabled": graph.front.mode.is_some()})),
        "annotation_reply": {"enabled": annotations::in_force(&state, &app)?.is_some()},
        "more_like_this": feature("more_like_this", off()),
        "user_input_form": form(&workflow)?,
        "sensitive_word_avoidance": moderation(&state, &graph.features),
        "file_upload": feature("file_upload", json!({"image": {
            "enabled": false, "number_limits": 3, "detail": "high", "transfer_methods": ["remote_url", "local_file"],
        }})),
        "system_parameters": system_parameters(&state.config),
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

/// The feature as the file has it if it is served: the settings may allow apps without it.
fn moderation(state: &ApiState, features: &JsonMap) -> Json {
    let is_served = state.workflows.moderation(features).is_some();
    let given = features.get("sensitive_word_avoidance").filter(|_| is_served);
    given.cloned().unwrap_or_else(|| json!({"enabled": is_served, "type": "", "configs": []}))
}

fn workflow_of(state: &ApiState, app: &Arc<App>) -> Result<Arc<Workflow>, ApiError> {
    Ok(state.workflows.of_document(&app.version, &app.document)?)
}

/// A feature as the file has it; off when it is not served here.
fn feature(graph: &Graph, served: ServedFeatures, name: &str, absent: Json) -> Json {
    if not_served(&graph.features, served).any(|one| one.name == name) {
        return json!({"enabled": false});
    }
    graph.features.get(name).filter(|given| !given.is_null()).cloned().unwrap_or(absent)
}
