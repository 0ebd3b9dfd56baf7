//! The turns of the conversation that a run goes on with: what memory is made of.
//!
//! They are fixed when the run is submitted, so that a job that is done again is told the same, and lie in the pool
//! under a name that no workflow can write ([`NODE`], [`NAME`]): an array of `{query, answer, files}`, oldest first.

use serde_json::Value as Json;

use crate::value::{JsonMap, Variables};

/// The pool's node of the history.
pub const NODE: &str = "#history";
/// The pool's name of it.
pub const NAME: &str = "turns";

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Turn {
    /// What was asked.
    pub query: String,
    /// What was answered; never empty.
    pub answer: String,
    /// Dify's file objects that came with the question.
    pub files: Vec<JsonMap>,
}

/// The turns, oldest first; none when the run goes on with nothing. Turns without an answer are passed over (Dify).
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
