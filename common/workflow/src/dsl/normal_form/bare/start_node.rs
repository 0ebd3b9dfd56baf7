//! Gives a graph without a start node one before the only node that no edge leads to: the run begins there. Where several
//! nodes could be the first, the graph stays as it is, and the checks refuse it.
//!
//! The new node stands at the end of the list, so that the places of the other nodes stay.

use std::collections::HashSet;

use serde_json::{Value as Json, json};

use super::super::editor::container_start::unused;
use crate::kinds::{ExecutionType, NodeKind, SOURCE_HANDLE};
use tidemill_base::value::JsonMap;

/// The id of the new node.
const START: &str = "start";

pub(super) fn rewrite(graph: &mut JsonMap) {
    let Some(first) = first_without_start(graph) else { return };
    let start = unused(graph, START.to_owned());
    let edge = json!({"source": start, "target": first, "sourceHandle": SOURCE_HANDLE});
    if let Some(nodes) = graph.get_mut("nodes").and_then(Json::as_array_mut) {
        let data = json!({"type": NodeKind::Start.wire(), "title": "Start", "variables": []});
        nodes.push(json!({"id": start, "data": data}));
    }
    if let Some(edges) = graph.get_mut("edges").and_then(Json::as_array_mut) {
        edges.push(edge);
    }
}

/// Returns the only node without an edge to it, if no node is of a type that begins a run.
fn first_without_start(graph: &JsonMap) -> Option<String> {
    let list = |key: &str| graph.get(key).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let (nodes, edges) = (list("nodes"), list("edges"));
    let ends = |end: &str| -> HashSet<&str> { edges.iter().filter_map(|edge| text(edge, end)).collect() };
    let (sources, targets) = (ends("source"), ends("target"));
    let mut firsts = Vec::new();
    for node in nodes.iter().filter(|node| is_outermost(node)) {
        let kind = node.get("data").and_then(|data| text(data, "type")).and_then(NodeKind::from_wire);
        if kind.is_some_and(|kind| kind.spec().execution == ExecutionType::Root) {
            return None;
        }
        let id = text(node, "id")?;
        if !targets.contains(id) {
            firsts.push(id);
        }
    }
    let [first] = firsts[..] else { return None };
    // A node alone is no beginning of anything: its start node was forgotten.
    sources.contains(first).then(|| first.to_owned())
}

/// True for a node in no container.
fn is_outermost(node: &Json) -> bool {
    let names = |map: &Json, key: &str| text(map, key).is_some_and(|id| !id.is_empty());
    let data = node.get("data").unwrap_or(&Json::Null);
    !names(node, "parentId") && !names(data, "iteration_id") && !names(data, "loop_id")
}

fn text<'a>(value: &'a Json, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Json::as_str)
}
