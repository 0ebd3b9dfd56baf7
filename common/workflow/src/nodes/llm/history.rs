//! The earlier turns of a run's conversation, from which memory is built.
//!
//! They are fixed when the run is submitted, so that a retried job sees the same turns. They are stored in the pool
//! under a name that workflows cannot write ([`NODE`], [`NAME`]): an array of `{query, answer, files}`, oldest first.

use serde_json::Value as Json;

use tidemill_base::value::{JsonMap, Variables};

/// The pool's node of the history.
pub const NODE: &str = "#history";
/// The name of the history in the pool.
pub const NAME: &str = "turns";

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Turn {
    /// The user's question.
    pub query: String,
    /// The answer; never empty.
    pub answer: String,
    /// Dify's file objects sent with the question.
    pub files: Vec<JsonMap>,
}

/// The turns, oldest first; empty when the run has no earlier turns. As on Dify turns without an answer are skipped.
pub fn turns(variables: &dyn Variables) -> Vec<Turn> {
    let Some(segment) = variables.found(&[NODE.into(), NAME.into()]) else { return Vec::new() };
    let items = segment.value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(turn).filter(|turn| !turn.answer.is_empty()).collect()
}

fn turn(item: &Json) -> Turn {
    let text = |key: &str| item.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let files = item.get("files").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    Turn {
        query: text("query"),
        answer: text("answer"),
        files: files.iter().filter_map(|file| file.as_object().cloned()).collect(),
    }
}
