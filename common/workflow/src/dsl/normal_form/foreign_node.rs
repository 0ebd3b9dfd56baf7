//! Rewrites nodes of other programs: `{id, type, name, config}` without `data`, a step with `node` and
//! `params`, or `type` beside `data`.

use serde_json::Value as Json;

use super::node_type;
use crate::kinds::{NodeKind, TYPES_ELSEWHERE};
use tidemill_base::value::JsonMap;

/// The type of a model call in the spelling of these programs.
const LLM: &str = "LLM";
/// Keys that say nothing about the form of a model call.
const NEUTRAL: [&str; 4] = ["type", "title", "desc", "parameters"];

pub(super) fn rewrite(graph: &mut JsonMap) {
    for node in graph.get_mut("nodes").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(node) = node.as_object_mut() {
            one(node);
            type_beside_data(node);
        }
    }
}

fn one(node: &mut JsonMap) {
    let is_foreign = !node.contains_key("data")
        && node.get("type").is_some_and(Json::is_string)
        && node.get("config").is_none_or(|config| config.is_object() || config.is_null())
        && (node.contains_key("config") || node.contains_key("name"));
    if !is_foreign {
        return;
    }
    let mut data = JsonMap::new();
    data.insert("type".into(), node.shift_remove("type").unwrap_or_default());
    if let Some(name) = node.shift_remove("name") {
        data.insert("title".into(), name);
    }
    if let Some(Json::Object(config)) = node.shift_remove("config") {
        for (key, value) in config {
            data.entry(key).or_insert(value);
        }
    }
    // Steps have these fields next to their name.
    if node.get("params").is_some_and(Json::is_object) {
        for (theirs, ours) in [("description", "desc"), ("node", "node"), ("params", "params")] {
            if let Some(value) = node.shift_remove(theirs) {
                data.entry(ours).or_insert(value);
            }
        }
    }
    // Such a model call names a profile. Without any configuration its error is that of this form, not of Dify's.
    let is_llm = data.get("type").and_then(Json::as_str) == Some(LLM);
    if is_llm && data.keys().all(|key| NEUTRAL.contains(&key.as_str())) {
        data.insert("profile_id".into(), "".into());
    }
    node.insert("data".into(), Json::Object(data));
}

/// Moves a known type from beside `data` into it. On Dify's canvas the outer type is `custom`.
fn type_beside_data(node: &mut JsonMap) {
    let Some(name) = node.get("type").and_then(Json::as_str).filter(|name| is_known(name)) else { return };
    let name = name.to_owned();
    let Some(data) = node.get_mut("data").and_then(Json::as_object_mut) else { return };
    if data.get("type").and_then(Json::as_str).is_none_or(str::is_empty) {
        data.insert("type".into(), name.into());
        node.shift_remove("type");
    }
}

fn is_known(name: &str) -> bool {
    NodeKind::from_wire(name).is_some()
        || node_type::canonical(name).is_some()
        || TYPES_ELSEWHERE.iter().any(|(known, _)| *known == name)
}
