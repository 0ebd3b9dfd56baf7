//! Reads answers: of a model, as text that contains JSON, or of a person, as an object.

use serde_json::Value as Json;

use super::pointer::{merge, put};
use tidemill_base::value::{JsonMap, json_repair, reasoning};

/// Returns the object in a model's reply. Reasoning is ignored. A fenced block is tried first, then the text
/// between the first brace and the last. Small mistakes in the JSON are repaired.
pub fn in_reply(reply: &str) -> Option<JsonMap> {
    let text = reasoning::split(reply).text;
    [fenced(&text), braced(&text)].into_iter().flatten().find_map(object)
}

fn object(text: &str) -> Option<JsonMap> {
    let strict = serde_json::from_str::<Json>(text).ok();
    match strict.or_else(|| json_repair::repair(text).ok())? {
        Json::Object(map) => Some(map),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
    }
}

fn fenced(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    let (_, inside) = after.split_once('\n')?;
    inside.split_once("```").map(|(inside, _)| inside).filter(|inside| inside.contains('{'))
}

fn braced(text: &str) -> Option<&str> {
    let start = text.find('{')?;
    let end = text.rfind('}').filter(|end| *end > start)?;
    text.get(start..=end)
}

/// Converts an answer to the shape of the input: keys that are pointers become nested fields, all others
/// stay.
pub fn nested(answer: &JsonMap) -> Json {
    let mut out = Json::Object(JsonMap::new());
    for (key, value) in answer {
        if key.starts_with('/') {
            let mut at_its_place = Json::Object(JsonMap::new());
            if put(&mut at_its_place, key, value.clone()) {
                merge(&mut out, at_its_place);
            }
        } else {
            merge(&mut out, Json::Object(JsonMap::from_iter([(key.clone(), value.clone())])));
        }
    }
    out
}

/// The answer of a person who was asked for missing fields.
#[derive(Debug, Clone, PartialEq)]
pub enum UserInput {
    /// Values, perhaps with text that contains more of them.
    Values {
        /// In the shape of the input.
        content: Json,
        /// Further text of the person; mostly empty.
        description: String,
    },
    /// Nothing: the step is cancelled.
    Nothing,
}

/// Reads the answer: an object, or one with `content` and `description`. An empty object, null and `false`
/// cancel the step.
pub fn given(answer: &Json) -> UserInput {
    let Json::Object(map) = answer else { return UserInput::Nothing };
    let is_wrapped = map.get("content").is_some_and(|content| content.is_object() || content.is_null())
        && map.keys().all(|key| key == "content" || key == "description");
    let (content, description) = if is_wrapped {
        let content = map.get("content").and_then(Json::as_object);
        (content, map.get("description").and_then(Json::as_str).unwrap_or("").trim())
    } else {
        (Some(map), "")
    };
    match content.filter(|content| !content.is_empty()) {
        Some(content) => UserInput::Values { content: nested(content), description: description.into() },
        None if !description.is_empty() => {
            UserInput::Values { content: Json::Object(JsonMap::new()), description: description.into() }
        }
        None => UserInput::Nothing,
    }
}
