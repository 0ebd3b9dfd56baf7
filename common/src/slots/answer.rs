//! What somebody has said: a model in a text that holds JSON somewhere, a person in an object.

use serde_json::Value as Json;

use super::pointer::{merge, put};
use crate::nodes::llm::reasoning;
use crate::value::{JsonMap, json_repair};

/// The object in a model's reply: what it thought is left out; a fenced block is looked into first, then whatever lies
/// between the first brace and the last; small mistakes are mended.
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
    let (_, behind) = text.split_once("```")?;
    let (_, inside) = behind.split_once('\n')?;
    inside.split_once("```").map(|(inside, _)| inside).filter(|inside| inside.contains('{'))
}

fn braced(text: &str) -> Option<&str> {
    let start = text.find('{')?;
    let end = text.rfind('}').filter(|end| *end > start)?;
    text.get(start..=end)
}

/// An answer in the shape of the input: keys that are pointers are put in their places, all others are as they are.
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

/// What a person answered who was asked for what is missing.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// Values, perhaps with words in which there may be more.
    Values {
        /// In the shape of the input.
        content: Json,
        /// What was said besides; mostly empty.
        description: String,
    },
    /// Nothing: the step is called off.
    Nothing,
}

/// Reads the answer: an object, or one with `content` and `description`; an empty one, null and `false` call the step off.
pub fn given(answer: &Json) -> Given {
    let Json::Object(map) = answer else { return Given::Nothing };
    let is_wrapped = map.get("content").is_some_and(|content| content.is_object() || content.is_null())
        && map.keys().all(|key| key == "content" || key == "description");
    let (content, description) = if is_wrapped {
        let content = map.get("content").and_then(Json::as_object);
        (content, map.get("description").and_then(Json::as_str).unwrap_or("").trim())
    } else {
        (Some(map), "")
    };
    match content.filter(|content| !content.is_empty()) {
        Some(content) => Given::Values { content: nested(content), description: description.into() },
        None if !description.is_empty() => {
            Given::Values { content: Json::Object(JsonMap::new()), description: description.into() }
        }
        None => Given::Nothing,
    }
}
