//! Gives iterations and loops of older files the start node that later files have. Such a file names the first node of
//! the body in `start_node_id`, or marks it, or names none.
//!
//! The new node stands at the end of the list, so that the places of the other nodes stay.

use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;

use crate::kinds::{NodeKind, SOURCE_HANDLE};

/// A container that lacks its start node.
struct Lacking {
    /// The place of the container in the list of nodes.
    at: usize,
    id: String,
    kind: NodeKind,
    begin: Begin,
}

/// Where the body begins.
enum Begin {
    /// At this start node, which the container does not name.
    Known(String),
    /// At these nodes, through a new start node.
    New(Vec<String>),
}

pub(in super::super) fn rewrite(graph: &mut JsonMap) {
    let lacking: Vec<Lacking> = {
        let list = |key: &str| graph.get(key).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let (nodes, edges) = (list("nodes"), list("edges"));
        nodes.iter().enumerate().filter_map(|(at, node)| lacking(at, node, nodes, edges)).collect()
    };
    for container in lacking {
        let start = match container.begin {
            Begin::Known(start) => start,
            Begin::New(firsts) => {
                let start = unused(graph, format!("{}start", container.id));
                add_start(graph, &start, &container.id, container.kind, &firsts);
                start
            }
        };
        if let Some(data) =
            graph.get_mut("nodes").and_then(|nodes| nodes.get_mut(container.at)?.get_mut("data"))
        {
            data["start_node_id"] = start.into();
        }
    }
}

fn lacking(at: usize, node: &Json, nodes: &[Json], edges: &[Json]) -> Option<Lacking> {
    let kind = type_of(node).filter(|kind| start_of(*kind).is_some())?;
    let wanted = start_of(kind)?;
    let id = text(node, "id")?.to_owned();
    let named = text(node.get("data")?, "start_node_id").filter(|start| !start.is_empty());
    let begin = match named {
        Some(start) => {
            let first = nodes.iter().find(|node| text(node, "id") == Some(start))?;
            if type_of(first) == Some(wanted) || !is_in(first, &id) {
                return None;
            }
            Begin::New(vec![start.to_owned()])
        }
        None => unnamed(&id, wanted, nodes, edges)?,
    };
    Some(Lacking { at, id, kind, begin })
}

/// Finds where the body of a container without `start_node_id` begins: at its start node, else at the node that is
/// marked as the first, else at all nodes without an edge to them.
fn unnamed(id: &str, wanted: NodeKind, nodes: &[Json], edges: &[Json]) -> Option<Begin> {
    let body: Vec<&Json> = nodes.iter().filter(|node| is_in(node, id)).collect();
    let starts: Vec<&str> = body
        .iter()
        .filter(|node| type_of(node) == Some(wanted))
        .filter_map(|node| text(node, "id"))
        .collect();
    if let [start] = starts[..] {
        return Some(Begin::Known(start.to_owned()));
    }
    let is_marked = |node: &Json| {
        let mark = |key: &str| node.get("data").and_then(|data| data.get(key)).and_then(Json::as_bool);
        mark("isIterationStart") == Some(true) || mark("isLoopStart") == Some(true)
    };
    let has_edge = |node: &Json| edges.iter().any(|edge| text(edge, "target") == text(node, "id"));
    let ids = |is_first: &dyn Fn(&Json) -> bool| -> Vec<String> {
        body.iter()
            .filter(|node| is_first(node))
            .filter_map(|node| text(node, "id").map(str::to_owned))
            .collect()
    };
    let marked = ids(&is_marked);
    let firsts = if marked.is_empty() { ids(&|node| !has_edge(node)) } else { marked };
    (starts.is_empty() && !firsts.is_empty()).then_some(Begin::New(firsts))
}

fn is_in(node: &Json, container: &str) -> bool {
    let data = |key: &str| node.get("data").and_then(|data| text(data, key));
    match text(node, "parentId") {
        Some(parent) => parent == container,
        None => data("iteration_id") == Some(container) || data("loop_id") == Some(container),
    }
}

fn add_start(graph: &mut JsonMap, start: &str, container: &str, kind: NodeKind, firsts: &[String]) {
    let Some(wanted) = start_of(kind) else { return };
    if let Some(nodes) = graph.get_mut("nodes").and_then(Json::as_array_mut) {
        nodes.push(json!({
            "id": start, "parentId": container, "type": format!("custom-{}", wanted.wire()),
            "data": {"type": wanted.wire(), "title": ""},
        }));
    }
    if let Some(edges) = graph.get_mut("edges").and_then(Json::as_array_mut) {
        edges.extend(firsts.iter().map(|first| {
            json!({
                "id": format!("{start}-source-{first}-target"), "source": start, "target": first,
                "sourceHandle": SOURCE_HANDLE, "targetHandle": "target",
            })
        }));
    }
}

/// Returns the id, lengthened until no node has it.
pub(in super::super) fn unused(graph: &JsonMap, mut id: String) -> String {
    let nodes = graph.get("nodes").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    while nodes.iter().any(|node| text(node, "id") == Some(&id)) {
        id.push('_');
    }
    id
}

fn start_of(kind: NodeKind) -> Option<NodeKind> {
    match kind {
        NodeKind::Iteration => Some(NodeKind::IterationStart),
        NodeKind::Loop => Some(NodeKind::LoopStart),
        _ => None,
    }
}

fn type_of(node: &Json) -> Option<NodeKind> {
    node.get("data").and_then(|data| text(data, "type")).and_then(NodeKind::from_wire)
}

fn text<'a>(value: &'a Json, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Json::as_str)
}
