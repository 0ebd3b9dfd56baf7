//! Rules of nodes that run inside others: who may have them, what may be one, and what may be said of them.

use serde_json::Value as Json;

use super::{Draft, Report};
use crate::graph::children::FIELD;
use crate::nodes::{ExecutionType, NodeKind};

/// The code of what is wrong with the children of a node.
pub(super) const INVALID: &str = "children.invalid";

/// What may run inside another node: it ends by itself, asks nobody, and has one way out.
const ALLOWED: [&str; 15] = [
    "llm",
    "code",
    "tool",
    "if-else",
    "question-classifier",
    "parameter-extractor",
    "template-transform",
    "variable-aggregator",
    "http-request",
    "knowledge-retrieval",
    "sql",
    "api",
    "summary",
    "facts",
    "call",
];

/// Whether the node has a list of children, whatever it is.
fn list<'d>(draft: &Draft<'d>, at: usize) -> Option<&'d Json> {
    draft.nodes[at].source.data.get(FIELD).filter(|list| !list.is_null())
}

pub(super) fn lists_are_usable(draft: &Draft<'_>, report: &mut Report<'_>) {
    for at in 0..draft.document.nodes.len() {
        let Some(list) = list(draft, at) else { continue };
        let Some(items) = list.as_array() else {
            report.node(draft, at, &part(None), format!("`{FIELD}` must be a list"), None);
            continue;
        };
        for (place, item) in items.iter().enumerate() {
            let problem = match item.as_object() {
                None => "must be a mapping with `id`, `type` and `data`",
                Some(item) if item.get("data").is_some_and(|data| !data.is_object() && !data.is_null()) => {
                    "has a `data` that is no mapping"
                }
                Some(item) if !item.get("id").and_then(Json::as_str).is_some_and(is_name) => {
                    "needs a text `id` of letters, digits, `_` and `-`"
                }
                Some(_) => continue,
            };
            let message = format!("a child of node {:?} {problem}", draft.nodes[at].source.id);
            report.node(draft, at, &part(Some(place)), message, None);
        }
    }
}

fn part(place: Option<usize>) -> String {
    place.map_or_else(|| format!("data.{FIELD}"), |place| format!("data.{FIELD}[{place}]"))
}

fn is_name(id: &str) -> bool {
    !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

pub(super) fn parents_may_have_children(draft: &Draft<'_>, report: &mut Report<'_>) {
    for at in 0..draft.document.nodes.len() {
        let is_empty = |list: &Json| list.as_array().is_some_and(Vec::is_empty);
        let (Some(_), Some(kind)) = (list(draft, at).filter(|list| !is_empty(list)), draft.nodes[at].kind)
        else {
            continue;
        };
        let may = match kind.spec().execution {
            ExecutionType::Executable | ExecutionType::Branch => {
                !matches!(kind, NodeKind::IterationStart | NodeKind::LoopStart | NodeKind::LoopEnd)
            }
            ExecutionType::Root | ExecutionType::Container | ExecutionType::Response => false,
        };
        if !may {
            let id = &draft.nodes[at].source.id;
            let message = format!("node {id:?} of type {} cannot have nodes inside it", kind.wire());
            report.node(draft, at, &part(None), message, None);
        }
    }
}

pub(super) fn types_may_run_inside(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let (Some(child), Some(kind)) = (node.child, node.kind) else { continue };
        if !ALLOWED.contains(&kind.wire()) {
            let parent = &draft.document.nodes[child.of].id;
            let message = format!(
                "{:?} inside node {parent:?}: a node of type {} cannot run inside another",
                child.local,
                kind.wire()
            );
            report.node(draft, at, "type", message, Some(format!("possible are {}", ALLOWED.join(", "))));
        }
    }
}

pub(super) fn there_is_one_level(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let Some(child) = node.child else { continue };
        let nested = list(draft, at).or_else(|| child.entry.get(FIELD));
        if nested.is_some_and(|list| list.as_array().is_none_or(|list| !list.is_empty())) {
            let message = format!(
                "NestedVirtualNode: {:?} runs inside node {:?} and cannot have nodes inside itself",
                child.local, draft.document.nodes[child.of].id
            );
            report.node(draft, at, &part(None), message, None);
        }
    }
}

/// A name that looks like that of a child, where no such child is.
pub(super) fn names_are_known(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let of = match node.child {
            Some(child) => child.of,
            None if list(draft, at).is_some() => at,
            None => continue,
        };
        let Some(data) = &node.data else { continue };
        let own = format!("{}_", draft.nodes[of].source.id);
        for (id, name) in crate::nodes::mentions_of(&node.source.id, data) {
            let is_meant = id.starts_with("ext_") || id.starts_with(&own);
            if is_meant && !draft.index.contains_key(id.as_str()) {
                let message = format!(
                    "VariableNotFoundError: Variable {id}.{name} not found in variable pool: node {:?} has no child of that id",
                    draft.nodes[of].source.id
                );
                report.node(draft, at, "data", message, None);
            }
        }
    }
}
