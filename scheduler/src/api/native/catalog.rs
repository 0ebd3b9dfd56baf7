//! `/api/v1/providers`, `profiles`, `library`, `calls`, `services`, `datasources` and `plugin-credentials`: entries that Redis stores for all
//! workers. Secrets can be written and are never shown.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, get};
use serde_json::{Value as Json, json};
use tidemill_common::limits::CATALOG_ENTRIES_MAX;
use tidemill_common::registry::calls::standard;
use tidemill_common::registry::secrets::SecretError;
use tidemill_common::registry::{DraftError, draft, public_form};
use tidemill_common::store::{
    Catalog, CatalogEntry, CatalogKind, EntryPut, EntryRemoved, Expected, LiveWorker, PutEntry,
};
use tidemill_common::value::JsonMap;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::native::fleet;
use crate::api::request::{Body, IdInPath, Params, take_count, take_text};

/// Fields that a response adds. They are ignored when a client sends them back.
const READ_ONLY: [&str; 3] = ["created_at", "updated_at", "workers"];

/// The entries of a kind: `GET` lists them, `POST` adds a new one.
pub fn all(kind: CatalogKind) -> MethodRouter<ApiState> {
    get(move |state| list(kind, state)).post(move |state, body| add(kind, state, body))
}

/// One entry: `GET` shows it, `PUT` creates or replaces it, `DELETE` removes it.
pub fn one(kind: CatalogKind) -> MethodRouter<ApiState> {
    get(move |state, id| show(kind, state, id))
        .put(move |state, id, body| replace(kind, state, id, body))
        .delete(move |state, id, params| remove(kind, state, id, params))
}

async fn list(kind: CatalogKind, State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let catalog = state.store.catalog().await?;
    let data: Vec<Json> = catalog.of(kind).iter().map(|entry| of(kind, entry, &catalog)).collect();
    Ok(JsonBody(json!({"data": data})))
}

async fn show(
    kind: CatalogKind,
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
) -> Result<JsonBody<Json>, ApiError> {
    // No registered Call has the id of a built-in one.
    if let Some(built_in) = standard(&id).filter(|_| kind == CatalogKind::Call) {
        return Ok(JsonBody(Json::Object(built_in.to_json())));
    }
    let catalog = state.store.catalog().await?;
    let entry = catalog.find(kind, &id).ok_or_else(|| unknown(kind, &id))?;
    let mut shown = of(kind, entry, &catalog);
    if kind == CatalogKind::Call {
        let now = state.store.time().await?;
        shown["workers"] = checked_by(entry, &fleet::living(&state, now).await?).into();
    }
    Ok(JsonBody(shown))
}

/// The checks of a Call by the living workers. `usable` is null while a worker has not checked this version.
fn checked_by(entry: &CatalogEntry, workers: &[LiveWorker]) -> Vec<Json> {
    let check = |worker: &LiveWorker| {
        let calls = worker.about.iter().flat_map(|about| &about.calls);
        let mut found = calls.filter(|call| call.id == entry.id && call.version == entry.version);
        match found.next() {
            Some(call) => json!({"worker": worker.name, "usable": call.usable, "reason": call.reason}),
            None => json!({"worker": worker.name, "usable": null, "reason": null}),
        }
    };
    workers.iter().map(check).collect()
}

async fn add(
    kind: CatalogKind,
    State(state): State<ApiState>,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let mut object = body.object()?;
    let id = take_text(&mut object, "id")?.unwrap_or_default();
    let catalog = state.store.catalog().await?;
    if catalog.find(kind, &id).is_some() {
        return Err(exists(kind, &id));
    }
    keep(kind, &state, &id, object, &catalog).await
}

async fn replace(
    kind: CatalogKind,
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let mut object = body.object()?;
    if take_text(&mut object, "id")?.is_some_and(|given| given != id) {
        return Err(ApiError::invalid_param("id is another one than that of the path"));
    }
    let catalog = state.store.catalog().await?;
    keep(kind, &state, &id, object, &catalog).await
}

