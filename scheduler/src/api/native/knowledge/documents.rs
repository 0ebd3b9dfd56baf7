//! Documents of a dataset: adds, shows and removes them. A run indexes each new document.

use axum::Json as JsonBody;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::knowledge::segment::document_id;
use tidemill_common::knowledge::{SplitSettings, Unit, split};
use tidemill_common::store::Generation;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::knowledge::{DatasetRecord, UPLOAD};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::indexing::{self, Content, Order};
use crate::api::native::knowledge::{check_name, existing, find, shown, take};
use crate::api::request::{
    Body, IdInPath, Params, nothing_left, take_count, take_list, take_object, take_text,
};

/// Segments of a document that are shown by default.
const SHOWN: u64 = 100;
/// The most segments that are shown.
const SHOWN_MAX: u64 = 1000;

/// `POST /api/v1/knowledge/{id}/documents`: adds a document, or a new version of one. 202: a run indexes it. Until that
/// has ended, searches use the earlier version.
///
/// # Errors
/// 400 for invalid fields; 404 for an unknown dataset.
pub async fn add(
    State(state): State<ApiState>,
    IdInPath(dataset): IdInPath,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let mut map = body.object()?;
    let name = take_text(&mut map, "name")?.ok_or_else(|| ApiError::invalid_param("name is required"))?;
    check_name("name", &name)?;
    let given = take_text(&mut map, "id")?;
    if let Some(id) = &given {
        check_name("id", id)?;
    }
    let segments = pieces(&mut map)?;
    let metadata = take_object(&mut map, "doc_metadata")?.unwrap_or_default();
    let source = take_text(&mut map, "data_source_type")?.unwrap_or_else(|| UPLOAD.into());
    nothing_left(&map)?;
    let dataset = existing(&state, &dataset).await?;
    let document = match given {
        Some(id) => id,
        None => known_by_name(&state, &dataset, &name).await?,
    };
    let total = segments.len();
    let order = Order {
        name,
        data_source_type: source,
        doc_metadata: Some(metadata),
        ..Order::of(document.clone(), Content::Segments(segments))
    };
    let run = indexing::order(&state, &dataset, order).await?;
    let answer = json!({
        "dataset_id": dataset.id, "document_id": document, "run": run.to_string(), "segments": total,
    });
    Ok((StatusCode::ACCEPTED, JsonBody(answer)))
}

/// The id of the document with this name, or an id that follows from the name.
async fn known_by_name(state: &ApiState, dataset: &DatasetRecord, name: &str) -> Result<String, ApiError> {
    let known = state.store.knowledge().documents(&dataset.id).await?.documents;
    let known = known.into_iter().find(|it| it.name == name).map(|it| it.id);
    Ok(known.unwrap_or_else(|| document_id(&dataset.id, name)))
}

/// The segments in a request, or its text split into segments.
fn pieces(map: &mut JsonMap) -> Result<Vec<Json>, ApiError> {
    let settings = split_settings(take_object(map, "split")?)?;
    let given = take_list(map, "segments")?;
    let pieces = match take_text(map, "text")? {
        Some(_) if !given.is_empty() => {
            return Err(ApiError::invalid_param("text and segments exclude each other"));
        }
        Some(text) => {
            split(&text, settings).into_iter().map(|content| json!({ "content": content })).collect()
        }
        None => given,
    };
    let is_piece = |piece: &Json| {
        piece["content"].as_str().is_some_and(|text| !text.trim().is_empty())
            && (piece["answer"].is_null() || piece["answer"].is_string())
    };
    match pieces.iter().all(is_piece) {
        false => {
            Err(ApiError::invalid_param("a segment needs content, a text, and may have answer, another one"))
        }
        true if pieces.is_empty() => {
            Err(ApiError::invalid_param("there is no text in it: give text or segments"))
        }
        true => Ok(pieces),
    }
}

