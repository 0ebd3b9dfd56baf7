//! Rewrites nodes of other programs: `{id, type, name, config}` without `data`, of which only `id` and `type` must be
//! there, a step with `node` and `params`, or `type` beside `data`.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

/// How the types of nodes on Dify's canvas begin. They say nothing about what a node does.
const OF_CANVAS: &str = "custom";
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
        && node.get("config").is_none_or(|config| config.is_object() || config.is_null())
        && match node.get("type").and_then(Json::as_str) {
            Some(name) => node.contains_key("config") || node.contains_key("name") || says_something(name),
            None => false,
        };
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
    mark_empty_model_call(&mut data);
    node.insert("data".into(), Json::Object(data));
}

/// A model call in this spelling names a profile. Without any configuration its error is that of this form, not of Dify's.
fn mark_empty_model_call(data: &mut JsonMap) {
    let is_llm = data.get("type").and_then(Json::as_str) == Some(LLM);
    if is_llm && data.keys().all(|key| NEUTRAL.contains(&key.as_str())) {
        data.insert("profile_id".into(), "".into());
    }
}

/// Moves the type from beside `data` into it, also an unknown one, so that the checks name it.
fn type_beside_data(node: &mut JsonMap) {
    let Some(name) = node.get("type").and_then(Json::as_str).filter(|name| says_something(name)) else {
        return;
    };
    let name = name.to_owned();
    let Some(data) = node.get_mut("data").and_then(Json::as_object_mut) else { return };
    if data.get("type").and_then(Json::as_str).is_none_or(str::is_empty) {
        data.insert("type".into(), name.into());
        mark_empty_model_call(data);
        node.shift_remove("type");
    }
}

fn says_something(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(OF_CANVAS)
}
