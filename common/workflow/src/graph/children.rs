//! Nodes that run inside other nodes, from `data.virtual_nodes`. Each becomes an ordinary node of the graph,
//! after all others, so that code that reads nodes needs no special case.

use std::borrow::Cow;

use serde_json::{Value as Json, json};

use crate::dsl::children::{global_id, model_of};
use crate::dsl::{Document, DocumentNode};
use crate::nodes::llm::profile::tool_mode::PROFILE_PREFIX;
use crate::nodes::work::{Extraction, FedInput, INPUTS};
use crate::nodes::{NodeKind, extraction, step};
use tidemill_base::value::JsonMap;

/// The field with the list of children.
pub(super) const FIELD: &str = "virtual_nodes";

/// A child of a node.
pub(super) struct ChildNode {
    /// The child as an ordinary node, under its global id.
    pub(super) node: DocumentNode,
    /// The index of its parent among the document's nodes.
    pub(super) of: usize,
    /// Its index in the parent's list.
    pub(super) at: usize,
    /// Its id within the parent; empty when it has none.
    pub(super) local: String,
    /// The child as written in the file.
    pub(super) entry: JsonMap,
    /// Set for an extraction.
    pub(super) extraction: Option<Extraction>,
    /// True for the node that finds missing input of its parent. It is not in the file; it follows from the
    /// parent's settings.
    pub(super) is_slot: bool,
}

/// The local id of the node that finds missing input.
pub(super) const SLOT: &str = "slot";

/// Returns the children of all nodes, in order. Invalid lists and entries are skipped; the rules report them.
pub(super) fn of(document: &Document) -> Vec<ChildNode> {
    let mut children = Vec::new();
    for (of, parent) in document.nodes.iter().enumerate() {
        children.extend(slot(parent, of));
        let Some(list) = parent.data.get(FIELD).and_then(Json::as_array) else { continue };
        let entries = list.iter().enumerate().filter_map(|(at, entry)| Some((at, entry.as_object()?)));
        children.extend(entries.map(|(at, entry)| child(document, (of, parent), at, entry)));
    }
    children
}

fn child(document: &Document, (of, parent): (usize, &DocumentNode), at: usize, entry: &JsonMap) -> ChildNode {
    let text = |key: &str| entry.get(key).and_then(Json::as_str).unwrap_or_default();
    let local = text("id").to_owned();
    let mut data = entry.get("data").and_then(Json::as_object).cloned().unwrap_or_default();
    data.insert("type".into(), text("type").into());
    let extraction = extraction_of(document, entry);
    if let Some((of_extraction, _)) = &extraction {
        for (key, value) in of_extraction {
            data.entry(key).or_insert_with(|| value.clone());
        }
    }
    data.entry("title").or_insert_with(|| format!("Virtual: {local}").into());
    let node = DocumentNode {
        id: global_id(&parent.id, &local),
        parent: parent.parent.clone(),
        data,
        place: parent.place,
    };
    ChildNode {
        node,
        of,
        at,
        local,
        entry: entry.clone(),
        extraction: extraction.map(|(_, it)| it),
        is_slot: false,
    }
}

/// Returns an extraction as the data of an `llm` node, and its parts. `None` for a child of another kind, or
/// one that lacks a field.
fn extraction_of(document: &Document, entry: &JsonMap) -> Option<(JsonMap, Extraction)> {
    if entry.get("kind").and_then(Json::as_str) != Some("extraction") {
        return None;
    }
    let [node, name] = &entry.get("source")?.as_array()?[..] else { return None };
    let source = (node.as_str()?.to_owned(), name.as_str()?.to_owned());
    let prompt = entry.get("prompt")?.as_str()?.to_owned();
    let model = model(document, entry, &source.0);
    let has_model = model.is_some();
    let no_model = || json!({"provider": "none", "name": "none", "mode": "chat", "completion_params": {}});
    let data = json!({
        "title": extraction::title(&prompt),
        "model": model.unwrap_or_else(no_model),
        "prompt_template": [{"$context": [node, name]}, {"role": "user", "text": prompt}],
        "context": {"enabled": false, "variable_selector": []},
    });
    let default_value = entry.get("default_value").cloned();
    Some((data.as_object()?.clone(), Extraction { source, prompt, has_model, default_value }))
}

