//! Rewrites types of other programs whose meaning depends on the node's configuration or place:
//!
//! | type | read as | when |
//! | --- | --- | --- |
//! | `VARIABLE` | `assigner` | it has the configuration of one |
//! | `ROUTE` | `if-else` | it has cases or conditions |
//! | `FORK`, `JOIN` | `variable-aggregator` | always: the run goes on along all edges, when all edges to the node are decided |
//! | `LOOP_START`, `LOOP_END` | `loop-start`, `loop-end` | it is inside a loop |
//! | `END` | `end` | always, also without outputs |
//!
//! In every other case the type stays, and the checks refuse it and name the node to use instead.

use std::collections::HashSet;

use serde_json::{Value as Json, json};

use crate::dsl::Problems;
use crate::kinds::NodeKind;
use tidemill_base::value::JsonMap;

/// Types that pass a run on and have no settings of their own.
const PASSING: [&str; 2] = ["FORK", "JOIN"];
/// Keys of `data` that mean the same on every node, and those of an aggregator.
const READ: [&str; 18] = [
    "type",
    "title",
    "desc",
    "name",
    "description",
    "version",
    "selected",
    "hooks",
    "tidemill",
    "error_strategy",
    "default_value",
    "retry_config",
    "iteration_id",
    "loop_id",
    "isInIteration",
    "isInLoop",
    "variables",
    "advanced_settings",
];

pub(super) fn rewrite(graph: &mut JsonMap) {
    let starts = starts_of_loops(graph);
    for node in graph.get_mut("nodes").and_then(Json::as_array_mut).into_iter().flatten() {
        let is_named = text(node, "id").is_some_and(|id| starts.contains(id));
        let is_inside = is_named || text(node, "parentId").is_some_and(|id| !id.is_empty());
        if let Some(data) = node.get_mut("data").and_then(Json::as_object_mut) {
            one(data, is_inside);
        }
    }
}

fn one(data: &mut JsonMap, is_inside: bool) {
    let name = data.get("type").and_then(Json::as_str).unwrap_or_default();
    let has_list = |key: &str| data.get(key).is_some_and(Json::is_array);
    let is_inside = is_inside || data.get("loop_id").and_then(Json::as_str).is_some_and(|id| !id.is_empty());
    let kind = match name {
        "VARIABLE" if has_list("items") || has_list("assigned_variable_selector") => NodeKind::Assigner,
        "ROUTE" if has_list("cases") || has_list("conditions") => NodeKind::IfElse,
        "LOOP_START" if is_inside => NodeKind::LoopStart,
        "LOOP_END" if is_inside => NodeKind::LoopEnd,
        "END" => NodeKind::End,
        name if PASSING.contains(&name) => NodeKind::VariableAggregator,
        _ => return,
    };
    data.insert("type".into(), kind.wire().into());
    match kind {
        NodeKind::End => _ = data.entry("outputs").or_insert_with(|| json!([])),
        NodeKind::VariableAggregator => {
            data.entry("output_type").or_insert_with(|| "any".into());
            data.entry("variables").or_insert_with(|| json!([]));
        }
        _ => {}
    }
}

/// The nodes that loops name as their first.
fn starts_of_loops(graph: &JsonMap) -> HashSet<String> {
    let nodes = graph.get("nodes").and_then(Json::as_array).into_iter().flatten();
    let start = |node: &Json| {
        let data = node.get("data")?;
        let is_loop = matches!(text(data, "type"), Some("loop" | "LOOP"));
        text(data, "start_node_id").filter(|_| is_loop).map(str::to_owned)
    };
    nodes.filter_map(start).collect()
}

/// Warns about settings of a `FORK` or `JOIN`, which have no effect. Another program may give them a meaning, such as a
/// join that waits for one arm only.
pub(in super::super) fn warn_of_unread_keys(graph: &JsonMap, problems: &mut Problems) {
    let nodes = graph.get("nodes").and_then(Json::as_array).into_iter().flatten();
    for (at, node) in nodes.enumerate() {
        let name = text(node, "type").filter(|name| PASSING.contains(name));
        let data = node.get("data").unwrap_or(&Json::Null);
        let Some(name) = name.or_else(|| text(data, "type").filter(|name| PASSING.contains(name))) else {
            continue;
        };
        let part = if data.is_object() { "data" } else { "config" };
        let settings = node.get(part).and_then(Json::as_object);
        let keys = settings.into_iter().flat_map(JsonMap::keys);
        let unread: Vec<&str> = keys.map(String::as_str).filter(|key| !is_read(key)).collect();
        if !unread.is_empty() {
            problems.within(format!("nodes[{at}].{part}"), |problems| {
                problems.warning_with_hint(
                    "settings.no_effect",
                    format!("a {name} node does not read {}", unread.join(", ")),
                    "the run goes on along all edges of the node, when all edges to it are decided",
                );
            });
        }
    }
}

fn is_read(key: &str) -> bool {
    READ.contains(&key) || key == "output_type" || key.starts_with('_')
}

fn text<'a>(value: &'a Json, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Json::as_str)
}
