//! Apps: registered workflows with a name and a key.

use std::sync::Arc;

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock, Timestamp};
use tidemill_common::dsl::Diagnostic;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::{
    App, AppState, KeyGrant, Reserved, Trigger, TriggerChanges, TriggerKind, key_id,
};

use crate::api::ApiState;
use crate::api::auth::{app_key_ending, new_app_key, sha256_hex};
use crate::api::error::ApiError;
use crate::api::etag::tagged;
use crate::api::hooks;
use crate::api::native::submit::idempotency;
use crate::api::native::{datasets_named, profiles_named, version_use};
use crate::api::request::{Body, IdInPath, Params};
use crate::background::triggers::register;
use crate::runs::ids::{app_uuid, workflow_uuid};
use crate::submit::SubmitError;
use crate::workflows::{Workflow, import};

/// `POST /api/v1/apps`: registers a workflow, or a new version of one. With `create` an unknown id is the id of the new
/// app, so that a repeated request makes no second one. The key is in this response and never shown again, except to a
/// repetition under the same `Idempotency-Key`.
///
/// # Errors
/// 422 with all problems of the workflow, or with `strict` for an unknown profile; 404 for a new version of an unknown
/// app; 400 for an id of a new app that is no UUID; 409 for an `Idempotency-Key` of another request.
pub async fn register(
    State(state): State<ApiState>,
    params: Params,
    headers: HeaderMap,
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
    let mut warnings: Vec<Json> = diagnostics.iter().map(Diagnostic::to_json).collect();
    let identity = Identity::of(&state, &headers, &body, id, earlier.is_some()).await?;
    if let Some(app) = identity.made_before {
        warnings.extend(of_profiles.into_iter().chain(of_datasets));
        return Ok((StatusCode::OK, JsonBody(answer(&app, identity.key.as_deref(), warnings))));
    }
    if earlier.is_none() {
        // What refuses the runs of a removed app with this id.
        state.store.removals().open_app(&identity.id).await?;
    }
    let key = identity.key.as_deref();
    let mut answer = put_version(&state, &workflow, (&identity.id, key), earlier.as_ref(), warnings).await?;
    if let Some(warnings) = answer["warnings"].as_array_mut() {
        warnings.extend(of_profiles.into_iter().chain(of_datasets));
    }
    let status = if earlier.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, JsonBody(answer)))
}

/// Makes a workflow the current version of an app, with its triggers. Returns the answer.
pub(super) async fn put_version(
    state: &ApiState,
    workflow: &Workflow,
    (id, key): (&str, Option<&str>),
    earlier: Option<&App>,
    mut warnings: Vec<Json>,
) -> Result<Json, ApiError> {
    let graph = &workflow.graph;
    let now = state.store.time().await?;
    let registration = register::plan(&*state.store, graph, id, earlier, now).await?;
    let app = App {
        id: id.to_owned(),
        name: graph.name.clone(),
        mode: graph.app_mode().into(),
        version: graph.hash.to_string(),
        document: workflow.document.to_string(),
        created_at_ms: earlier.map_or_else(|| SystemClock.now().millis(), |app| app.created_at_ms),
        triggers: registration.triggers,
        annotation_reply: None,
        state: earlier.map(|app| app.state).unwrap_or_default(),
    };
    let key_hash = key.map(sha256_hex);
    publish(state, &app, earlier, key_hash.as_deref(), &registration.changes, now).await?;
    warnings.extend(prune(state, &app, earlier).await);
    let of_triggers =
        registration.warnings.into_iter().map(|warning| json!({"severity": "warning", "message": warning}));
    warnings.extend(of_triggers);
    let mut answer = answer(&app, key, warnings);
    answer["unchanged"] = earlier.is_some_and(|earlier| earlier.version == app.version).into();
    if !registration.changes.put.is_empty() {
        let shown_trigger = |(trigger, _): &(Trigger, _)| {
            let path = (trigger.kind == TriggerKind::Webhook).then(|| hooks::path(&trigger.id));
            json!({"id": trigger.id, "kind": trigger.kind.name(), "node_id": trigger.node, "path": path})
        };
        answer["triggers"] = registration.changes.put.iter().map(shown_trigger).collect();
    }
    Ok(answer)
}

/// The id of the app that a request publishes, and the key of a new one.
struct Identity {
    id: String,
    key: Option<String>,
    /// The app that the same request made before, under its idempotency key.
    made_before: Option<App>,
}

