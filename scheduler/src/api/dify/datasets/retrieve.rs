//! Searches a dataset, as a workflow does: by a run of a built-in file, because only workers search.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::store::Generation;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::knowledge::{DatasetRecord, DocumentRecord};

use super::payload::Payload;
use super::{dataset, documents_shown, retrieval};
use crate::api::ApiState;
use crate::api::auth::CallingKey;
use crate::api::error::ApiError;
use crate::api::request::Body;
use crate::submit::SubmitError;
use crate::submit::inner::{Inner, InnerError};
use crate::workflows::GraphError;

/// The longest query, in characters, as on Dify.
const QUERY_CHARS_MAX: usize = 250;
const SETTING: &str = "knowledge.request_seconds_max";

/// `POST /v1/datasets/{dataset}/retrieve`, also as `hit-testing`: segments that answer a query, the best first.
///
/// # Errors
/// 400 for a wrong field, or when a model fails; 404; 503 when no worker answers in time.
pub(super) async fn retrieve(
    State(state): State<ApiState>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    Path(id): Path<String>,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let payload = Payload::read("HitTestingPayload", &body)?;
    let query = payload.required("query")?;
    if query.chars().count() > QUERY_CHARS_MAX {
        let message = format!("Query cannot exceed {QUERY_CHARS_MAX} characters");
        return Err(ApiError::invalid_param(message));
    }
    if query.is_empty() {
        return Err(ApiError::invalid_param("Query or attachment_ids is required"));
    }
    let given = payload.object("retrieval_model")?;
    let file = workflow(&dataset, given)?.to_string();
    let inner = Inner {
        purpose: "retrieval",
        file: file.into(),
        inputs: [("query".to_owned(), query.into())].into_iter().collect(),
        user: String::new(),
        key: Some(key),
        run: None,
        has_files: false,
        wait_max: Duration::from_secs(state.config.knowledge.request_seconds_max),
        setting: SETTING,
    };
    let has_conditions = given.is_some_and(|it| conditions(it).is_some());
    let end = state.submitter.inner(inner).await.map_err(|error| match has_conditions {
        true => unsearchable(&payload, error),
        false => refused(error),
    })?;
    let found = end.outputs.get("result").and_then(Json::as_array).cloned().unwrap_or_default();
    let records = records(&state, &dataset, &found).await?;
    Ok(JsonBody(json!({"query": {"content": query}, "records": records})))
}

/// The workflow that searches the dataset with the settings of the request, or else with its own.
fn workflow(dataset: &DatasetRecord, given: Option<&JsonMap>) -> Result<Json, ApiError> {
    let search = given.map_or_else(|| Ok(dataset.retrieval.clone()), retrieval::read)?;
    let conditions = given.and_then(conditions);
    let node = |id: &str, mut data: Json| {
        data["title"] = id.into();
        json!({"id": id, "data": data})
    };
    let edge = |source: &str, target: &str| {
        json!({"id": format!("{source}-{target}"), "source": source, "sourceHandle": "source",
            "target": target, "targetHandle": "target"})
    };
    let mut data = json!({
        "type": "knowledge-retrieval", "query_variable_selector": ["start", "query"],
        "dataset_ids": [dataset.id], "retrieval_mode": "multiple",
        "multiple_retrieval_config": {"top_k": search.top_k, "reranking_enable": false},
        "api_search": search,
    });
    if let Some(conditions) = conditions {
        data["metadata_filtering_mode"] = "manual".into();
        data["metadata_filtering_conditions"] = conditions.clone();
    }
    Ok(json!({
        "app": {"mode": "workflow", "name": "Search a dataset"}, "kind": "app", "version": "0.6.0",
        "workflow": {"graph": {
            "edges": [edge("start", "search"), edge("search", "end")],
            "nodes": [
                node("start", json!({"type": "start", "variables": []})),
                node("search", data),
                node("end", json!({"type": "end", "outputs": [
                    {"variable": "result", "value_selector": ["search", "result"]}]})),
            ],
        }},
    }))
}

/// The conditions on metadata, if there are any.
fn conditions(given: &JsonMap) -> Option<&Json> {
    given.get("metadata_filtering_conditions").filter(|it| !it.is_null())
}

