//! Datasets: creates, lists, shows, changes and removes them.

use axum::Json as JsonBody;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::wire::knowledge::{DatasetNotes, DatasetRecord, ModelName, Technique};
use uuid::Uuid;

use super::absent::absent;
use super::payload::Payload;
use super::queries::Parameters;
use super::shown::{self, Place};
use super::{change, dataset, retrieval, views};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::native::knowledge::check;
use crate::api::request::Body;

/// The most characters of a name and of a description, as on Dify.
const NAME_CHARS_MAX: usize = 40;
const DESCRIPTION_CHARS_MAX: usize = 400;
const PERMISSIONS: [&str; 3] = ["only_me", "all_team_members", "partial_members"];
const TECHNIQUES: [&str; 2] = ["high_quality", "economy"];

/// Dify's message when there is no model for vectors, and what to do here.
const NO_MODEL: &str = "No Embedding Model available. Please configure a valid provider: high_quality needs \
    embedding_model and embedding_model_provider, or the setting knowledge.embedding_model.";
const EXTERNAL: &str = "External knowledge bases are not made here: describe them in the settings of the workers, as \
    [knowledge.datasets.ID].";
const NOT_AGAIN: &str = "The documents of a knowledge base are not indexed again: create another one with this \
    indexing_technique and model, and add the documents to it.";

/// The model for vectors that a payload names.
pub(super) fn embedding(payload: &Payload) -> Result<Option<ModelName>, ApiError> {
    let named = |key: &str| -> Result<Option<String>, ApiError> {
        Ok(payload.text(key)?.filter(|text| !text.is_empty()).map(str::to_owned))
    };
    let (provider, model) = (named("embedding_model_provider")?, named("embedding_model")?);
    Ok(provider.zip(model).map(|(provider, model)| ModelName { provider, model }))
}

/// The indexing technique that a payload names.
pub(super) fn technique(payload: &Payload) -> Result<Option<Technique>, ApiError> {
    Ok(payload.word("indexing_technique", &TECHNIQUES)?.and_then(Technique::from_name))
}

/// Sets the indexing technique of a dataset that has none yet; without a model it gets the usual one.
pub(super) fn decide(
    dataset: &mut DatasetRecord,
    technique: Technique,
    usual: Option<&ModelName>,
) -> Result<(), ApiError> {
    dataset.indexing_technique = technique;
    dataset.notes.is_undecided = false;
    if technique == Technique::HighQuality && dataset.embedding.is_none() {
        dataset.embedding = usual.cloned();
    }
    match (technique, &dataset.embedding) {
        (Technique::HighQuality, None) => Err(ApiError::invalid_param(NO_MODEL)),
        (Technique::HighQuality, Some(_)) | (Technique::Economy, _) => Ok(()),
    }
}

/// `POST /v1/datasets`: creates an empty dataset.
///
/// # Errors
/// 400 for a wrong field, 409 `dataset_name_duplicate`, 501 for an external one.
pub(super) async fn create(State(state): State<ApiState>, body: Body) -> Result<JsonBody<Json>, ApiError> {
    let payload = Payload::read("DatasetCreatePayload", &body)?;
    let usual = state.config.knowledge.default_embedding();
    let record = new(&payload, usual.as_ref(), state.store.time().await?.millis())?;
    let known = state.store.knowledge().datasets().await?;
    let is_taken = known.iter().any(|it| it.name == record.name);
    if is_taken || !state.store.knowledge().put_dataset(&record, true).await? {
        let message = "The dataset name already exists. Please modify your dataset name.";
        return Err(ApiError::new(StatusCode::CONFLICT, "dataset_name_duplicate", message));
    }
    tracing::info!(dataset = record.id, technique = record.indexing_technique.name(), "dataset created");
    Ok(JsonBody(shown::dataset(&state, &record, &[], Place::Made).await?))
}

