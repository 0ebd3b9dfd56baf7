//! Finds the class that a reply names. The parsing, and what it accepts, is exactly Dify's.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value as Json;

use super::Class;
use crate::nodes::condition::compare::class_name;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::coerce::is_python_space;
use tidemill_base::value::pyjson;
use tidemill_base::value::pyrepr::repr;

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static THOUGHT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?is)<think[^>]*>.*?</think>").expect("the pattern is well formed"));

/// Marks for the beginning of a JSON block: the first of them found anywhere in the text is used.
const STARTS: [&str; 6] = ["```json", "```", "``", "`", "{", "["];
/// Marks for its end.
const ENDS: [&str; 5] = ["```", "``", "`", "}", "]"];

/// A reply without a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// The node fails with this, and its record is kept.
    Failed(NodeFailure),
    /// On Dify the failure is an exception that leaves the node: nothing is recorded.
    Escaped(NodeFailure),
}

/// The index of the class that a reply names. A well-formed reply that names none of them means the first.
///
/// # Errors
/// See [`Unread`].
pub fn choose(reply: &str, classes: &[Class]) -> Result<usize, Unread> {
    let reply = if reply.contains("<think>") { THOUGHT.replace_all(reply, "") } else { reply.into() };
    let id = category(read(&reply)?)?;
    if classes.is_empty() {
        return Err(escaped("list index out of range"));
    }
    let named = |class: &Class| id.as_ref().is_some_and(|id| id.as_str() == Some(class.id.as_str()));
    Ok(classes.iter().position(named).unwrap_or(0))
}

/// The JSON of a reply; a list of one object gives that object.
fn read(reply: &str) -> Result<Json, Unread> {
    let Some(block) = block(reply) else {
        return Err(failed("ValueError", "could not find json block in the output."));
    };
    let value = pyjson::loads(block.trim_matches(is_python_space))
        .map_err(|error| failed("OutputParserError", &format!("got invalid json object. error: {error}")))?;
    match value {
        Json::Array(mut items) if items.len() == 1 && items[0].is_object() => Ok(items.remove(0)),
        Json::Array(_) => {
            let message = format!("got invalid return object. obj:{}", repr(&value));
            Err(failed("OutputParserError", &message))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => Ok(value),
    }
}

/// The id in an answer that also has a name.
fn category(answer: Json) -> Result<Option<Json>, Unread> {
    match answer {
        Json::Object(mut map) if map.contains_key("category_name") => match map.shift_remove("category_id") {
            // Python looks up the id in a dictionary; lists and mappings cannot be keys.
            Some(id @ (Json::Array(_) | Json::Object(_))) => {
                Err(escaped(&format!("unhashable type: '{}'", class_name(&id))))
            }
            id => Ok(id),
        },
        Json::Object(_) => Ok(None),
        // Python finds the words within a text, and then treats it as a mapping.
        Json::String(text) if text.contains("category_name") && text.contains("category_id") => {
            Err(escaped("string indices must be integers, not 'str'"))
        }
        Json::String(_) => Ok(None),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => {
            Err(escaped(&format!("argument of type '{}' is not iterable", class_name(&answer))))
        }
    }
}

/// The text between the first opening mark and the last closing mark; braces are included, backticks are not.
pub(in crate::nodes) fn block(reply: &str) -> Option<&str> {
    let text = reply.trim_matches(is_python_space);
    let is_brace = |mark: &str| matches!(mark, "{" | "[" | "}" | "]");
    let start = STARTS.iter().find_map(|mark| {
        let at = text.find(mark)?;
        Some(if is_brace(mark) { at } else { at + mark.len() })
    })?;
    let end = ENDS.iter().find_map(|mark| {
        let at = start + text[start..].rfind(mark)?;
        Some(if is_brace(mark) { at + mark.len() } else { at })
    })?;
    (start < end).then(|| &text[start..end])
}

fn failed(error_type: &str, message: &str) -> Unread {
    Unread::Failed(NodeFailure::new(error_type, message))
}

fn escaped(message: &str) -> Unread {
    Unread::Escaped(NodeFailure::escaped(message))
}