/// Returns the extraction's own model, or that of its source.
fn model(document: &Document, entry: &JsonMap, source: &str) -> Option<Json> {
    if let Some(id) = entry.get("profile_id").and_then(Json::as_str) {
        return Some(profile(id));
    }
    if let Some(own) = entry.get("model").filter(|model| !model.is_null()) {
        return Some(own.clone());
    }
    let inside = |node: &DocumentNode| -> Option<Json> {
        let local = source.strip_prefix(node.id.as_str())?.strip_prefix('_')?;
        let list = node.data.get(FIELD)?.as_array()?;
        let child = list.iter().find(|child| child.get("id").and_then(Json::as_str) == Some(local))?;
        let mut data = child.get("data")?.as_object()?.clone();
        data.insert("type".into(), child.get("type")?.clone());
        model_or_profile(&data)
    };
    let own =
        document.nodes.iter().find(|node| node.id == source).and_then(|node| model_or_profile(&node.data));
    own.or_else(|| document.nodes.iter().find_map(inside))
}

/// Returns the model of a node, or of its profile.
fn model_or_profile(data: &JsonMap) -> Option<Json> {
    model_of(data).map(Cow::into_owned).or_else(|| Some(profile(data.get("profile_id")?.as_str()?)))
}

/// Builds a model that refers to a profile.
fn profile(id: &str) -> Json {
    let provider = format!("{}{id}", PROFILE_PREFIX);
    json!({"provider": provider, "name": "", "mode": "chat", "completion_params": {}})
}

/// Returns the inputs of a node that have a strategy for null.
pub(super) fn fed_inputs(data: &JsonMap) -> Vec<FedInput> {
    let Some((_, parameters)) = parameters(data) else { return Vec::new() };
    let fed = |(name, value): (&String, &Json)| {
        let strategy = value.get("null_strategy")?.as_str()?;
        let parts = value.get("value")?.as_array()?;
        let selector = parts.iter().map(|part| part.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        let default =
            (strategy == "use_default").then(|| value.get("default_value").cloned().unwrap_or_default());
        Some(FedInput { name: name.clone(), selector, default })
    };
    parameters.iter().filter_map(fed).collect()
}

/// Returns `data` in the form that the node's type parses: an input with a strategy for null becomes a
/// variable under [`INPUTS`].
pub(super) fn as_read(data: &JsonMap) -> Cow<'_, JsonMap> {
    let fed = fed_inputs(data);
    let Some((field, _)) = parameters(data).filter(|_| !fed.is_empty()) else { return Cow::Borrowed(data) };
    let mut read = data.clone();
    for input in fed {
        let place = read.get_mut(field).and_then(|parameters| parameters.get_mut(&input.name));
        if let Some(place) = place {
            *place = json!({"type": "variable", "value": [INPUTS, input.name]});
        }
    }
    Cow::Owned(read)
}

/// Returns the parameters of a node that may come from children, and the name of their field.
pub(super) fn parameters(data: &JsonMap) -> Option<(&'static str, &JsonMap)> {
    ["tool_parameters", "agent_parameters", "params"]
        .into_iter()
        .find_map(|field| Some((field, data.get(field)?.as_object()?)))
}

/// Fields of the parent that are copied to the node that finds missing input.
const OF_PARENT: [&str; 4] = ["profile_id", "question", "input_schema", "language"];

/// Builds the node that finds missing input, if the parent may lack some.
fn slot(parent: &DocumentNode, of: usize) -> Option<ChildNode> {
    let kind = NodeKind::from_wire(parent.type_name())?;
    if !step::may_fill(kind, &parent.data) {
        return None;
    }
    let title = step::texts::FILLING.named(parent.data.get("language").and_then(Json::as_str));
    let mut data = JsonMap::from_iter([
        ("type".to_owned(), NodeKind::Slot.wire().into()),
        ("title".to_owned(), title.into()),
        ("target_node".to_owned(), parent.id.as_str().into()),
    ]);
    // A step has its own parameters; those of any other type are created for this purpose.
    let has_own =
        parent.data.get("params").is_some_and(Json::is_object) && !step::is_step(kind, &parent.data);
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
    Some(ChildNode {
        node,
        of,
        at: 0,
        local: SLOT.into(),
        entry: JsonMap::new(),
        extraction: None,
        is_slot: true,
    })
}