fn split_settings(given: Option<JsonMap>) -> Result<SplitSettings, ApiError> {
    let usual = SplitSettings::default();
    let Some(mut map) = given else { return Ok(usual) };
    let count = |value: Option<u64>, usual: usize| {
        value.map_or(usual, |value| usize::try_from(value).unwrap_or(usize::MAX))
    };
    let size = count(take_count(&mut map, "size")?, usual.size);
    let overlap = count(take_count(&mut map, "overlap")?, usual.overlap.min(size.saturating_sub(1)));
    let unit: Option<String> = take(&mut map, "unit")?;
    nothing_left(&map)?;
    let unit = match unit {
        None => usual.unit,
        Some(name) => Unit::from_name(&name)
            .ok_or_else(|| ApiError::invalid_param("split.unit must be characters or tokens"))?,
    };
    if size == 0 || overlap >= size {
        return Err(ApiError::invalid_param("split.size must be 1 or more, and split.overlap less than it"));
    }
    Ok(SplitSettings { size, overlap, unit })
}

/// `GET /api/v1/knowledge/{id}/documents/{document}`: the status of a document, and its first segments (`?segments=`).
///
/// # Errors
/// 404 for an unknown document.
pub async fn show(
    State(state): State<ApiState>,
    Path((dataset, document)): Path<(String, String)>,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    let wanted = match params.get("segments") {
        None => SHOWN,
        Some(text) => text
            .parse()
            .ok()
            .filter(|count| *count <= SHOWN_MAX)
            .ok_or_else(|| ApiError::invalid_param(format!("segments must be from 0 to {SHOWN_MAX}")))?,
    };
    let dataset = existing(&state, &dataset).await?;
    let knowledge = state.store.knowledge();
    let mut indexing = knowledge.indexing(&dataset.id).await?;
    let mut known = knowledge.documents(&dataset.id).await?.documents;
    let by_id = |id: &str, name: &str| id == document || name == document;
    let id = known.iter().find(|it| by_id(&it.id, &it.name)).map(|it| it.id.clone());
    let id = id.or_else(|| indexing.iter().find(|(id, it)| by_id(id, &it.name)).map(|(id, _)| id.clone()));
    let id = id.ok_or_else(|| {
        ApiError::not_found(format!("there is no document {document} in dataset {}", dataset.id))
    })?;
    known.retain(|it| it.id == id);
    indexing.retain(|(it, _)| *it == id);
    let content = match known.first() {
        None => Vec::new(),
        Some(record) => {
            let positions: Vec<u64> = (1..=record.segments.min(wanted)).collect();
            let of = Generation { dataset: &dataset.id, name: &record.generation };
            knowledge.segments(of, &positions).await?
        }
    };
    let hits = if content.is_empty() { Default::default() } else { knowledge.hits(&dataset.id).await? };
    let mut answer = shown::documents(&state, known, indexing).await?.pop().unwrap_or_default();
    let segment = |it: &tidemill_common::wire::knowledge::SegmentRecord| {
        let mut shown = json!(it);
        shown["hit_count"] = json!(hits.get(&it.id).copied().unwrap_or(0));
        shown
    };
    answer["content"] = content.iter().map(segment).collect();
    Ok(JsonBody(answer))
}

/// `DELETE /api/v1/knowledge/{id}/documents/{document}`: removes a document, by id or name.
///
/// # Errors
/// 404 for an unknown document.
pub async fn remove(
    State(state): State<ApiState>,
    Path((dataset, document)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let unknown = || ApiError::not_found(format!("there is no document {document} in dataset {dataset}"));
    let record = find(&state, &dataset).await?.ok_or_else(unknown)?;
    let knowledge = state.store.knowledge();
    if knowledge.drop_document(&record.id, &document).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let known = knowledge.documents(&record.id).await?.documents;
    let indexing = knowledge.indexing(&record.id).await?;
    let named = known.into_iter().map(|it| (it.id, it.name));
    let named = named.chain(indexing.into_iter().map(|(id, it)| (id, it.name)));
    let ids: Vec<String> = named.filter(|(_, name)| *name == document).map(|(id, _)| id).collect();
    let mut was_there = false;
    for id in ids {
        was_there |= knowledge.drop_document(&record.id, &id).await?;
    }
    if was_there { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}
