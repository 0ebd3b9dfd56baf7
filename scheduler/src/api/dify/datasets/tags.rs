//! Tags of datasets. A dataset keeps the ids of its tags; a removed tag is shown nowhere.

use axum::Json as JsonBody;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::wire::knowledge::TagRecord;
use uuid::Uuid;

use super::payload::Payload;
use super::{change, dataset};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::Body;

/// The longest name, in characters, as on Dify.
const NAME_CHARS_MAX: usize = 50;

async fn shown(state: &ApiState, tags: &[TagRecord]) -> Result<Vec<Json>, ApiError> {
    let datasets = state.store.knowledge().datasets().await?;
    let count = |tag: &TagRecord| datasets.iter().filter(|it| it.notes.tags.contains(&tag.id)).count();
    let one = |tag: &TagRecord| json!({"id": tag.id, "name": tag.name, "type": "knowledge", "binding_count": count(tag).to_string()});
    Ok(tags.iter().map(one).collect())
}

/// The name in a payload, which no tag may have yet.
fn name(payload: &Payload, known: &[TagRecord]) -> Result<String, ApiError> {
    payload.required("name")?;
    let name = payload.sized("name", 1, NAME_CHARS_MAX)?.unwrap_or_default();
    match known.iter().any(|tag| tag.name == name) {
        true => Err(ApiError::invalid_param("Tag name already exists")),
        false => Ok(name.into()),
    }
}

/// `GET /v1/datasets/tags`: all tags, the newest first.
///
/// # Errors
/// Errors of the store.
pub(super) async fn list(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let mut tags = state.store.knowledge().tags().await?;
    tags.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    Ok(JsonBody(shown(&state, &tags).await?.into()))
}

/// `POST /v1/datasets/tags`: creates a tag.
///
/// # Errors
/// 400 for a wrong or known name.
pub(super) async fn create(State(state): State<ApiState>, body: Body) -> Result<JsonBody<Json>, ApiError> {
    let payload = Payload::read("TagCreatePayload", &body)?;
    let name = name(&payload, &state.store.knowledge().tags().await?)?;
    let created_at = state.store.time().await?.millis();
    let tag = TagRecord { id: Uuid::new_v4().to_string(), name, created_at };
    state.store.knowledge().put_tag(&tag).await?;
    Ok(JsonBody(shown(&state, &[tag]).await?.remove(0)))
}

/// `PATCH /v1/datasets/tags`: renames a tag.
///
/// # Errors
/// 400 for a wrong or known name; 404.
pub(super) async fn rename(State(state): State<ApiState>, body: Body) -> Result<JsonBody<Json>, ApiError> {
    let payload = Payload::read("TagUpdatePayload", &body)?;
    let id = payload.required("tag_id")?;
    let known = state.store.knowledge().tags().await?;
    let name = name(&payload, &known)?;
    let tag = known.into_iter().find(|tag| tag.id == id).ok_or_else(not_found)?;
    let tag = TagRecord { name, ..tag };
    state.store.knowledge().put_tag(&tag).await?;
    Ok(JsonBody(shown(&state, &[tag]).await?.remove(0)))
}

/// `DELETE /v1/datasets/tags`: removes a tag, and no dataset. 204.
///
/// # Errors
/// 404.
pub(super) async fn remove(State(state): State<ApiState>, body: Body) -> Result<StatusCode, ApiError> {
    let payload = Payload::read("TagDeletePayload", &body)?;
    match state.store.knowledge().drop_tag(payload.required("tag_id")?).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(not_found()),
    }
}

fn not_found() -> ApiError {
    ApiError::not_found("Tag not found")
}

/// `POST /v1/datasets/tags/binding`: gives a dataset tags. 204.
///
/// # Errors
/// 400 without tags; 404.
pub(super) async fn bind(State(state): State<ApiState>, body: Body) -> Result<StatusCode, ApiError> {
    let payload = Payload::read("TagBindingPayload", &body)?;
    let ids = payload.texts("tag_ids")?;
    bindings(&state, &payload, ids, true).await
}

/// `POST /v1/datasets/tags/unbinding`: takes tags from a dataset. 204.
///
/// # Errors
/// As [`bind`].
pub(super) async fn unbind(State(state): State<ApiState>, body: Body) -> Result<StatusCode, ApiError> {
    let payload = Payload::read("TagUnbindingPayload", &body)?;
    let mut ids = payload.texts("tag_ids")?;
    if ids.is_empty() {
        ids.extend(payload.text("tag_id")?.filter(|id| !id.is_empty()).map(str::to_owned));
    }
    bindings(&state, &payload, ids, false).await
}

async fn bindings(
    state: &ApiState,
    payload: &Payload,
    ids: Vec<String>,
    bound: bool,
) -> Result<StatusCode, ApiError> {
    let target = payload.required("target_id")?;
    if ids.is_empty() {
        return Err(payload.wrong("tag_ids", "Value error, Tag IDs is required."));
    }
    let tags = state.store.knowledge().tags().await?;
    let known = |id: &&String| tags.iter().any(|tag| tag.id == **id);
    let ids: Vec<&String> = ids.iter().filter(|id| !bound || known(id)).collect();
    let changed = change::of_dataset(state, target, |record| {
        record.notes.tags.retain(|tag| !ids.contains(&tag));
        if bound {
            record.notes.tags.extend(ids.iter().map(|id| (*id).clone()));
        }
        Ok(())
    });
    match changed.await {
        Ok(_) => Ok(StatusCode::NO_CONTENT),
        // Dify's text has no full stop here.
        Err(error) if error.status() == StatusCode::NOT_FOUND => {
            Err(ApiError::not_found("Dataset not found"))
        }
        Err(error) => Err(error),
    }
}

/// `GET /v1/datasets/{dataset}/tags`: the tags of a dataset.
///
/// # Errors
/// 404.
pub(super) async fn of_dataset(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let tags = state.store.knowledge().tags().await?;
    let bound = tags.iter().filter(|tag| dataset.notes.tags.contains(&tag.id));
    let data: Vec<Json> = bound.map(|tag| json!({"id": tag.id, "name": tag.name})).collect();
    let total = data.len();
    Ok(JsonBody(json!({"data": data, "total": total})))
}
