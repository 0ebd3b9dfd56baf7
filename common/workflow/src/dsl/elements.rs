//! Reads nodes and edges from `graph`. Only their shape is checked here; their meaning is checked when the
//! graph is built.

use std::sync::Arc;

use serde_json::Value as Json;

use super::fields::kind_of;
use super::{DocumentEdge, DocumentNode, Problems};
use tidemill_base::value::JsonMap;

/// The canvas type of a note, which is not a node.
const NOTE: &str = "custom-note";

/// Reads the nodes of a graph, without notes. Also returns the ids of those that could not be read; a node without an id
/// counts with an empty one.
pub(super) fn nodes(graph: &mut JsonMap, problems: &mut Problems) -> (Vec<DocumentNode>, Vec<String>) {
    let mut refused = Vec::new();
    let Some(items) = take_list(graph, "nodes", "graph.invalid_nodes", problems) else {
        return (Vec::new(), refused);
    };
    let mut nodes = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        problems.within(format!("nodes[{at}]"), |problems| {
            let Json::Object(item) = item else {
                problems
                    .error("graph.invalid_node", format!("a node must be a mapping, not {}", kind_of(&item)));
                refused.push(String::new());
                return;
            };
            if item.get("type").and_then(Json::as_str) == Some(NOTE) {
                return;
            }
            let id = node_id(item.get("id"), problems);
            match node(item, id.clone(), at, problems) {
                Some(node) => nodes.push(node),
                None => refused.push(id.unwrap_or_default()),
            }
        });
    }
    (nodes, refused)
}

fn node(mut item: JsonMap, id: Option<String>, at: usize, problems: &mut Problems) -> Option<DocumentNode> {
    let parent = match item.remove("parentId") {
        Some(Json::String(parent)) if !parent.is_empty() => Some(parent),
        Some(_) | None => None,
    };
    let Some(Json::Object(mut data)) = item.remove("data") else {
        problems.error("graph.invalid_node_data", "the node has no mapping `data`");
        return None;
    };
    // The editor's canvas state is not part of the workflow and must not change the version's name.
    data.retain(|key, _| !key.starts_with('_') && !["selected", "isIterationStart"].contains(&key.as_str()));
    if ["iteration", "loop"].iter().any(|kind| data.get("type").and_then(Json::as_str) == Some(kind)) {
        data.shift_remove("width");
        data.shift_remove("height");
    }
    if data.get("type").and_then(Json::as_str).is_none_or(str::is_empty) {
        problems.within("data", |problems| {
            problems.error("graph.invalid_node_type", "the node has no text `data.type`");
        });
        return None;
    }
    Some(DocumentNode { id: id?, parent, data, place: at })
}

/// Returns the id as text. A number is reported but still used, so that edges to the node are not reported as
/// well.
fn node_id(id: Option<&Json>, problems: &mut Problems) -> Option<String> {
    let (id, message, hint) = match id {
        Some(Json::String(id)) if !id.is_empty() => return Some(id.clone()),
        Some(Json::Number(id)) => {
            (Some(id.to_string()), format!("the node's id {id} is a number"), "put the id in quotes")
        }
        Some(_) | None => (None, "the node has no text `id`".into(), "give every node a unique id"),
    };
    problems.within("id", |problems| problems.error_with_hint("graph.invalid_node_id", message, hint));
    id
}

/// Reads the edges of a graph. Numbers follow file order and, as on Dify, also count edges that are dropped
/// for their handle.
pub(super) fn edges(graph: &mut JsonMap, problems: &mut Problems) -> Vec<DocumentEdge> {
    let Some(items) = take_list(graph, "edges", "graph.invalid_edges", problems) else { return Vec::new() };
    let mut edges = Vec::with_capacity(items.len());
    let mut number = 0;
    for (at, item) in items.iter().enumerate() {
        problems.within(format!("edges[{at}]"), |problems| {
            let Some(item) = item.as_object() else {
                let message = format!("an edge must be a mapping, not {}", kind_of(item));
                problems.error("graph.invalid_edge", message);
                return;
            };
            let (Some(source), Some(target)) =
                (endpoint(item, "source", problems), endpoint(item, "target", problems))
            else {
                return;
            };
            let text = |key: &str| item.get(key).and_then(Json::as_str);
            let edge_number = number;
            number += 1;
            match text("sourceHandle") {
                Some(handle) => edges.push(DocumentEdge {
                    id: text("id").map(str::to_owned),
                    number: edge_number,
                    source,
                    target,
                    handle: Arc::from(handle),
                    place: at,
                }),
                None => problems.within("sourceHandle", |problems| {
                    problems
                        .warning("graph.edge_dropped", "the handle is not a text; Dify drops such an edge");
                }),
            }
        });
    }
    edges
}

fn endpoint(edge: &JsonMap, key: &str, problems: &mut Problems) -> Option<String> {
    let found = edge.get(key);
    let text = match found {
        Some(Json::String(text)) => return Some(text.clone()),
        Some(Json::Number(number)) => Some(number.to_string()),
        Some(_) | None => None,
    };
    problems.within(key, |problems| {
        let found = found.map_or("absent", kind_of);
        problems.error("graph.invalid_edge_endpoint", format!("`{key}` must be a node's id, but is {found}"));
    });
    text
}

fn take_list(
    graph: &mut JsonMap,
    key: &str,
    code: &'static str,
    problems: &mut Problems,
) -> Option<Vec<Json>> {
    match graph.get_mut(key).map(Json::take) {
        Some(Json::Array(items)) => Some(items),
        other => {
            let found = other.as_ref().map_or("absent", kind_of);
            problems.within(key, |problems| {
                problems.error(code, format!("{key} in workflow graph must be a list, but is {found}"));
            });
            None
        }
    }
}