fn new(payload: &Payload, usual: Option<&ModelName>, now: i64) -> Result<DatasetRecord, ApiError> {
    payload.required("name")?;
    let name = payload.sized("name", 1, NAME_CHARS_MAX)?.unwrap_or_default();
    let description = payload.sized("description", 0, DESCRIPTION_CHARS_MAX)?.unwrap_or_default();
    if payload.word("provider", &["vendor", "external"])? == Some("external") {
        return Err(absent(EXTERNAL));
    }
    let mut record = DatasetRecord {
        id: Uuid::new_v4().to_string(),
        name: name.into(),
        description: description.into(),
        embedding: embedding(payload)?,
        created_at: now,
        notes: DatasetNotes {
            is_undecided: true,
            permission: payload.word("permission", &PERMISSIONS)?.unwrap_or_default().into(),
            ..DatasetNotes::default()
        },
        ..DatasetRecord::default()
    };
    if let Some(given) = payload.object("retrieval_model")? {
        record.retrieval = retrieval::read(given)?;
    }
    if let Some(technique) = technique(payload)? {
        decide(&mut record, technique, usual)?;
    }
    check(&record)?;
    Ok(record)
}

/// `GET /v1/datasets`: a page of them, the newest first.
///
/// # Errors
/// 400 for a wrong parameter.
pub(super) async fn list(
    State(state): State<ApiState>,
    parameters: Parameters,
) -> Result<JsonBody<Json>, ApiError> {
    let page = parameters.page()?;
    let knowledge = state.store.knowledge();
    let mut all = knowledge.datasets().await?;
    if let Some(keyword) = parameters.first("keyword").map(str::to_lowercase) {
        all.retain(|it| it.name.to_lowercase().contains(&keyword));
    }
    let wanted: Vec<&str> = parameters.all("tag_ids").filter(|id| !id.is_empty()).collect();
    if !wanted.is_empty() {
        all.retain(|it| it.notes.tags.iter().any(|tag| wanted.contains(&tag.as_str())));
    }
    all.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let (total, tags) = (all.len() as u64, knowledge.tags().await?);
    let mut data = Vec::new();
    for record in page.of(all) {
        data.push(shown::dataset(&state, &record, &tags, Place::Listed).await?);
    }
    Ok(JsonBody(json!({
        "data": data,
        "has_more": page.page.saturating_mul(page.size()) < total,
        "limit": page.size(),
        "total": total,
        "page": page.page,
    })))
}

