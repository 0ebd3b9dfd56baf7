//! Fills in what nodes leave out where no editor wrote them: nodes of a bare graph, and nodes inside others, which only
//! Tidemill has. In an export the same absence is a mistake.

use serde_json::{Value as Json, json};

use super::extractions::canonical_model;
use crate::kinds::{NodeKind, PROVIDER_BY_TOOL, is_llm_step};
use tidemill_base::value::JsonMap;

/// Fills in the nodes inside others.
pub(super) fn of_children(graph: &mut JsonMap) {
    for node in graph.get_mut("nodes").and_then(Json::as_array_mut).into_iter().flatten() {
        let children = node.get_mut("data").and_then(|data| data.get_mut("virtual_nodes"));
        for child in children.and_then(Json::as_array_mut).into_iter().flatten() {
            if let Some(child) = child.as_object_mut() {
                super::of_child(child, of_child);
            }
        }
    }
}

fn of_child(data: &mut JsonMap) {
    model(data);
    context(data);
    tool(data);
}

/// Sets the mode of a model, `chat` by default, and its parameters.
pub(super) fn model(data: &mut JsonMap) {
    let calls_a_model = matches!(
        kind(data),
        Some(NodeKind::Llm | NodeKind::QuestionClassifier | NodeKind::ParameterExtractor)
    );
    // A profile brings its own model, and `model` only changes it.
    if !calls_a_model || is_given(data, "profile_id") {
        return;
    }
    if let Some(model) = data.get_mut("model").filter(|model| model.is_object()) {
        *model = canonical_model(model);
    }
}

/// Gives an `llm` node in Dify's form the block that says that it has no context.
pub(super) fn context(data: &mut JsonMap) {
    let is_difys = is_given(data, "model") || is_given(data, "prompt_template");
    let is_other = is_given(data, "profile_id") || is_llm_step(data);
    if kind(data) == Some(NodeKind::Llm) && is_difys && !is_other && !is_given(data, "context") {
        data.insert("context".into(), json!({"enabled": false, "variable_selector": []}));
    }
}

/// Fills in the provider, the label and the options of a tool. A provider without a type is found by the name of the
/// tool when the node runs.
pub(super) fn tool(data: &mut JsonMap) {
    let name = data.get("tool_name").and_then(Json::as_str).filter(|name| !name.is_empty());
    if let Some(name) = name.map(str::to_owned) {
        of_tool(data, name);
    }
}

/// As [`tool`], also without a name: the checks then report only the name, from which all the rest follows.
pub(super) fn tool_of_bare_graph(data: &mut JsonMap) {
    if is_given(data, "tool_name") {
        tool(data);
    } else {
        of_tool(data, String::new());
    }
}

fn of_tool(data: &mut JsonMap, tool: String) {
    if kind(data) != Some(NodeKind::Tool) {
        return;
    }
    let text = |key: &str| data.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    let (id, name) = (text("provider_id").map(str::to_owned), text("provider_name").map(str::to_owned));
    let has_type = is_given(data, "provider_type");
    let is_by_tool = data.get("provider_type").and_then(Json::as_str) == Some(PROVIDER_BY_TOOL);
    if id.is_none() && name.is_none() && has_type && !is_by_tool {
        // A type without a provider says too little, and the checks report it.
        return;
    }
    let mut fill = |key: &str, value: Json| {
        if !is_given(data, key) {
            data.insert(key.to_owned(), value);
        }
    };
    fill("provider_type", PROVIDER_BY_TOOL.into());
    fill("provider_id", id.clone().or_else(|| name.clone()).unwrap_or_default().into());
    fill("provider_name", name.or(id).unwrap_or_else(|| tool.clone()).into());
    fill("tool_label", tool.into());
    fill("tool_configurations", json!({}));
    fill("tool_parameters", json!({}));
}

fn kind(data: &JsonMap) -> Option<NodeKind> {
    data.get("type").and_then(Json::as_str).and_then(NodeKind::from_wire)
}

fn is_given(data: &JsonMap, key: &str) -> bool {
    data.get(key).is_some_and(|value| !value.is_null())
}
