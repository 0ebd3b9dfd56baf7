//! Nodes that run inside others, out of `data.virtual_nodes`: each becomes a node of the document behind all others, so
//! that whatever reads nodes reads it as well.

use serde_json::Value as Json;

use crate::dsl::{Document, DocumentNode};
use crate::value::JsonMap;

/// The field that lists them.
pub(super) const FIELD: &str = "virtual_nodes";

/// A child as the file has it.
pub(super) struct ChildNode {
    /// As a node of its own, under its id within the whole graph.
    pub(super) node: DocumentNode,
    /// The place of its parent among the document's nodes.
    pub(super) of: usize,
    /// Its place in the parent's list.
    pub(super) at: usize,
    /// Its id within the parent; empty when it has none.
    pub(super) local: String,
    /// What an extraction is made of, for one.
    pub(super) entry: JsonMap,
}

/// The id of a child within the whole graph: one that templates can name.
pub fn global_id(parent: &str, local: &str) -> String {
    format!("{parent}_{local}")
}

/// The children of all nodes, in their order. What is no list, or no mapping in it, is left to the rules.
pub(super) fn of(document: &Document) -> Vec<ChildNode> {
    let mut children = Vec::new();
    for (of, parent) in document.nodes.iter().enumerate() {
        let Some(list) = parent.data.get(FIELD).and_then(Json::as_array) else { continue };
        let entries = list.iter().enumerate().filter_map(|(at, entry)| Some((at, entry.as_object()?)));
        children.extend(entries.map(|(at, entry)| child(parent, of, at, entry)));
    }
    children
}

fn child(parent: &DocumentNode, of: usize, at: usize, entry: &JsonMap) -> ChildNode {
    let text = |key: &str| entry.get(key).and_then(Json::as_str).unwrap_or_default();
    let local = text("id").to_owned();
    let mut data = entry.get("data").and_then(Json::as_object).cloned().unwrap_or_default();
    data.insert("type".into(), text("type").into());
    data.entry("title").or_insert_with(|| format!("Virtual: {local}").into());
    let node = DocumentNode {
        id: global_id(&parent.id, &local),
        parent: parent.parent.clone(),
        data,
        place: parent.place,
    };
    ChildNode { node, of, at, local, entry: entry.clone() }
}
