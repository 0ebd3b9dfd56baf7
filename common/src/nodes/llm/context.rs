//! The text that replaces `{{#context#}}`: a plain text, or passages from a knowledge base.

use serde_json::Value as Json;

use crate::failure::NodeFailure;
use crate::value::pyrepr::repr;
use crate::value::{Segment, Variables};

/// The context's text. Absent, and anything that is neither text nor list: no text (Dify's rule).
///
/// # Errors
/// `InvalidContextStructureError` for an item that is neither text nor an object with `content`.
pub fn text(selector: &[String], variables: &dyn Variables) -> Result<String, NodeFailure> {
    let Some(segment) = variables.found(selector) else { return Ok(String::new()) };
    let Segment { value, .. } = &*segment;
    match value {
        Json::String(text) => Ok(text.clone()),
        Json::Array(items) => {
            let mut joined = String::new();
            for item in items {
                joined.push_str(&item_text(item)?);
            }
            Ok(joined.trim().to_owned())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => Ok(String::new()),
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
            let summary = map.get("summary").map(plain).filter(|s| !s.is_empty());
            let summary = summary.map(|s| s + "\n").unwrap_or_default();
            Ok(format!("{summary}{}\n", plain(content)))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => Err(invalid()),
    }
}

fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
    }
}