/// The found segments in Dify's form. One that was removed meanwhile is left out.
async fn records(state: &ApiState, dataset: &DatasetRecord, found: &[Json]) -> Result<Vec<Json>, ApiError> {
    let knowledge = state.store.knowledge();
    let documents = knowledge.documents(&dataset.id).await?.documents;
    let documents: BTreeMap<&str, &DocumentRecord> =
        documents.iter().map(|it| (it.id.as_str(), it)).collect();
    let hits = knowledge.hits(&dataset.id).await?;
    let mut records = Vec::with_capacity(found.len());
    for item in found {
        let metadata = &item["metadata"];
        let document = metadata["document_id"].as_str().and_then(|id| documents.get(id));
        let (Some(document), Some(position)) = (document, metadata["segment_position"].as_u64()) else {
            continue;
        };
        let of = Generation { dataset: &dataset.id, name: &document.generation };
        let segments = knowledge.segments(of, &[position]).await?;
        let Some(segment) = segments.first().filter(|it| metadata["segment_id"] == it.id) else { continue };
        let shown = documents_shown::segment(document, segment, &hits);
        records.push(record(document, shown, &metadata["score"]));
    }
    Ok(records)
}

fn record(document: &DocumentRecord, mut segment: Json, score: &Json) -> Json {
    if let Some(segment) = segment.as_object_mut() {
        // A found segment has fewer fields.
        for key in ["updated_at", "updated_by", "child_chunks", "attachments", "summary"] {
            segment.shift_remove(key);
        }
    }
    let metadata = (!document.doc_metadata.is_empty()).then_some(&document.doc_metadata);
    segment["document"] = json!({
        "id": document.id,
        "data_source_type": document.data_source_type,
        "name": document.name,
        "doc_type": null,
        "doc_metadata": metadata,
    });
    json!({
        "segment": segment,
        "child_chunks": [],
        "score": score,
        "tsne_position": null,
        "files": [],
        "summary": null,
    })
}

/// The error of a search with conditions. Only they can make its workflow invalid: then the request is wrong.
fn unsearchable(payload: &Payload, error: InnerError) -> ApiError {
    match error {
        InnerError::Submit(SubmitError::Workflow(GraphError::Invalid(problems))) => {
            let first = problems.iter().find(|problem| problem.is_error());
            let what = first.map_or("Input cannot be used", |problem| problem.message.as_str());
            payload.wrong("retrieval_model.metadata_filtering_conditions", what)
        }
        other => refused(other),
    }
}

/// A failed run as an error of the request, with Dify's codes.
pub(super) fn refused(error: InnerError) -> ApiError {
    let message = error.to_string();
    match error {
        InnerError::Submit(error) => error.into(),
        InnerError::Unreadable(error) => error.into(),
        InnerError::Failed { class, .. } if class == "ProviderTokenNotInitError" => {
            ApiError::new(StatusCode::BAD_REQUEST, "provider_not_initialize", message)
        }
        InnerError::Failed { .. } => {
            ApiError::new(StatusCode::BAD_REQUEST, "completion_request_error", message)
        }
        InnerError::Late { .. } | InnerError::Gone => ApiError::unavailable(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_that_cannot_be_read_are_a_wrong_field_and_no_invalid_workflow() {
        for conditions in [json!([null]), json!("x"), json!({"conditions": [null]})] {
            let given = json!({"metadata_filtering_conditions": conditions});
            let text = workflow(&DatasetRecord::default(), given.as_object()).unwrap().to_string();
            let problems = tidemill_common::graph::import(text.as_bytes()).diagnostics;
            let error = InnerError::Submit(SubmitError::Workflow(GraphError::Invalid(problems)));
            let error = unsearchable(&Payload::of("HitTestingPayload", JsonMap::new()), error);
            assert_eq!((error.status().as_u16(), error.code()), (400, "invalid_param"), "{conditions}");
            assert!(error.message().contains("metadata_filtering_conditions"), "{}", error.message());
        }
    }

    #[test]
    fn the_workflow_of_a_search_can_be_run() {
        let conditions = json!({"logical_operator": "and", "conditions": [
            {"name": "year", "comparison_operator": "≥", "value": 2020}]});
        let given = json!({"search_method": "hybrid_search", "top_k": 2, "metadata_filtering_conditions": conditions});
        let dataset = DatasetRecord { id: "k".into(), ..DatasetRecord::default() };
        for given in [None, given.as_object()] {
            let text = workflow(&dataset, given).unwrap().to_string();
            let imported = tidemill_common::graph::import(text.as_bytes());
            assert!(imported.graph.is_some(), "{:?}", imported.diagnostics);
        }
    }

    #[test]
    fn failures_have_difys_codes() {
        let failed = |class: &str| InnerError::Failed { class: class.into(), message: "no".into() };
        for (error, status) in [
            (failed("ProviderTokenNotInitError"), 400),
            (failed("InvokeRateLimitError"), 400),
            (InnerError::Late { purpose: "retrieval", seconds: 1, setting: SETTING }, 503),
        ] {
            assert_eq!(refused(error).status().as_u16(), status);
        }
    }
}
