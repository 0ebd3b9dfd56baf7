//! Migrates the options of tool nodes (`tool_configurations`) that have neither version. An option that the author left
//! empty is null in such a file, and is dropped. Where an option is a list or a typed input, the node gets the version
//! of typed options, and plain values become constants. Otherwise plain values stay plain, so that they keep their type.

use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;

const TYPED: &str = "2";

pub(in super::super) fn rewrite(data: &mut JsonMap) {
    let is_unversioned = |key: &str| data.get(key).is_none_or(Json::is_null);
    let is_tool = data.get("type").and_then(Json::as_str) == Some("tool");
    if !is_tool || !is_unversioned("version") || !is_unversioned("tool_node_version") {
        return;
    }
    let Some(options) = data.get_mut("tool_configurations").and_then(Json::as_object_mut) else { return };
    options.retain(|_, value| !value.is_null());
    if !options.values().any(|value| value.is_array() || is_typed(value)) {
        return;
    }
    for value in options.values_mut().filter(|value| !is_typed(value)) {
        *value = json!({"type": "constant", "value": value.take()});
    }
    data.insert("tool_node_version".into(), TYPED.into());
}

fn is_typed(value: &Json) -> bool {
    let kind = value.get("type").and_then(Json::as_str);
    matches!(kind, Some("mixed" | "variable" | "constant")) && value.get("value").is_some()
}