/// Stores an entry, unless another client has changed it since `catalog` was read.
async fn keep(
    kind: CatalogKind,
    state: &ApiState,
    id: &str,
    mut object: JsonMap,
    catalog: &Catalog,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let earlier = catalog.find(kind, id);
    let seen = take_count(&mut object, "version")?;
    READ_ONLY.iter().for_each(|name| drop(object.remove(*name)));
    let make_default = kind == CatalogKind::Profile && object.remove("default") == Some(Json::Bool(true));
    if seen.is_some() && seen != earlier.map(|entry| entry.version) {
        return Err(changed(kind, id));
    }
    let draft = draft(kind, id, object, (earlier, catalog), state.sealing_key.as_ref()).map_err(refused)?;
    let expected = earlier.map_or(Expected::Absent, |entry| Expected::Version(entry.version));
    let put = PutEntry { kind, id, fields: &draft.fields, expected, make_default };
    match state.store.put_entry(put).await? {
        EntryPut::Stored(version) => {
            tracing::info!(kind = kind.name(), id, version, "entry stored for all workers")
        }
        EntryPut::Differs => return Err(changed(kind, id)),
        EntryPut::Full => {
            let message = format!("there are {CATALOG_ENTRIES_MAX} {}, as many as there may be", kind.many());
            return Err(ApiError::new(StatusCode::CONFLICT, "too_many", message));
        }
    }
    let catalog = state.store.catalog().await?;
    let entry = catalog.find(kind, id).ok_or_else(|| changed(kind, id))?;
    let mut answer = of(kind, entry, &catalog);
    answer["warnings"] = draft.warnings.into();
    let status = if earlier.is_none() { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, JsonBody(answer)))
}

/// Removes an entry. With `?force=true` also when other entries use it.
async fn remove(
    kind: CatalogKind,
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    params: Params,
) -> Result<StatusCode, ApiError> {
    let force = params.truth("force", false)?;
    let catalog = state.store.catalog().await?;
    let (above, users) = users(kind, &id, &catalog);
    if !users.is_empty() && !force {
        let message = format!(
            "the {kind} {id} is used by {above} ({}): remove them first, or force it",
            users.join(", ")
        );
        return Err(ApiError::new(StatusCode::CONFLICT, "in_use", message).with(above, json!(users)));
    }
    let heir = catalog.heir(&id).unwrap_or_default();
    if state.store.remove_entry(kind, &id, heir, None).await? != EntryRemoved::Removed {
        return Err(unknown(kind, &id));
    }
    tracing::info!(kind = kind.name(), id, "entry removed for all workers");
    Ok(StatusCode::NO_CONTENT)
}

/// The entries that use this one, and the name of their kind.
fn users<'a>(kind: CatalogKind, id: &str, catalog: &'a Catalog) -> (&'static str, Vec<&'a str>) {
    let (above, field) = match kind {
        CatalogKind::Provider => (CatalogKind::Profile, "provider"),
        CatalogKind::Call => (CatalogKind::Library, "callId"),
        CatalogKind::Service => (CatalogKind::Library, "service_id"),
        CatalogKind::Profile
        | CatalogKind::Library
        | CatalogKind::Datasource
        | CatalogKind::Plugin
        | CatalogKind::PluginCredentials => return ("", Vec::new()),
    };
    let over = |entry: &&CatalogEntry| entry.fields.get(field).is_some_and(|named| named == id);
    let users = catalog.of(above).iter().filter(over).map(|entry| entry.id.as_str()).collect();
    (above.many(), users)
}

fn of(kind: CatalogKind, entry: &CatalogEntry, catalog: &Catalog) -> Json {
    let mut shown = public_form(kind, entry);
    if kind == CatalogKind::Profile {
        let is_default = catalog.default_profile.as_deref() == Some(entry.id.as_str());
        shown.insert("default".into(), is_default.into());
    }
    Json::Object(shown)
}

fn refused(error: DraftError) -> ApiError {
    let message = error.to_string();
    match error {
        DraftError::Secret(SecretError::NoKey { .. }) => {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "secrets_unusable", message)
        }
        DraftError::Wrong(_) | DraftError::Secret(_) => ApiError::invalid_param(message),
    }
}

pub(super) fn unknown(kind: CatalogKind, id: &str) -> ApiError {
    ApiError::not_found(match kind {
        CatalogKind::Provider => format!("there is no provider {id} in Redis"),
        CatalogKind::Profile => format!("Profile not found: {id}"),
        CatalogKind::PluginCredentials => format!("there are no {kind} {id}"),
        CatalogKind::Library
        | CatalogKind::Call
        | CatalogKind::Service
        | CatalogKind::Datasource
        | CatalogKind::Plugin => format!("there is no {kind} {id}"),
    })
}

fn exists(kind: CatalogKind, id: &str) -> ApiError {
    let message = format!("there is a {kind} {id}: PUT changes it (--update, --replace)");
    ApiError::new(StatusCode::CONFLICT, "already_exists", message)
}

fn changed(kind: CatalogKind, id: &str) -> ApiError {
    let message =
        format!("the {kind} {id} was changed by another client: read it again and repeat the change");
    ApiError::new(StatusCode::CONFLICT, "changed", message)
}
