//! Moves hidden nodes that feed an input of another node (`data.parent_node_id`) into that node. A node that
//! only asks its model about a conversation becomes an extraction.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::{Value as Json, json};

use super::extractions::{canonical_model, extraction_child, local_of, models};
use tidemill_base::value::JsonMap;

/// Removes the hidden nodes and their edges from the graph; returns them with their ids, by the id of their
/// parent.
pub(super) fn take(graph: &mut JsonMap, ids: &HashSet<String>) -> HashMap<String, Vec<(String, JsonMap)>> {
    let mut taken: HashMap<String, Vec<(String, JsonMap)>> = HashMap::new();
    let Some(nodes) = graph.get("nodes").and_then(Json::as_array) else { return taken };
    if !nodes.iter().any(|node| parent_of(node, ids).is_some()) {
        return taken;
    }
    let models = models(nodes);
    let mut gone = HashSet::new();
    for node in nodes {
        let (Some(parent), Some(id)) = (parent_of(node, ids), node.get("id").and_then(Json::as_str)) else {
            continue;
        };
        let Some(data) = node.get("data").and_then(Json::as_object) else { continue };
        let child = child(&local_of(parent, id), data, &models);
        gone.insert(id.to_owned());
        taken.entry(parent.to_owned()).or_default().push((id.to_owned(), child));
    }
    let is_gone =
        |item: &Json, key: &str| item.get(key).and_then(Json::as_str).is_some_and(|id| gone.contains(id));
    if let Some(Json::Array(nodes)) = graph.get_mut("nodes") {
        nodes.retain(|node| !is_gone(node, "id"));
    }
    if let Some(Json::Array(edges)) = graph.get_mut("edges") {
        edges.retain(|edge| !is_gone(edge, "source") && !is_gone(edge, "target"));
    }
    taken
}

/// Returns the parent of a hidden node, if the parent exists.
fn parent_of<'n>(node: &'n Json, ids: &HashSet<String>) -> Option<&'n str> {
    let parent = node.get("data")?.get("parent_node_id")?.as_str()?;
    let id = node.get("id")?.as_str()?;
    (ids.contains(parent) && parent != id).then_some(parent)
}

fn child(local: &str, data: &JsonMap, models: &HashMap<&str, Cow<'_, Json>>) -> JsonMap {
    if let Some(child) = as_extraction(local, data, models) {
        return child;
    }
    let mut data = data.clone();
    data.shift_remove("parent_node_id");
    let kind = data.shift_remove("type").unwrap_or_default();
    let child = json!({"id": local, "type": kind, "data": data});
    child.as_object().cloned().unwrap_or_default()
}

/// Returns an `llm` node as an extraction when its prompt is a conversation and one question about it.
fn as_extraction(local: &str, data: &JsonMap, models: &HashMap<&str, Cow<'_, Json>>) -> Option<JsonMap> {
    let is_llm = data.get("type").and_then(Json::as_str) == Some("llm");
    let wants_object = ["structured_output_switch_on", "structured_output_enabled"];
    let is_plain = !wants_object.iter().any(|key| data.get(*key).and_then(Json::as_bool) == Some(true));
    let [conversation, question] = &data.get("prompt_template")?.as_array()?[..] else { return None };
    let text = question.get("text").and_then(Json::as_str).filter(|text| !text.is_empty())?;
    let is_asked = question.get("role").and_then(Json::as_str) == Some("user");
    let source = source_of(conversation)?;
    if !is_llm || !is_plain || !is_asked {
        return None;
    }
    let mut child = extraction_child(local, (&source.0, &source.1), text);
    let model = canonical_model(data.get("model")?);
    let inherited = models.get(source.0.as_str()).is_some_and(|model_of| canonical_model(model_of) == model);
    if !inherited {
        child.insert("model".into(), model);
    }
    Some(child)
}

/// Returns the conversation that a prompt message refers to: `$context: [llm1, context]`, or one reference as
/// its text.
fn source_of(item: &Json) -> Option<(String, String)> {
    let selector = ["$context", "value_selector"].iter().find_map(|key| item.get(*key)?.as_array());
    if let Some(parts) = selector {
        let [node, name] = &parts[..] else { return None };
        return Some((node.as_str()?.to_owned(), name.as_str()?.to_owned()));
    }
    let text = item.get("text")?.as_str()?.trim();
    let inner = text.strip_prefix("{{#").and_then(|rest| rest.strip_suffix("#}}"));
    let inner = inner.or_else(|| text.strip_prefix("{{@").and_then(|rest| rest.strip_suffix("@}}")))?;
    let (node, name) = inner.split_once('.')?;
    (name == "context").then(|| (node.to_owned(), name.to_owned()))
}
