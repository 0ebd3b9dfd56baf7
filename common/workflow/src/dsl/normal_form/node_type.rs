//! Rewrites node types as other programs spell them.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

/// Alternative spelling, canonical type.
const SPELLINGS: [(&str, &str); 20] = [
    ("CONTEXT_PROCESSOR", "context-processor"),
    ("USER_INTERACTION", "user-interaction"),
    ("LLM", "llm"),
    ("Empty", "empty"),
    ("EMPTY", "empty"),
    ("Summary", "summary"),
    ("SUMMARY", "summary"),
    ("Facts", "facts"),
    ("FACTS", "facts"),
    ("Slot", "slot"),
    ("SLOT", "slot"),
    ("API", "api"),
    ("SQL", "sql"),
    ("Choice", "choice"),
    ("START", "start"),
    ("END", "end"),
    ("CODE", "code"),
    ("TOOL", "tool"),
    ("AGENT", "agent"),
    ("LOOP", "loop"),
];

pub(super) fn canonical(name: &str) -> Option<&'static str> {
    if name == "CHOICE" {
        return Some("choice");
    }
    SPELLINGS.iter().find(|(spelling, _)| *spelling == name).map(|(_, kind)| *kind)
}

pub(super) fn rewrite(data: &mut JsonMap) {
    rename(data);
    for child in data.get_mut("virtual_nodes").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(child) = child.as_object_mut() {
            rename(child);
        }
    }
}

fn rename(map: &mut JsonMap) {
    if let Some(kind) = map.get("type").and_then(Json::as_str).and_then(canonical) {
        map.insert("type".into(), kind.into());
    }
}
