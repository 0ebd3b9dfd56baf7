//! A passage, and the node's output built from passages.

use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;

/// `data_source_type` of passages from an external service.
pub const EXTERNAL: &str = "external";

/// A part of a document that a knowledge base found for a question.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Passage {
    pub dataset_id: String,
    pub dataset_name: String,
    pub document_id: String,
    /// The document's name.
    pub title: String,
    /// The text.
    pub content: String,
    /// The relevance; higher is better. `None`: unknown, counts as 0.
    pub score: Option<f64>,
    /// The document's source, such as [`EXTERNAL`] or `upload_file`.
    pub source_type: String,
    /// Metadata of the document.
    pub document_metadata: Option<JsonMap>,
    /// Identifies the passage within its dataset (Dify: `doc_id`). `None`: its text identifies it.
    pub key: Option<String>,
    /// Further fields of the item's `metadata`, such as `segment_id` or `child_chunks`.
    pub more: JsonMap,
}

impl Passage {
    /// A record of the External Knowledge API. Missing fields become empty.
    pub fn external(dataset_id: &str, dataset_name: &str, record: &Json) -> Self {
        let text = |value: Option<&Json>| value.and_then(Json::as_str).unwrap_or_default().to_owned();
        let metadata = record.get("metadata").and_then(Json::as_object).cloned().unwrap_or_default();
        let title = text(record.get("title"));
        let document = text(metadata.get("document_id"));
        Self {
            dataset_id: dataset_id.into(),
            dataset_name: dataset_name.into(),
            document_id: if document.is_empty() { title.clone() } else { document },
            title,
            content: text(record.get("content")),
            score: Some(record.get("score").and_then(Json::as_f64).unwrap_or(0.0)),
            source_type: EXTERNAL.into(),
            document_metadata: Some(metadata),
            key: None,
            more: JsonMap::new(),
        }
    }

    /// The score for ordering.
    pub fn order(&self) -> f64 {
        self.score.unwrap_or(0.0)
    }

    /// The item of `result`; `position` counts from 1.
    fn item(self, position: usize) -> Json {
        let mut metadata = JsonMap::new();
        for (key, value) in [
            ("_source", json!("knowledge")),
            ("position", json!(position)),
            ("dataset_id", json!(self.dataset_id)),
            ("dataset_name", json!(self.dataset_name)),
            ("document_id", json!(self.document_id)),
            ("document_name", json!(self.title)),
            ("data_source_type", json!(self.source_type)),
            ("retriever_from", json!("workflow")),
            ("score", json!(self.score)),
            ("doc_metadata", json!(self.document_metadata)),
        ] {
            metadata.insert(key.into(), value);
        }
        metadata.extend(self.more);
        json!({"metadata": metadata, "title": self.title, "files": null, "content": self.content, "summary": null})
    }
}

/// The node's `result`, the best first; equal ones stay in order.
pub fn items(mut passages: Vec<Passage>) -> Vec<Json> {
    passages.sort_by(|a, b| b.order().total_cmp(&a.order()));
    passages.into_iter().enumerate().map(|(at, passage)| passage.item(at + 1)).collect()
}
