//! Datasets and documents in the form of the API.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::wire::knowledge::{DatasetRecord, DocumentRecord, IndexingRecord, IndexingState};

use crate::api::ApiState;
use crate::api::error::ApiError;

/// A dataset without its documents.
pub(super) fn dataset(record: &DatasetRecord) -> Json {
    json!({
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "indexing_technique": record.indexing_technique.name(),
        "embedding": record.embedding,
        "retrieval": record.retrieval,
        "created_at": seconds(record.created_at),
    })
}

/// A document: its searchable version, and the newer one that is not searchable yet.
pub(in crate::api) type Versions = (Option<DocumentRecord>, Option<IndexingRecord>);

/// Documents with their status, sorted by name.
pub(super) async fn documents(
    state: &ApiState,
    published: Vec<DocumentRecord>,
    indexing: Vec<(String, IndexingRecord)>,
) -> Result<Vec<Json>, ApiError> {
    let all = versions(state, published, indexing).await?.into_iter();
    let mut shown: Vec<Json> =
        all.map(|(id, (published, indexing))| document(&id, published.as_ref(), indexing.as_ref())).collect();
    shown.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    Ok(shown)
}

/// The versions of documents by id, with their real states.
pub(in crate::api) async fn versions(
    state: &ApiState,
    published: Vec<DocumentRecord>,
    indexing: Vec<(String, IndexingRecord)>,
) -> Result<BTreeMap<String, Versions>, ApiError> {
    let mut all: BTreeMap<String, Versions> = BTreeMap::new();
    for record in published {
        let id = record.id.clone();
        all.entry(id).or_default().0 = Some(record);
    }
    for (id, record) in indexing {
        // The version was published since the indexing records were read.
        let is_done = |known: &DocumentRecord| known.run == record.run;
        let entry = all.entry(id).or_default();
        if !entry.0.as_ref().is_some_and(is_done) {
            entry.1 = Some(record);
        }
    }
    for (_, indexing) in all.values_mut() {
        if let Some(record) = indexing.take() {
            *indexing = Some(real_state(state, record).await?);
        }
    }
    Ok(all)
}

/// A document. `status` belongs to its newest version; `searchable` is true when any version can be found.
fn document(id: &str, published: Option<&DocumentRecord>, indexing: Option<&IndexingRecord>) -> Json {
    let name = indexing.map(|it| &it.name).or(published.map(|it| &it.name));
    let mut shown = json!({
        "id": id,
        "name": name,
        "status": indexing.map_or("completed", |it| it.state.name()),
        "searchable": published.is_some(),
        "segments": published.map_or(0, |it| it.segments),
    });
    if let Some(it) = published {
        shown["data_source_type"] = json!(it.data_source_type);
        shown["doc_metadata"] = json!(it.doc_metadata);
        shown["enabled"] = json!(it.enabled);
        shown["word_count"] = json!(it.word_count);
        shown["embedding"] = json!(it.embedding);
        shown["created_at"] = json!(seconds(it.created_at));
        shown["updated_at"] = json!(seconds(it.updated_at));
    }
    if let Some(it) = indexing {
        shown["indexing"] = json!({"run": it.run, "done": it.done, "total": it.total, "error": it.error, "at": seconds(it.at)});
    }
    shown
}

/// Returns the record with its real state: when the run failed or is gone, the record itself may still say `indexing`.
async fn real_state(state: &ApiState, record: IndexingRecord) -> Result<IndexingRecord, ApiError> {
    if record.state == IndexingState::Error {
        return Ok(record);
    }
    let failed = |error: String| IndexingRecord { state: IndexingState::Error, error, ..record.clone() };
    let Ok(run) = record.run.parse() else { return Ok(record) };
    let Some(fields) = state.store.run_fields(run).await? else {
        return Ok(failed(format!("its run {run} is gone: add it again")));
    };
    let text = |key: &str| fields.get(key).map_or("", String::as_str);
    Ok(match RunStatus::from_name(text("status")) {
        Some(RunStatus::Failed) => failed(text("error").to_owned()),
        Some(RunStatus::Stopped) => failed(format!("its run {run} was stopped: add it again")),
        Some(_) | None => record,
    })
}

fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}