impl Identity {
    async fn of(
        state: &ApiState,
        headers: &HeaderMap,
        body: &Body,
        id: Option<String>,
        is_known: bool,
    ) -> Result<Self, ApiError> {
        // A request that names its app can be repeated anyway.
        let reserving = match &id {
            Some(_) => None,
            None => idempotency(headers, "apps", body)?,
        };
        let Some(reserving) = reserving else {
            let id = id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
            return Ok(Self { id, key: (!is_known).then(new_app_key), made_before: None });
        };
        let fresh = RunId::generate(ShardId(0));
        let reserved = state.store.reserve(&reserving.key_hash, &reserving.request_hash, fresh).await?;
        let (reserved, is_repeated) = match reserved {
            Reserved::Ours => (fresh, false),
            Reserved::Same(earlier) => (earlier, true),
            Reserved::Other => return Err(SubmitError::KeyTaken.into()),
        };
        let id = app_uuid(reserved).to_string();
        let tokens = state.forms.tokens(&*state.store).await?;
        let key = app_key_ending(&tokens.key_of_app(&id, state.config.scheduler.admin_key.as_str()));
        // The process that reserved the key may have died before it made the app: then it is made now.
        let made_before = if is_repeated { state.store.app(&id).await? } else { None };
        // The key may have been revoked since, or the admin key changed.
        let now = state.store.time().await?;
        let opens = |grant: KeyGrant| grant.app == id && !grant.has_expired(now);
        let is_lost =
            made_before.is_some() && !state.store.grant_of_key(&sha256_hex(&key)).await?.is_some_and(opens);
        Ok(Self { id, key: (!is_lost).then_some(key), made_before })
    }
}

/// Stores the new version. It and the one before it can be pinned from then on.
async fn publish(
    state: &ApiState,
    app: &App,
    earlier: Option<&App>,
    key_hash: Option<&str>,
    changes: &TriggerChanges,
    now: Timestamp,
) -> Result<(), ApiError> {
    let records = state.store.app_records();
    if let Some(earlier) = earlier {
        // An older process did not keep it.
        records.keep_version(earlier, Timestamp::from_millis(earlier.created_at_ms)).await?;
    }
    state.store.put_app(app, key_hash, changes).await?;
    records.keep_version(app, now).await?;
    tracing::info!(app = app.id, version = app.version, is_new = earlier.is_none(), "app registered");
    Ok(())
}

/// Removes old versions above the setting; says which. The new version is published, whatever happens here.
async fn prune(state: &ApiState, app: &App, earlier: Option<&App>) -> Option<Json> {
    let removed = match version_use::prune(state, app, earlier).await {
        Ok(removed) => removed,
        Err(error) => {
            let (app, error) = (&app.id, error.message());
            tracing::warn!(app, error, "old versions stay until the next version is published");
            return None;
        }
    };
    let max = state.config.scheduler.app_versions_max;
    let message = format!(
        "the app has more than {max} versions (scheduler.app_versions_max), so the oldest without open runs were removed \
         and can no longer be pinned: {}",
        removed.join(", ")
    );
    (!removed.is_empty()).then(|| json!({"severity": "warning", "message": message}))
}

fn answer(app: &App, key: Option<&str>, warnings: Vec<Json>) -> Json {
    json!({
        "id": app.id, "name": app.name, "mode": app.mode, "version": app.version,
        "workflow_id": workflow_uuid(&app.id, &app.version), "key": key,
        "key_id": key.map(|key| key_id(&sha256_hex(key))), "unchanged": false, "warnings": warnings,
    })
}

/// Returns the app that gets a new version. `None` if the id is that of a new app.
async fn earlier(state: &ApiState, id: &str, creates: bool) -> Result<Option<App>, ApiError> {
    match state.store.app(id).await? {
        Some(app) if app.state == AppState::Removing => Err(being_removed(id)),
        Some(app) => Ok(Some(app)),
        None if !creates => Err(ApiError::not_found(format!("there is no app {id}"))),
        None if uuid::Uuid::parse_str(id).is_ok_and(|parsed| parsed.to_string() == id) => Ok(None),
        None => {
            Err(ApiError::invalid_param("the id of a new app must be a UUID in lower case, with hyphens"))
        }
    }
}

/// The error for an app that is being removed.
pub(super) fn being_removed(id: &str) -> ApiError {
    let message = format!("the app {id} is being removed; GET /api/v1/removals shows how far that is");
    ApiError::new(StatusCode::CONFLICT, "app_removing", message)
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

/// `GET /api/v1/apps/{id}`: with its limits, and how many of its runs count now.
///
/// # Errors
/// 404 for an unknown app.
pub async fn show(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let app = find(&state, &id).await?;
    let mut shown = to_json(&app);
    shown["limits"] = state.submitter.limiter.shown(&app.id, None).await?;
    Ok(tagged(&headers, shown))
}

/// Returns an app by its id.
///
/// # Errors
/// 404 for an unknown app.
pub(super) async fn find(state: &ApiState, id: &str) -> Result<Arc<App>, ApiError> {
    let app = state.store.app(id).await?;
    app.map(Arc::new).ok_or_else(|| ApiError::not_found(format!("there is no app {id}")))
}

/// An app as it is shown.
pub(super) fn to_json(app: &App) -> Json {
    json!({
        "id": app.id, "name": app.name, "mode": app.mode, "version": app.version, "state": app.state.name(),
        "workflow_id": workflow_uuid(&app.id, &app.version),
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
