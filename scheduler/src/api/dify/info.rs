//! `GET /v1/info` and `GET /v1/parameters`: front-ends read these before they show an app.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::dsl::features::{SPEECH_TO_TEXT, SUGGESTED, TEXT_TO_SPEECH, is_served};
use tidemill_common::nodes::start::InputField;
use tidemill_common::store::App;
use tidemill_common::value::JsonMap;

use super::annotations;
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::workflows::Workflow;

/// Features that are taken from the file's `features`, under the same names.
const FEATURES: [&str; 5] =
    ["speech_to_text", "text_to_speech", "retriever_resource", "more_like_this", "file_upload"];

/// The app's name, mode and description.
///
/// # Errors
/// The stored workflow cannot be read.
pub async fn info(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
) -> Result<JsonBody<Json>, ApiError> {
    let workflow = workflow_of(&state, &app)?;
    Ok(JsonBody(json!({
        "name": app.name,
        "description": workflow.description,
        "tags": [],
        "mode": app.mode,
        "author_name": null,
    })))
}

/// The app's form and features.
///
/// # Errors
/// As [`info`].
pub async fn parameters(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
) -> Result<JsonBody<Json>, ApiError> {
    let workflow = workflow_of(&state, &app)?;
    let graph = &workflow.graph;
    let feature = |name: &str, absent: Json| graph.features.get(name).cloned().unwrap_or(absent);
    let served = state.workflows.served();
    let form: Vec<Json> = graph.node(graph.root).data.form_fields().iter().map(field).collect();
    let mut shown = json!({
        "opening_statement": feature("opening_statement", "".into()),
        "suggested_questions": feature("suggested_questions", json!([])),
        "suggested_questions_after_answer": {"enabled": is_served(&graph.features, SUGGESTED, served)},
        "sensitive_word_avoidance": moderation(&state, &graph.features),
    });
    for name in FEATURES {
        shown[name] = feature(name, json!({"enabled": false}));
    }
    for name in [SPEECH_TO_TEXT, TEXT_TO_SPEECH] {
        if !is_served(&graph.features, name, served) {
            shown[name] = json!({"enabled": false});
        }
    }
    shown["annotation_reply"] = json!({"enabled": annotations::in_force(&state, &app)?.is_some()});
    shown["user_input_form"] = form.into();
    Ok(JsonBody(shown))
}

/// The feature as the file has it if it is served: the settings may allow apps without it.
fn moderation(state: &ApiState, features: &JsonMap) -> Json {
    let is_served = state.workflows.moderation(features).is_some();
    let given = features.get("sensitive_word_avoidance").filter(|_| is_served);
    given.cloned().unwrap_or_else(|| json!({"enabled": is_served}))
}

fn workflow_of(state: &ApiState, app: &Arc<App>) -> Result<Arc<Workflow>, ApiError> {
    Ok(state.workflows.of_document(&app.version, &app.document)?)
}

fn field(field: &InputField) -> Json {
    json!({field.kind.name(): {
        "label": field.label,
        "variable": field.variable,
        "required": field.required,
        "default": field.default,
        "max_length": field.max_length,
        "options": field.options,
        "allowed_file_types": field.allowed_file_types,
        "allowed_file_extensions": field.allowed_file_extensions,
        "allowed_file_upload_methods": field.allowed_file_upload_methods,
    }})
}
