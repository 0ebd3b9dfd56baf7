//! Apps: registered workflows with a name and a key.

use std::sync::Arc;

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::dsl::Diagnostic;
use tidemill_common::store::{App, Trigger, TriggerKind, key_id};

use crate::api::ApiState;
use crate::api::auth::{new_app_key, sha256_hex};
use crate::api::error::ApiError;
use crate::api::hooks;
use crate::api::native::{datasets_named, profiles_named};
use crate::api::request::{Body, IdInPath, Params};
use crate::background::triggers::register;
use crate::workflows::import;

/// `POST /api/v1/apps`: registers a workflow, or a new version of one. With `create` an unknown id is the id of the new
/// app, so that a repeated request makes no second one. The key is in this response and never shown again.
///
/// # Errors
/// 422 with all problems of the workflow, or with `strict` for an unknown profile; 404 for a new version of an unknown
/// app; 400 for an id of a new app that is no UUID.
pub async fn register(
    State(state): State<ApiState>,
    params: Params,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let (workflow, id) = workflow_of(&body);
    let earlier = match &id {
        None => None,
        Some(id) => earlier(&state, id, params.truth("create", false)?).await?,
    };
    let (workflow, diagnostics) = import(&state.workflows, workflow).await?;
    let graph = &workflow.graph;
    let of_profiles = profiles_named::unknown(&state, graph, params.truth("strict", false)?).await?;
    let of_datasets = datasets_named::unknown(&state, graph).await?;
    let id = id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let now = state.store.time().await?;
    let registration = register::plan(&*state.store, graph, &id, earlier.as_ref(), now).await?;
    let app = App {
        id,
        name: graph.name.clone(),
        mode: graph.mode.name().into(),
        version: graph.hash.to_string(),
        document: workflow.document.to_string(),
        created_at_ms: earlier.as_ref().map_or_else(|| SystemClock.now().millis(), |app| app.created_at_ms),
        triggers: registration.triggers,
        annotation_reply: None,
    };
    let key = earlier.is_none().then(new_app_key);
    let key_hash = key.as_ref().map(sha256_hex);
    state.store.put_app(&app, key_hash.as_deref(), &registration.changes).await?;
    tracing::info!(app = app.id, version = app.version, is_new = earlier.is_none(), "app registered");
    let of_triggers =
        registration.warnings.into_iter().map(|warning| json!({"severity": "warning", "message": warning}));
    let warnings =
        diagnostics.iter().map(Diagnostic::to_json).chain(of_triggers).chain(of_profiles).chain(of_datasets);
    let warnings: Vec<Json> = warnings.collect();
    let mut answer = json!({
        "id": app.id, "name": app.name, "mode": app.mode, "version": app.version, "key": key,
        "key_id": key_hash.as_deref().map(key_id), "warnings": warnings,
    });
    if !registration.changes.put.is_empty() {
        let shown_trigger = |(trigger, _): &(Trigger, _)| {
            let path = (trigger.kind == TriggerKind::Webhook).then(|| hooks::path(&trigger.id));
            json!({"id": trigger.id, "kind": trigger.kind.name(), "node_id": trigger.node, "path": path})
        };
        answer["triggers"] = registration.changes.put.iter().map(shown_trigger).collect();
    }
    Ok((StatusCode::CREATED, JsonBody(answer)))
}

/// Returns the app that gets a new version. `None` if the id is that of a new app.
async fn earlier(state: &ApiState, id: &str, creates: bool) -> Result<Option<App>, ApiError> {
    match state.store.app(id).await? {
        Some(app) => Ok(Some(app)),
        None if !creates => Err(ApiError::not_found(format!("there is no app {id}"))),
        None if uuid::Uuid::parse_str(id).is_ok_and(|parsed| parsed.to_string() == id) => Ok(None),
        None => {
            Err(ApiError::invalid_param("the id of a new app must be a UUID in lower case, with hyphens"))
        }
    }
}

/// `GET /api/v1/apps`.
///
/// # Errors
/// Errors of the store.
pub async fn list(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let mut apps = Vec::new();
    for id in state.store.apps().await? {
        apps.extend(state.store.app(&id).await?);
    }
    apps.sort_by_key(|app| (app.created_at_ms, app.id.clone()));
    Ok(JsonBody(json!({"data": apps.iter().map(to_json).collect::<Vec<_>>()})))
}

/// `GET /api/v1/apps/{id}`.
///
/// # Errors
/// 404 for an unknown app.
pub async fn show(State(state): State<ApiState>, IdInPath(id): IdInPath) -> Result<JsonBody<Json>, ApiError> {
    Ok(JsonBody(to_json(&*find(&state, &id).await?)))
}

/// Returns an app by its id.
///
/// # Errors
/// 404 for an unknown app.
pub(super) async fn find(state: &ApiState, id: &str) -> Result<Arc<App>, ApiError> {
    let app = state.store.app(id).await?;
    app.map(Arc::new).ok_or_else(|| ApiError::not_found(format!("there is no app {id}")))
}

fn to_json(app: &App) -> Json {
    json!({
        "id": app.id, "name": app.name, "mode": app.mode, "version": app.version,
        "created_at": app.created_at_ms as f64 / 1000.0,
    })
}

/// Returns the text of the workflow, and the id of the app that gets a new version. The body is the file itself. Only a
/// JSON object with no keys but `workflow` (a text) and `id` is read as a request; in an export as JSON `workflow` is
/// an object.
fn workflow_of(body: &Body) -> (Vec<u8>, Option<String>) {
    if let Ok(map) = body.object()
        && map.keys().all(|key| key == "workflow" || key == "id")
        && let Some(Json::String(workflow)) = map.get("workflow")
    {
        let id = map.get("id").and_then(Json::as_str).map(str::to_string);
        return (workflow.clone().into_bytes(), id);
    }
    (body.0.to_vec(), None)
}