/// `GET /v1/datasets/{dataset}`.
///
/// # Errors
/// 404.
pub(super) async fn show(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<JsonBody<Json>, ApiError> {
    let record = dataset(&state, &id).await?;
    let tags = state.store.knowledge().tags().await?;
    Ok(JsonBody(shown::dataset(&state, &record, &tags, Place::Shown).await?))
}

/// `PATCH /v1/datasets/{dataset}`: changes the given fields.
///
/// # Errors
/// 400 for a wrong field; 404; 501 for another index of existing documents.
pub(super) async fn update(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let before = dataset(&state, &id).await?;
    let payload = Payload::read("DatasetUpdatePayload", &body)?;
    let name = payload.sized("name", 1, NAME_CHARS_MAX)?;
    let description = payload.sized("description", 0, DESCRIPTION_CHARS_MAX)?;
    let permission = payload.word("permission", &PERMISSIONS)?;
    let given = payload.object("retrieval_model")?.map(retrieval::read).transpose()?;
    let (technique, embedding) = (technique(&payload)?, embedding(&payload)?);
    let usual = state.config.knowledge.default_embedding();
    let embedding = embedding.or_else(|| {
        usual.filter(|_| technique == Some(Technique::HighQuality) && before.embedding.is_none())
    });
    let known = state.store.knowledge().datasets().await?;
    if name.is_some_and(|name| known.iter().any(|it| it.name == name && it.id != id)) {
        return Err(ApiError::invalid_param("Dataset name already exists"));
    }
    let is_empty = views::all(&state, &before).await?.is_empty();
    let record = change::of_dataset(&state, &id, |record| {
        if let Some(name) = name {
            record.name = name.into();
        }
        if let Some(description) = description {
            record.description = description.into();
        }
        if let Some(permission) = permission {
            record.notes.permission = permission.into();
        }
        if let Some(given) = &given {
            record.retrieval = given.clone();
        }
        reindex(record, technique, embedding.clone(), is_empty)?;
        check(record)
    })
    .await?;
    let tags = state.store.knowledge().tags().await?;
    Ok(JsonBody(shown::dataset(&state, &record, &tags, Place::Changed).await?))
}

/// Sets technique and model, which a dataset with documents cannot change.
fn reindex(
    record: &mut DatasetRecord,
    technique: Option<Technique>,
    embedding: Option<ModelName>,
    is_empty: bool,
) -> Result<(), ApiError> {
    let is_other = technique.is_some_and(|it| it != record.indexing_technique)
        || embedding.as_ref().is_some_and(|it| record.embedding.as_ref() != Some(it));
    if !is_empty && is_other {
        return Err(absent(NOT_AGAIN));
    }
    if embedding.is_some() {
        record.embedding = embedding;
    }
    technique.map_or(Ok(()), |technique| decide(record, technique, None))
}

/// `DELETE /v1/datasets/{dataset}`: removes a dataset with all its documents. 204.
///
/// # Errors
/// 404.
pub(super) async fn remove(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    if !state.store.knowledge().drop_dataset(&id).await? {
        return Err(ApiError::not_found("Dataset not found."));
    }
    tracing::info!(dataset = id, "dataset removed");
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(fields: Json) -> Result<DatasetRecord, String> {
        let map = fields.as_object().cloned().unwrap_or_default();
        new(&Payload::of("P", map), None, 1)
            .map_err(|error| format!("{} {}", error.status().as_u16(), error.message()))
    }

    #[test]
    fn a_dataset_is_undecided_until_its_technique_is_chosen() {
        let record = made(json!({"name": "n"})).unwrap();
        assert!(record.notes.is_undecided && record.indexing_technique == Technique::Economy);
        let record = made(json!({"name": "n", "indexing_technique": "economy"})).unwrap();
        assert!(!record.notes.is_undecided);
        let of_model = json!({"name": "n", "indexing_technique": "high_quality", "embedding_model": "e",
            "embedding_model_provider": "p"});
        assert!(made(of_model).is_ok());
        for (fields, expected) in [
            (json!({"name": "n", "indexing_technique": "high_quality"}), NO_MODEL),
            (json!({}), "Field required"),
            (json!({"name": "x".repeat(41)}), "at most 40 characters"),
            (json!({"name": "n", "provider": "external"}), "501 External"),
        ] {
            let error = made(fields.clone()).unwrap_err();
            assert!(error.contains(expected), "{fields}: {error}");
        }
    }

    #[test]
    fn vectors_without_a_model_take_the_usual_one() {
        let usual = ModelName { provider: "p".into(), model: "usual".into() };
        let map = json!({"name": "n", "indexing_technique": "high_quality"});
        let payload = Payload::of("P", map.as_object().cloned().unwrap_or_default());
        assert_eq!(new(&payload, Some(&usual), 1).unwrap().embedding, Some(usual));
    }

    #[test]
    fn only_an_empty_dataset_changes_its_index() {
        let mut record = DatasetRecord::default();
        assert!(reindex(&mut record, Some(Technique::Economy), None, false).is_ok());
        let model = ModelName { provider: "p".into(), model: "e".into() };
        let error = reindex(&mut record, Some(Technique::HighQuality), Some(model.clone()), false);
        assert_eq!(error.unwrap_err().status(), StatusCode::NOT_IMPLEMENTED);
        assert!(reindex(&mut record, Some(Technique::HighQuality), Some(model.clone()), true).is_ok());
        assert_eq!((record.indexing_technique, record.embedding), (Technique::HighQuality, Some(model)));
    }
}
