//! Nodes that run inside others, out of `data.virtual_nodes`: each becomes a node of the document behind all others, so
//! that whatever reads nodes reads it as well.

use serde_json::Value as Json;

use crate::dsl::{Document, DocumentNode};
use crate::machine::choices::Language;
use crate::nodes::{NodeKind, step};
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
    /// It looks for what the parent's input lacks. No file lists it: it follows from the parent.
    pub(super) is_slot: bool,
}

/// The local id of the node that looks for missing input.
pub(super) const SLOT: &str = "slot";

/// The id of a child within the whole graph: one that templates can name.
pub fn global_id(parent: &str, local: &str) -> String {
    format!("{parent}_{local}")
}

/// The children of all nodes, in their order. What is no list, or no mapping in it, is left to the rules.
pub(super) fn of(document: &Document) -> Vec<ChildNode> {
    let mut children = Vec::new();
    for (of, parent) in document.nodes.iter().enumerate() {
        children.extend(slot(parent, of));
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
    ChildNode { node, of, at, local, entry: entry.clone(), is_slot: false }
}

/// What of the parent the node that looks for missing input is told.
const OF_PARENT: [&str; 4] = ["profile_id", "question", "input_schema", "language"];

/// The node that looks for missing input, where the parent may lack some.
fn slot(parent: &DocumentNode, of: usize) -> Option<ChildNode> {
    let kind = NodeKind::from_wire(parent.type_name())?;
    if !step::may_fill(kind, &parent.data) {
        return None;
    }
    let language = parent.data.get("language").and_then(Json::as_str).and_then(Language::from_name);
    let title = step::texts::FILLING.of(language.unwrap_or_default());
    let mut data = JsonMap::from_iter([
        ("type".to_owned(), NodeKind::Slot.wire().into()),
        ("title".to_owned(), title.into()),
        ("target_node".to_owned(), parent.id.as_str().into()),
    ]);
    // A step's parameters are its own; those of any other type are made for this.
    let has_own = parent.data.get("params").is_some_and(Json::is_object) && !step::is_step(kind, &parent.data);
    let own = ["params"].into_iter().filter(|_| has_own);
    for key in OF_PARENT.into_iter().chain(own) {
        if let Some(value) = parent.data.get(key) {
            data.insert(key.to_owned(), value.clone());
        }
    }
    let node = DocumentNode {
        id: global_id(&parent.id, SLOT),
        parent: parent.parent.clone(),
        data,
        place: parent.place,
    };
    Some(ChildNode { node, of, at: 0, local: SLOT.into(), entry: JsonMap::new(), is_slot: true })
}
