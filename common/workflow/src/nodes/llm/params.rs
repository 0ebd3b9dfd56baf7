//! Completion parameters of a model call: separates `stop` and fills in templates (Dify's rules).

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value as Json;

use tidemill_base::value::template::Template;
use tidemill_base::value::{JsonMap, Variables};

/// Longest text from a template in a parameter, in characters (Dify's limit); the rest is cut off.
const PARAM_CHARS_MAX: usize = 1024;

/// Matches more than valid references: `{{#foo#}}` matches and then stays unchanged.
#[allow(clippy::expect_used)]
static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{\{#[^#]+#\}\}").expect("the pattern is a constant"));

/// Parameters as they are sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Params {
    /// All parameters except `stop`.
    pub values: JsonMap,
    /// Texts that end the reply.
    pub stop: Vec<String>,
}

/// Fills in the parameters of a model block. As on Dify a `stop` that is not a list is dropped.
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

/// The text with references filled in; a number or a boolean when the result is one in JSON.
fn filled(text: &str, variables: &dyn Variables) -> Json {
    let text: String = Template::parse(text).render_text(variables).chars().take(PARAM_CHARS_MAX).collect();
    match serde_json::from_str::<Json>(text.trim()) {
        Ok(value @ (Json::Number(_) | Json::Bool(_))) => value,
        Ok(Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_)) | Err(_) => Json::String(text),
    }
}
