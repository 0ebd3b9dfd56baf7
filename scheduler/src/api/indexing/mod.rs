//! Starts the run that indexes a document, for both surfaces of the API: only workers read files and have the keys of
//! embedding models.

use serde_json::{Value as Json, json};
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::files::Upload;
use tidemill_common::ids::RunId;
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap};
use tidemill_common::wire::knowledge::{DatasetRecord, DocumentNotes, IndexingRecord, IndexingState, UPLOAD};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::submit::{Submission, SubmitError, SystemValues, WorkflowSource};

/// The workflow that indexes segments.
const SEGMENTS: &str = include_str!("segments.yml");
/// The workflow that reads a file and indexes its text.
const FILE: &str = include_str!("file.yml");

/// A version of a document to index.
pub(crate) struct Order {
    /// Its id.
    pub(crate) document: String,
    pub(crate) name: String,
    pub(crate) content: Content,
    pub(crate) data_source_type: String,
    /// `None`: that of the version before.
    pub(crate) doc_metadata: Option<JsonMap>,
    pub(crate) notes: DocumentNotes,
    /// The generation that the segments were derived from; another one must not be replaced.
    pub(crate) based_on: Option<String>,
    /// The API key that pays.
    pub(crate) key: Option<String>,
}

/// The text of a document.
pub(crate) enum Content {
    /// Objects with `content`, and perhaps `answer`, `id` and `enabled`.
    Segments(Vec<Json>),
    /// A file that a worker reads and splits by a rule in Dify's form.
    File(Box<Upload>, Option<Json>),
}

impl Order {
    /// A document with this id; all else is the default.
    pub(crate) fn of(document: String, content: Content) -> Self {
        Self {
            name: document.clone(),
            document,
            content,
            data_source_type: UPLOAD.into(),
            doc_metadata: Some(JsonMap::new()),
            notes: DocumentNotes::default(),
            based_on: None,
            key: None,
        }
    }
}

/// Starts the run. It becomes the newest one of its document.
///
/// # Errors
/// It could not be submitted; the document shows why.
pub(crate) async fn order(
    state: &ApiState,
    dataset: &DatasetRecord,
    order: Order,
) -> Result<RunId, ApiError> {
    let run = RunId::generate(state.submitter.some_shard().await?);
    let total = match &order.content {
        Content::Segments(segments) => segments.len() as u64,
        // Known when the file is read.
        Content::File(..) => 0,
    };
    let mut order = order;
    if order.based_on.is_none() {
        order.notes.batch = run.to_string();
    }
    let record = IndexingRecord {
        name: order.name.clone(),
        run: run.to_string(),
        total,
        at: state.store.time().await?.millis(),
        notes: order.notes.clone(),
        ..IndexingRecord::default()
    };
    let document = order.document.clone();
    // Before the run is created, so that the run never finds an older record.
    state.store.knowledge().begin_indexing(&dataset.id, &document, &record).await?;
    if let Err(error) = submit(state, run, &dataset.id, order).await {
        let failed = IndexingRecord {
            state: IndexingState::Error,
            error: format!("it could not be submitted: {}", error.message()),
            ..record
        };
        state.store.knowledge().note_indexing(&dataset.id, &document, &failed).await?;
        return Err(error);
    }
    Ok(run)
}

async fn submit(state: &ApiState, run: RunId, dataset: &str, order: Order) -> Result<(), ApiError> {
    let mut about = json!({
        "name": order.name, "data_source_type": order.data_source_type, "noted_run": run.to_string(),
        "notes": order.notes, "based_on": order.based_on,
    });
    if let Some(metadata) = order.doc_metadata {
        about["doc_metadata"] = Json::Object(metadata);
    }
    let (file, workflow, inputs) = match order.content {
        Content::Segments(segments) => {
            (None, SEGMENTS, json!({"document": {"segments": segments, "document": about}}))
        }
        Content::File(upload, rule) => {
            let reference = adopt(state, &upload, &run).await?;
            let inputs = json!({
                "file": file(&upload, &reference),
                "document": {"process_rule": rule, "document": about},
            });
            (Some(reference), FILE, inputs)
        }
    };
    let sys = json!({
        "dataset_id": dataset, "document_id": order.document, "batch": run.to_string(), "invoke_from": "service-api",
    });
    let mut submission = Submission::of(
        WorkflowSource::Text(workflow.into()),
        SystemValues::Exactly(object(sys)),
        object(inputs),
    );
    submission.run = Some(run);
    submission.key = order.key;
    submission.has_files = file.is_some();
    if let Err(error) = state.submitter.submit(submission).await {
        // After a failure of the store the run may exist, and need the file.
        if !matches!(error, SubmitError::Store(_)) {
            state.submitter.uploads.discard(file).await;
        }
        return Err(error.into());
    }
    Ok(())
}

/// Gives the run a copy of the file, and returns its reference.
async fn adopt(state: &ApiState, upload: &Upload, run: &RunId) -> Result<String, ApiError> {
    state.submitter.note_early_files(*run).await?;
    let adopted = match state.submitter.uploads.open() {
        Ok(place) => place.adopt(upload.id, run).await,
        Err(error) => Err(error),
    };
    let adopted = adopted.map_err(|error| {
        tracing::error!(%error, "an uploaded document cannot be used");
        ApiError::unavailable("the file cannot be read now; try again in a moment")
    })?;
    crash::pass(CrashPoint::EarlyFilesKept);
    Ok(adopted)
}

/// The file object for the run.
fn file(upload: &Upload, reference: &str) -> Json {
    json!({
        FILE_IDENTITY_KEY: FILE_IDENTITY,
        "id": null,
        "type": "document",
        "transfer_method": "tool_file",
        "remote_url": null,
        "reference": reference,
        "related_id": null,
        "filename": upload.name,
        "extension": upload.extension,
        "mime_type": upload.mime_type,
        "size": upload.size,
        "url": null,
    })
}

fn object(value: Json) -> JsonMap {
    match value {
        Json::Object(map) => map,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => JsonMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_workflows_can_be_run() {
        for text in [SEGMENTS, FILE] {
            let imported = tidemill_common::graph::import(text.as_bytes());
            assert!(imported.graph.is_some(), "{:?}", imported.diagnostics);
        }
    }
}
