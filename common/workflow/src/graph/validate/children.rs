//! Rules for nodes inside other nodes: allowed parents, allowed children, and allowed settings.

use serde_json::Value as Json;

use super::{Draft, Report};
use crate::dsl::children::missing_in_extraction;
use crate::graph::children::{FIELD, parameters};
use crate::nodes::{ExecutionType, NodeKind, step};

/// The code of problems with the children of a node.
pub(super) const INVALID: &str = "children.invalid";

/// The code of settings without effect.
pub(super) const NO_EFFECT: &str = "children.no_effect";

/// Types that may run inside another node: they end without external events, ask no person, and have one
/// exit.
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

/// Returns the value of the children field, also when it is not a list.
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
                    "has a `data` that is not a mapping"
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
        if !child.is_slot && !ALLOWED.contains(&kind.wire()) {
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

/// Missing input can be found only where a schema describes the input.
pub(super) fn filling_has_a_schema(draft: &Draft<'_>, report: &mut Report<'_>) {
    for node in draft.nodes.iter() {
        let Some(child) = node.child.filter(|child| child.is_slot) else { continue };
        let parent = &draft.nodes[child.of];
        let Some(kind) = parent.kind else { continue };
        let has_one = step::is_step(kind, &parent.source.data)
            || kind == NodeKind::Tool
            || parent.source.data.get("input_schema").is_some_and(Json::is_object);
        let may = matches!(kind.spec().execution, ExecutionType::Executable | ExecutionType::Branch);
        let (id, wire) = (&parent.source.id, kind.wire());
        let problem = if !may {
            format!("node {id:?} of type {wire} has no input that could be filled")
        } else if !has_one {
            format!("node {id:?} of type {wire} needs `input_schema` for `enable_filling`")
        } else {
            continue;
        };
        report.node(draft, child.of, "data.enable_filling", problem, None);
    }
}

pub(super) fn there_is_one_level(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let Some(child) = node.child else { continue };
        let nested = list(draft, at).or_else(|| child.entry.get(FIELD));
        if nested.is_some_and(|list| list.as_array().is_none_or(|list| !list.is_empty())) {
            let message = format!(
                "NestedVirtualNode: {:?} runs inside node {:?} and cannot have child nodes",
                child.local, draft.document.nodes[child.of].id
            );
            report.node(draft, at, &part(None), message, None);
        }
    }
}

/// Retries, error strategies, hooks and confirmations are those of the parent.
pub(super) fn settings_belong_to_the_parent(draft: &Draft<'_>, report: &mut Report<'_>) {
    const KEYS: [&str; 5] = ["retry_config", "error_strategy", "hooks", "require_confirm", "enable_filling"];
    for (at, node) in draft.nodes.iter().enumerate().filter(|(_, node)| node.child.is_some()) {
        let is_said = |key: &&str| {
            let value = node.source.data.get(*key);
            value
                .is_some_and(|value| !value.is_null() && *value != false && *value != Json::Array(Vec::new()))
        };
        for key in KEYS.into_iter().filter(is_said) {
            let message =
                format!("`{key}` has no effect on {:?}, which runs inside another node", node.source.id);
            let code = report.code;
            draft.at_node(at, report.problems, |problems| problems.warning(code, message));
        }
    }
}

/// Reports names in the form of a child's id for which there is no child.
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
                    "VariableNotFoundError: Variable {id}.{name} not found in variable pool: node {:?} has no child with that id",
                    draft.nodes[of].source.id
                );
                report.node(draft, at, "data", message, None);
            }
        }
    }
}

/// Reports extractions that were not rewritten because a field is missing.
pub(super) fn extractions_are_whole(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let parameters = parameters(&node.source.data).into_iter().flat_map(|(_, parameters)| parameters);
        let inputs = node.source.data.get("inputs").and_then(Json::as_array).into_iter().flatten();
        let named = inputs.filter_map(|input| Some((input.get("name")?.as_str()?, input)));
        let all = parameters.map(|(name, value)| (name.as_str(), value)).chain(named);
        for (name, value) in
            all.filter(|(_, value)| value.get("type").and_then(Json::as_str) == Some("extraction"))
        {
            let missing = missing_in_extraction(value.get("value"));
            if missing.is_empty() {
                continue; // The input is a duplicate, or its node cannot have extractions: other rules report that.
            }
            let message = format!(
                "ConfigurationValidationError: the extraction of input {name:?} of node {:?} needs {}",
                node.source.id,
                missing.join(", ")
            );
            report.node(draft, at, "data", message, None);
        }
        let is_extraction = |child: &crate::graph::children::ChildNode| {
            child.entry.get("kind").and_then(Json::as_str) == Some("extraction") && child.extraction.is_none()
        };
        if node.child.is_some_and(is_extraction) {
            let message = format!(
                "ConfigurationValidationError: the extraction {:?} needs `source` (node and variable) and `prompt`",
                node.source.id
            );
            report.node(draft, at, "", message, None);
        }
    }
}

pub(super) fn sources_exist(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let Some(extraction) = node.child.and_then(|child| child.extraction.as_ref()) else { continue };
        let source = &extraction.source.0;
        let is_namespace =
            ["sys", "env", "conversation"].contains(&source.as_str()) || source.starts_with('#');
        if !draft.index.contains_key(source.as_str()) && !is_namespace {
            let message = format!("SourceNodeNotFoundError: Source node {source} not found in graph config");
            report.node(draft, at, "source", message, None);
        }
    }
}

pub(super) fn inputs_are_given_once(draft: &Draft<'_>, report: &mut Report<'_>) {
    for at in 0..draft.document.nodes.len() {
        let data = &draft.nodes[at].source.data;
        let (Some((_, parameters)), Some(inputs)) =
            (parameters(data), data.get("inputs").and_then(Json::as_array))
        else {
            continue;
        };
        let names = inputs.iter().filter_map(|input| input.get("name")?.as_str());
        for name in names.filter(|name| parameters.contains_key(*name)) {
            let message = format!(
                "DuplicateInput: input {name:?} of node {:?} is given twice, with different content",
                draft.nodes[at].source.id
            );
            report.node(draft, at, "data.inputs", message, None);
        }
    }
}
