//! The text that replaces `{{#context#}}`: a plain text, or passages from a knowledge base together with their records.

use serde_json::Value as Json;

use tidemill_base::failure::NodeFailure;
use tidemill_base::value::pyrepr::{repr, str_of};
use tidemill_base::value::{JsonMap, Segment, Variables};

/// Names of a passage's reported fields, with their keys in its `metadata`.
const RESOURCE_KEYS: [(&str, &str); 15] = [
    ("position", "position"),
    ("dataset_id", "dataset_id"),
    ("dataset_name", "dataset_name"),
    ("document_id", "document_id"),
    ("document_name", "document_name"),
    ("data_source_type", "data_source_type"),
    ("segment_id", "segment_id"),
    ("retriever_from", "retriever_from"),
    ("score", "score"),
    ("hit_count", "segment_hit_count"),
    ("word_count", "segment_word_count"),
    ("segment_position", "segment_position"),
    ("index_node_hash", "segment_index_node_hash"),
    ("page", "page"),
    ("doc_metadata", "doc_metadata"),
];

/// The context of a prompt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// The text for the prompt.
    pub text: String,
    /// The passages from a knowledge base, as Dify's `retriever_resources`.
    pub resources: Vec<JsonMap>,
}

/// Reads the context. As on Dify it is empty when the variable is missing, or neither text nor list.
///
/// # Errors
/// `InvalidContextStructureError` for an object without `content`; `TypeError` for an item that is neither text nor
/// object.
pub fn read(selector: &[String], variables: &dyn Variables) -> Result<Context, NodeFailure> {
    let Some(segment) = variables.found(selector) else { return Ok(Context::default()) };
    let Segment { value, .. } = &*segment;
    match value {
        Json::String(text) => Ok(Context { text: text.clone(), resources: Vec::new() }),
        Json::Array(items) => {
            let mut context = Context::default();
            for item in items {
                context.text.push_str(&item_text(item)?);
                context.resources.extend(resource(item));
            }
            context.text = context.text.trim().to_owned();
            Ok(context)
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => Ok(Context::default()),
    }
}

fn item_text(item: &Json) -> Result<String, NodeFailure> {
    let invalid = || {
        NodeFailure::new("InvalidContextStructureError", format!("Invalid context structure: {}", repr(item)))
    };
    match item {
        Json::String(text) => Ok(format!("{text}\n")),
        Json::Object(map) => {
            let content = map.get("content").ok_or_else(invalid)?;
            let summary = map.get("summary").filter(|summary| !Segment::infer((*summary).clone()).is_falsy());
            let summary = summary.map(|summary| format!("{}\n", str_of(summary))).unwrap_or_default();
            Ok(format!("{summary}{}\n", str_of(content)))
        }
        // Python can look up `content` in a list, but not in these other values.
        Json::Array(_) => Err(invalid()),
        Json::Null | Json::Bool(_) | Json::Number(_) => {
            let class = crate::nodes::condition::compare::class_name(item);
            Err(NodeFailure::new("TypeError", format!("argument of type '{class}' is not iterable")))
        }
    }
}

/// The record of a knowledge base's passage, in Dify's format.
fn resource(item: &Json) -> Option<JsonMap> {
    let metadata = item.get("metadata").filter(|metadata| metadata["_source"] == "knowledge")?;
    let of = |map: &Json, key: &str| map.get(key).cloned().unwrap_or_default();
    let mut resource: JsonMap =
        RESOURCE_KEYS.iter().map(|(name, key)| ((*name).to_owned(), of(metadata, key))).collect();
    for key in ["content", "files", "summary"] {
        resource.insert(key.into(), of(item, key));
    }
    Some(resource)
}
