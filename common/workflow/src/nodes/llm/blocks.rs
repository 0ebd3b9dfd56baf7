//! Parts of the configuration shared by all nodes that call a model: model, memory, vision.

use serde_json::Value as Json;

use super::files::DETAIL_DEFAULT;
use super::{Memory, ModelConfig, ModelMode, Vision};
use crate::dsl::Problems;
use tidemill_base::value::{JsonMap, Selector};

/// Dify's code for a node whose `data` does not fit its type.
pub(in crate::nodes) const INVALID: &str = crate::dsl::fields::BUILD_FAILED;

/// Reads the model block: provider, name, mode, parameters.
pub(in crate::nodes) fn model(value: Option<&Json>, problems: &mut Problems) -> Option<ModelConfig> {
    let Some(map) = value.and_then(Json::as_object) else {
        problems.error_with_hint(
            INVALID,
            "the node names no model",
            "set model to a mapping with provider, name and mode",
        );
        return None;
    };
    // Both may be empty, as on Dify: a model that is not chosen yet fails its node when the node is reached.
    let provider = problems.within("provider", |p| required_text(map, "provider", p));
    let name = problems.within("name", |p| required_text(map, "name", p));
    let mode = problems.within("mode", |p| match present(map, "mode").and_then(Json::as_str) {
        Some("chat") => Some(ModelMode::Chat),
        Some("completion") => Some(ModelMode::Completion),
        Some(other) => {
            p.error(INVALID, format!("{other:?} is not a model mode: chat or completion"));
            None
        }
        None => {
            p.error(INVALID, "LLM mode is required: chat or completion");
            None
        }
    });
    let completion_params =
        problems.within("completion_params", |p| match present(map, "completion_params") {
            None => Some(JsonMap::new()),
            Some(Json::Object(params)) => Some(params.clone()),
            Some(_) => {
                p.error(INVALID, "completion_params must be a mapping");
                None
            }
        });
    Some(ModelConfig { provider: provider?, name: name?, mode: mode?, completion_params: completion_params? })
}

/// Reads the memory block; the inner option is `None` when it is absent.
pub(in crate::nodes) fn memory(value: Option<&Json>, problems: &mut Problems) -> Option<Option<Memory>> {
    let Some(value) = value else { return Some(None) };
    let Some(window) = value.get("window").and_then(Json::as_object) else {
        problems.error(INVALID, "memory needs a window with enabled and size");
        return None;
    };
    let prefix = |of: &str| value.get("role_prefix")?.get(of)?.as_str().map(str::to_owned);
    Some(Some(Memory {
        enabled: window.get("enabled").and_then(Json::as_bool).unwrap_or(false),
        size: window.get("size").and_then(Json::as_u64),
        role_prefix: prefix("user").zip(prefix("assistant")),
        query_template: value.get("query_prompt_template").and_then(Json::as_str).unwrap_or("").to_owned(),
    }))
}

/// Reads the vision block: the selector of the files (`None` when vision is off), and the detail of images.
pub(in crate::nodes) fn vision(
    value: Option<&Json>,
    problems: &mut Problems,
) -> Option<(Option<Vision>, String)> {
    let Some(value) = value else { return Some((None, DETAIL_DEFAULT.into())) };
    let Some(map) = value.as_object() else {
        problems.error(INVALID, "vision must be a mapping with enabled and configs");
        return None;
    };
    let configs = present(map, "configs");
    let detail = configs.and_then(|c| c.get("detail")).and_then(Json::as_str).unwrap_or(DETAIL_DEFAULT);
    let given = selector(configs.and_then(|c| c.get("variable_selector")));
    let enabled = map.get("enabled").and_then(Json::as_bool).unwrap_or(false);
    let vision =
        enabled.then(|| Vision { selector: given.unwrap_or_else(|| vec!["sys".into(), "files".into()]) });
    Some((vision, detail.to_owned()))
}

/// A key's value; null counts as absent.
pub(in crate::nodes) fn present<'a>(map: &'a JsonMap, key: &str) -> Option<&'a Json> {
    map.get(key).filter(|value| !value.is_null())
}

/// A required text; it may be empty.
fn required_text(map: &JsonMap, key: &str, problems: &mut Problems) -> Option<String> {
    let text = present(map, key).and_then(Json::as_str).map(str::to_owned);
    if text.is_none() {
        problems.error(INVALID, format!("the model's {key} is missing"));
    }
    text
}

/// An optional text; empty when absent.
pub(in crate::nodes) fn optional_text(map: &JsonMap, key: &str, problems: &mut Problems) -> Option<String> {
    match present(map, key) {
        None => Some(String::new()),
        Some(Json::String(text)) => Some(text.clone()),
        Some(_) => {
            problems.within(key, |p| p.error(INVALID, format!("{key} must be text")));
            None
        }
    }
}

/// A list of texts.
pub(in crate::nodes) fn selector(value: Option<&Json>) -> Option<Selector> {
    value?.as_array()?.iter().map(|part| part.as_str().map(str::to_owned)).collect()
}
