//! Reads the handle `success-branch` as `source`: some files call the counterpart of the fail branch so. A node with
//! handles of its own keeps it, because a case or a button may have this id.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::kinds::{ExecutionType, NodeKind, SOURCE_HANDLE};
use tidemill_base::value::JsonMap;

const SUCCESS_BRANCH: &str = "success-branch";

pub(super) fn rewrite(graph: &mut JsonMap) {
    let handle = |edge: &Json| edge.get("sourceHandle").and_then(Json::as_str) == Some(SUCCESS_BRANCH);
    let is_used = graph.get("edges").and_then(Json::as_array).is_some_and(|edges| edges.iter().any(handle));
    if !is_used {
        return;
    }
    let nodes = graph.get("nodes").and_then(Json::as_array).into_iter().flatten();
    let named: HashSet<String> = nodes
        .filter(|node| names_its_handles(node))
        .filter_map(|node| node.get("id").and_then(Json::as_str).map(str::to_owned))
        .collect();
    for edge in graph.get_mut("edges").and_then(Json::as_array_mut).into_iter().flatten() {
        let source = edge.get("source").and_then(Json::as_str);
        if handle(edge) && !source.is_some_and(|source| named.contains(source)) {
            edge["sourceHandle"] = SOURCE_HANDLE.into();
        }
    }
}

fn names_its_handles(node: &Json) -> bool {
    let name = node.get("data").and_then(|data| data.get("type")).and_then(Json::as_str);
    name.and_then(NodeKind::from_wire).is_some_and(|kind| {
        kind.spec().execution == ExecutionType::Branch
            || matches!(kind, NodeKind::UserInteraction | NodeKind::Call)
    })
}
