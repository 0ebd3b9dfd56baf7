//! Datasets: creates, lists, shows and removes them.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::wire::knowledge::{DatasetRecord, ModelName, Retrieval, Technique};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::native::knowledge::{check, existing, find, shown, take, taken};
use crate::api::request::{Body, IdInPath, nothing_left, take_text};

/// Keys that `retrieval` may have in a request.
const RETRIEVAL: [&str; 5] =
    ["search_method", "top_k", "score_threshold", "reranking_model", "vector_weight"];

/// `POST /api/v1/knowledge`: creates a dataset.
///
/// # Errors
/// 400 for invalid fields; 409 when a dataset has this id or name.
pub async fn create(
    State(state): State<ApiState>,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let mut map = body.object()?;
    let id = take_text(&mut map, "id")?;
    let name = take_text(&mut map, "name")?;
    let embedding: Option<ModelName> = take(&mut map, "embedding")?;
    let usual = if embedding.is_some() { Technique::HighQuality } else { Technique::Economy };
    let id = match (id, &name) {
        (Some(id), _) => id,
        (None, Some(_)) => uuid::Uuid::new_v4().to_string(),
        (None, None) => return Err(ApiError::invalid_param("id or name is required")),
    };
    // Stored records of newer versions may have other keys; requests may not.
    let unknown = |map: &tidemill_common::value::JsonMap| {
        map.get("retrieval")?.as_object()?.keys().find(|key| !RETRIEVAL.contains(&key.as_str())).cloned()
    };
    if let Some(key) = unknown(&map) {
        return Err(ApiError::invalid_param(format!("unknown key {key} in retrieval")));
    }
    let record = DatasetRecord {
        name: name.unwrap_or_else(|| id.clone()),
        id,
        description: take_text(&mut map, "description")?.unwrap_or_default(),
        indexing_technique: take(&mut map, "indexing_technique")?.unwrap_or(usual),
        embedding,
        retrieval: take::<Retrieval>(&mut map, "retrieval")?.unwrap_or_default(),
        created_at: state.store.time().await?.millis(),
        ..DatasetRecord::default()
    };
    nothing_left(&map)?;
    check(&record)?;
    for wanted in [&record.id, &record.name] {
        if find(&state, wanted).await?.is_some() {
            return Err(taken(format!("there is a dataset {wanted}")));
        }
    }
    if !state.store.knowledge().put_dataset(&record, true).await? {
        return Err(taken(format!("there is a dataset {}", record.id)));
    }
    tracing::info!(dataset = record.id, technique = record.indexing_technique.name(), "dataset created");
    Ok((StatusCode::CREATED, JsonBody(shown::dataset(&record))))
}

/// `GET /api/v1/knowledge`: all datasets, with the number of documents and segments in each.
///
/// # Errors
/// Errors of the store.
pub async fn list(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let knowledge = state.store.knowledge();
    let mut data = Vec::new();
    for record in knowledge.datasets().await? {
        let list = knowledge.documents(&record.id).await?;
        let indexing = knowledge.indexing(&record.id).await?.len();
        let mut one = shown::dataset(&record);
        one["version"] = list.version.into();
        one["documents"] = list.documents.len().into();
        one["indexing"] = indexing.into();
        one["segments"] = list.documents.iter().map(|it| it.segments).sum::<u64>().into();
        one["word_count"] = list.documents.iter().map(|it| it.word_count).sum::<u64>().into();
        data.push(one);
    }
    Ok(JsonBody(json!({ "data": data })))
}

/// `GET /api/v1/knowledge/{id}`: a dataset, by id or name, and its documents.
///
/// # Errors
/// 404 for an unknown dataset.
pub async fn show(State(state): State<ApiState>, IdInPath(id): IdInPath) -> Result<JsonBody<Json>, ApiError> {
    let record = existing(&state, &id).await?;
    let knowledge = state.store.knowledge();
    // In this order a document that is published in between is in both lists, and not in neither.
    let indexing = knowledge.indexing(&record.id).await?;
    let list = knowledge.documents(&record.id).await?;
    let mut answer = shown::dataset(&record);
    answer["version"] = list.version.into();
    answer["documents"] = shown::documents(&state, list.documents, indexing).await?.into();
    Ok(JsonBody(answer))
}

/// `DELETE /api/v1/knowledge/{id}`: removes a dataset with all its documents.
///
/// # Errors
/// 404 for an unknown dataset.
pub async fn remove(State(state): State<ApiState>, IdInPath(id): IdInPath) -> Result<StatusCode, ApiError> {
    let unknown = || ApiError::not_found(format!("there is no dataset {id}"));
    let Some(record) = find(&state, &id).await? else {
        // An earlier removal may have stopped half-way, after the dataset had left the list.
        state.store.knowledge().drop_dataset(&id).await?;
        return Err(unknown());
    };
    if !state.store.knowledge().drop_dataset(&record.id).await? {
        return Err(unknown());
    }
    tracing::info!(dataset = record.id, "dataset removed");
    Ok(StatusCode::NO_CONTENT)
}
