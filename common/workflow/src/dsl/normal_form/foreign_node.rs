//! Rewrites nodes of other programs: `{id, type, name, config}` without `data`, or a step with `node` and
//! `params`.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

pub(super) fn rewrite(graph: &mut JsonMap) {
    for node in graph.get_mut("nodes").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(node) = node.as_object_mut() {
            one(node);
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
    node.insert("data".into(), Json::Object(data));
}
