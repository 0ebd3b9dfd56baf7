//! Completion parameters of a model call: `stop` apart, templates filled in (Dify's rules).

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value as Json;

use crate::value::template::Template;
use crate::value::{JsonMap, Variables};

/// Longest text that a template in a parameter may give, in characters (Dify's); the rest is cut off.
const PARAM_CHARS_MAX: usize = 1024;

/// What looks like a reference, looser than what is one: `{{#foo#}}` is looked at and then kept as it is.
#[allow(clippy::expect_used)]
static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{\{#[^#]+#\}\}").expect("the pattern is a constant"));

/// Parameters as they are sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Params {
    /// All but `stop`.
    pub values: JsonMap,
    /// Texts that end the reply.
    pub stop: Vec<String>,
}

/// Fills in the parameters of a model block. A `stop` that is no list is dropped, as on Dify.
pub fn resolve(params: &JsonMap, variables: &dyn Variables) -> Params {
    let mut resolved = Params::default();
    for (key, value) in params {
        match (key.as_str(), value) {
            ("stop", Json::Array(items)) => {
                resolved.stop = items.iter().filter_map(Json::as_str).map(str::to_owned).collect();
            }
            ("stop", _) => {}
            (_, Json::String(text)) if REFERENCE.is_match(text) => {
                resolved.values.insert(key.clone(), filled(text, variables));
            }
            _ => {
                resolved.values.insert(key.clone(), value.clone());
            }
        }
    }
    resolved
}

/// The text with its references filled in; a number or a truth value when it reads as one in JSON.
fn filled(text: &str, variables: &dyn Variables) -> Json {
    let text: String = Template::parse(text).render_text(variables).chars().take(PARAM_CHARS_MAX).collect();
    match serde_json::from_str::<Json>(text.trim()) {
        Ok(value @ (Json::Number(_) | Json::Bool(_))) => value,
        Ok(Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_)) | Err(_) => Json::String(text),
    }
}
