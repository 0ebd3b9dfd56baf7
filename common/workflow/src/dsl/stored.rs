//! The stored form of a document: JSON without spaces, its keys in this order.
//!
//! ```json
//! {"v":1,"version":"0.6.0","name":"…","description":"…","mode":"workflow",
//!  "nodes":[{"id":"…","parent":null,"data":{…}}],
//!  "edges":[{"number":0,"id":null,"source":"…","target":"…","handle":"source"}],
//!  "environment":[{"id":"…","name":"…","type":"string","value":"…","description":"…"}],
//!  "conversation":[…],"features":{…},"options":{…},"front":{"mode":null,"shown":{…}}}
//! ```
//!
//! `front` is absent if it is empty.
//!
//! `data`, `features` and `options` keep the order of the file, since outputs and parameters take effect in
//! that order. A change of this form increases `v`; the reader must support every earlier `v`.

use serde_json::{Value as Json, json};

use super::document::{AppMode, DocumentVariable};
use super::document::{Document, DocumentEdge, DocumentNode};
use super::front::Front;
use super::{Diagnostic, ParseOptions, read};
use tidemill_base::value::{JsonMap, Segment};

const FORM_VERSION: u64 = 1;

/// Writes the canonical text.
pub(super) fn write(document: &Document) -> String {
    let nodes =
        document.nodes.iter().map(|node| json!({"id": node.id, "parent": node.parent, "data": node.data}));
    let edges = document.edges.iter().map(|edge| {
        json!({"number": edge.number, "id": edge.id, "source": edge.source, "target": edge.target, "handle": &*edge.handle})
    });
    let mut stored = json!({
        "v": FORM_VERSION,
        "version": document.version,
        "name": document.name,
        "description": document.description,
        "mode": document.mode.name(),
        "nodes": nodes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
        "environment": document.environment.iter().map(variable_to_json).collect::<Vec<_>>(),
        "conversation": document.conversation.iter().map(variable_to_json).collect::<Vec<_>>(),
        "features": document.features,
        "options": document.options,
    });
    if let Some(front) = document.front.to_stored() {
        stored["front"] = front;
    }
    stored.to_string()
}

fn variable_to_json(variable: &DocumentVariable) -> Json {
    json!({
        "id": variable.id,
        "name": &*variable.name,
        "type": variable.value.ty.name(),
        "value": variable.value.value,
        "description": variable.description,
    })
}

/// Parses a canonical text.
pub(super) fn read(text: &str, limits: &ParseOptions) -> Result<Document, Diagnostic> {
    let Json::Object(mut root) = read::read_json(text, limits)? else { return Err(wrong("the text")) };
    if root.get("v").and_then(Json::as_u64) != Some(FORM_VERSION) {
        return Err(
            wrong("v").hinted("a newer version of Tidemill wrote it; use that version or a later one")
        );
    }
    let mode = text_of(&mut root, "mode")?;
    let mode = [AppMode::Workflow, AppMode::Chat].into_iter().find(|known| known.name() == mode);
    Ok(Document {
        version: text_of(&mut root, "version")?,
        name: text_of(&mut root, "name")?,
        description: text_of(&mut root, "description")?,
        mode: mode.ok_or_else(|| wrong("mode"))?,
        nodes: list_of(&mut root, "nodes", node)?,
        edges: list_of(&mut root, "edges", edge)?,
        environment: list_of(&mut root, "environment", variable)?,
        conversation: list_of(&mut root, "conversation", variable)?,
        features: mapping_of(&mut root, "features")?,
        options: mapping_of(&mut root, "options")?,
        front: Front::from_stored(root.get("front")),
        refused: Vec::new(),
        graph_path: "workflow.graph",
    })
}

fn node(mut item: JsonMap, place: usize) -> Result<DocumentNode, Diagnostic> {
    Ok(DocumentNode {
        id: text_of(&mut item, "id")?,
        parent: optional_text_of(&mut item, "parent")?,
        data: mapping_of(&mut item, "data")?,
        place,
    })
}

fn edge(mut item: JsonMap, place: usize) -> Result<DocumentEdge, Diagnostic> {
    let number = item.get("number").and_then(Json::as_u64).and_then(|n| u32::try_from(n).ok());
    Ok(DocumentEdge {
        number: number.ok_or_else(|| wrong("number"))?,
        id: optional_text_of(&mut item, "id")?,
        source: text_of(&mut item, "source")?,
        target: text_of(&mut item, "target")?,
        handle: text_of(&mut item, "handle")?.into(),
        place,
    })
}

fn variable(mut item: JsonMap, _place: usize) -> Result<DocumentVariable, Diagnostic> {
    let ty = text_of(&mut item, "type")?.parse().map_err(|_| wrong("type"))?;
    let value = item.get_mut("value").map(Json::take).ok_or_else(|| wrong("value"))?;
    Ok(DocumentVariable {
        id: text_of(&mut item, "id")?,
        name: text_of(&mut item, "name")?.into(),
        value: Segment::new(ty, value),
        description: text_of(&mut item, "description")?,
    })
}

fn text_of(map: &mut JsonMap, key: &'static str) -> Result<String, Diagnostic> {
    optional_text_of(map, key)?.ok_or_else(|| wrong(key))
}

fn optional_text_of(map: &mut JsonMap, key: &'static str) -> Result<Option<String>, Diagnostic> {
    match map.get_mut(key).map(Json::take) {
        Some(Json::String(text)) => Ok(Some(text)),
        Some(Json::Null) => Ok(None),
        Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) | None => Err(wrong(key)),
    }
}

fn mapping_of(map: &mut JsonMap, key: &'static str) -> Result<JsonMap, Diagnostic> {
    match map.get_mut(key).map(Json::take) {
        Some(Json::Object(inner)) => Ok(inner),
        Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) | None => {
            Err(wrong(key))
        }
    }
}

fn list_of<T>(
    map: &mut JsonMap,
    key: &'static str,
    item: fn(JsonMap, usize) -> Result<T, Diagnostic>,
) -> Result<Vec<T>, Diagnostic> {
    let Some(Json::Array(items)) = map.get_mut(key).map(Json::take) else { return Err(wrong(key)) };
    let read = items.into_iter().enumerate().map(|(at, value)| match value {
        Json::Object(map) => item(map, at),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => Err(wrong(key)),
    });
    read.collect()
}

fn wrong(key: &str) -> Diagnostic {
    Diagnostic::at_line(
        "document.not_stored_form",
        None,
        format!("not a stored document: {key} is missing or invalid"),
    )
}
