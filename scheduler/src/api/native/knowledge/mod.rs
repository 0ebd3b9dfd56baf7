//! `/api/v1/knowledge`: embedded datasets ([`datasets`]), and their documents ([`documents`]). Adding a document starts
//! a run, because only workers have the keys of the embedding model.

pub mod datasets;
pub mod documents;
mod shown;

use axum::http::StatusCode;
use serde_json::Value as Json;
use tidemill_common::limits::KNOWLEDGE_NAME_BYTES_MAX;
use tidemill_common::nodes::knowledge_retrieval::config::{DatasetConfig, DatasetKind};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::knowledge::{DatasetRecord, INNER, is_inner};

use crate::api::ApiState;
use crate::api::error::ApiError;

/// Finds a dataset by id or name.
async fn find(state: &ApiState, wanted: &str) -> Result<Option<DatasetRecord>, ApiError> {
    let all = state.store.knowledge().datasets().await?;
    let by = |test: &dyn Fn(&DatasetRecord) -> bool| all.iter().find(|it| test(it)).cloned();
    Ok(by(&|it| it.id == wanted).or_else(|| by(&|it| it.name == wanted)))
}

/// Finds a dataset, or returns 404. A dataset from the settings is created at its first use.
async fn existing(state: &ApiState, wanted: &str) -> Result<DatasetRecord, ApiError> {
    if let Some(found) = find(state, wanted).await? {
        return Ok(found);
    }
    let set = &state.config.knowledge.datasets;
    let named = |(id, config): &(&String, &DatasetConfig)| {
        config.kind == DatasetKind::Embedded && (id.as_str() == wanted || config.name == wanted)
    };
    let Some((id, config)) = set.iter().find(named) else {
        return Err(ApiError::not_found(format!(
            "there is no dataset {wanted}; make it with `tidemill knowledge create` or POST /api/v1/knowledge"
        )));
    };
    let record = DatasetRecord {
        id: id.clone(),
        name: if config.name.is_empty() { id.clone() } else { config.name.clone() },
        description: config.description.clone(),
        indexing_technique: config.technique(),
        embedding: config.embedding.clone(),
        retrieval: config.retrieval(),
        created_at: state.store.time().await?.millis(),
    };
    check(&record)?;
    state.store.knowledge().put_dataset(&record, true).await?;
    Ok(record)
}

/// Checks the fields of a dataset.
fn check(record: &DatasetRecord) -> Result<(), ApiError> {
    check_name("id", &record.id)?;
    check_name("name", &record.name)?;
    if is_inner(&record.id) {
        return Err(ApiError::invalid_param(format!("id must not begin with {INNER}")));
    }
    // Redis Cluster picks the slot by the text in braces, and all keys of a dataset must be in one slot.
    if record.id.contains(['{', '}']) {
        return Err(ApiError::invalid_param("id must not contain { or }"));
    }
    let needs_model = record.indexing_technique == tidemill_common::wire::knowledge::Technique::HighQuality;
    if needs_model && record.embedding.is_none() {
        return Err(ApiError::invalid_param("high_quality needs embedding: {provider, model}"));
    }
    let retrieval = &record.retrieval;
    for (what, value) in [
        ("score_threshold", retrieval.score_threshold.unwrap_or(0.0)),
        ("vector_weight", retrieval.vector_weight),
    ] {
        if !(0.0..=1.0).contains(&value) {
            return Err(ApiError::invalid_param(format!("{what} must be from 0 to 1")));
        }
    }
    Ok(())
}

fn check_name(what: &str, name: &str) -> Result<(), ApiError> {
    let max = KNOWLEDGE_NAME_BYTES_MAX;
    if name.trim().is_empty() || name.len() > max || name.chars().any(char::is_control) {
        return Err(ApiError::invalid_param(format!(
            "{what} must have 1 to {max} bytes and no control characters"
        )));
    }
    Ok(())
}

/// Takes a value out of an object and converts it to its type.
fn take<T: serde::de::DeserializeOwned>(map: &mut JsonMap, key: &str) -> Result<Option<T>, ApiError> {
    match map.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => serde_json::from_value(value)
            .map(Some)
            .map_err(|error| ApiError::invalid_param(format!("{key} cannot be used: {error}"))),
    }
}

fn taken(what: String) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "already_exists", what)
}
