//! Rewrites old and alternative spellings before any check, so that later code sees only the canonical form.
//!
//! To add a spelling, add a file here and a row in [`FORMS`]; a rewrite of a few lines goes into [`small`]. A rewrite
//! changes JSON only and never reports problems. It leaves what it does not understand unchanged, for the checks to
//! report.

mod bare;
mod child_references;
mod context_processor;
mod default_value_object;
mod defaults;
mod editor;
mod explain;
mod extractions;
mod extractors;
mod foreign_node;
mod foreign_type;
mod hooks;
mod llm_profile;
mod node_type;
pub(super) mod retries;
mod small;
mod steps;
mod success_branch;
mod user_interaction;

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

pub use explain::Rewrite;
pub(super) use explain::{explain, explain_bare};
pub(super) use foreign_type::warn_of_unread_keys;
pub use retries::{HttpRetryDefault, RetryReading, RetryWithoutEnabled};

/// Whether a file is migrated as Dify's editor migrates it: the setting `compat.editor_migrations`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Migrations {
    #[default]
    On,
    Off,
}

impl From<bool> for Migrations {
    fn from(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
    }
}

/// One rewrite rule and the part of a file that it applies to.
struct Form {
    /// The name that `tidemill check --explain` shows.
    name: &'static str,
    rewrite: fn(&mut JsonMap),
    part: Part,
}

/// The part of a file that a rule receives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Graph,
    NodeData,
    Edge,
}

/// The rules, in the order of their application.
const FORMS: &[Form] = &[
    // `edges` absent or null is an empty list
    Form { name: "null-edges", rewrite: small::null_edges, part: Part::Graph },
    // `{id, type, name, config}` for a node, and `type` beside `data`
    Form { name: "foreign-node", rewrite: foreign_node::rewrite, part: Part::Graph },
    // types whose meaning depends on the node's configuration or place
    Form { name: "foreign-type", rewrite: foreign_type::rewrite, part: Part::Graph },
    // types as other programs spell them
    Form { name: "node-type", rewrite: node_type::rewrite, part: Part::NodeData },
    // an edge with `source_handle`
    Form { name: "edge-keys", rewrite: small::edge_keys, part: Part::Edge },
    // an edge without `sourceHandle` gets the handle `source`
    Form { name: "edge-handle", rewrite: small::edge_handle, part: Part::Edge },
    // `success-branch` for the handle `source`
    Form { name: "success-branch", rewrite: success_branch::rewrite, part: Part::Graph },
    // `version` of a node as a number
    Form { name: "node-version", rewrite: small::node_version, part: Part::NodeData },
    // an assigner with `items` is of version 2
    Form { name: "assigner-version", rewrite: small::assigner_version, part: Part::NodeData },
    // keys in camel case and operations in upper case
    Form { name: "context-processor", rewrite: context_processor::rewrite, part: Part::NodeData },
    // `profileId` of an llm node
    Form { name: "llm-profile", rewrite: llm_profile::rewrite, part: Part::NodeData },
    // steps with keys in camel case, and the branches of the original format
    Form { name: "steps", rewrite: steps::rewrite, part: Part::NodeData },
    // hooks in camel case
    Form { name: "hooks", rewrite: hooks::rewrite, part: Part::NodeData },
    // `default_value` as a mapping
    Form { name: "default-value-object", rewrite: default_value_object::rewrite, part: Part::NodeData },
    // `structured_output_enabled`
    Form { name: "structured-output", rewrite: small::structured_output, part: Part::NodeData },
    // `retry_interval_seconds`
    Form { name: "retry-seconds", rewrite: small::retry_seconds, part: Part::NodeData },
    // inputs that are extracted from a conversation
    Form { name: "extractions", rewrite: extractions::rewrite, part: Part::Graph },
    // a node inside another named by its local or dotted id
    Form { name: "child-references", rewrite: child_references::rewrite, part: Part::Graph },
    // questions to the user as other engines write them
    Form { name: "user-interaction", rewrite: user_interaction::rewrite, part: Part::NodeData },
    // what a node inside another may leave out
    Form { name: "child-defaults", rewrite: defaults::of_children, part: Part::Graph },
];

/// Applies every rule to a graph.
pub(super) fn apply(graph: &mut JsonMap, migrations: Migrations) {
    forms(migrations).for_each(|form| form.apply(graph));
}

/// Applies the further rules for a bare graph, after the others.
pub(super) fn apply_bare(graph: &mut JsonMap) {
    bare::FORMS.iter().for_each(|form| form.apply(graph));
}

/// All rules in their order. Migrations come last: they read canonical types, handles and lists.
fn forms(migrations: Migrations) -> impl Iterator<Item = &'static Form> {
    let migrations = match migrations {
        Migrations::On => editor::MIGRATIONS,
        Migrations::Off => &[],
    };
    FORMS.iter().chain(migrations)
}

impl Form {
    fn apply(&self, graph: &mut JsonMap) {
        match self.part {
            Part::Graph => (self.rewrite)(graph),
            Part::NodeData => each(graph, "nodes", |node| {
                if let Some(data) = node.get_mut("data").and_then(Json::as_object_mut) {
                    (self.rewrite)(data);
                    each(data, "virtual_nodes", |child| of_child(child, self.rewrite));
                }
            }),
            Part::Edge => each(graph, "edges", self.rewrite),
        }
    }
}

/// Rewrites the data of a node inside another, whose type is outside its `data`.
fn of_child(child: &mut JsonMap, rewrite: fn(&mut JsonMap)) {
    let kind = child.get("type").cloned();
    let Some(data) = child.get_mut("data").and_then(Json::as_object_mut) else { return };
    match kind.filter(|_| !data.contains_key("type")) {
        Some(kind) => {
            data.insert("type".into(), kind);
            rewrite(data);
            data.shift_remove("type");
        }
        None => rewrite(data),
    }
}

fn each(graph: &mut JsonMap, list: &str, mut rewrite: impl FnMut(&mut JsonMap)) {
    for item in graph.get_mut(list).and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(item) = item.as_object_mut() {
            rewrite(item);
        }
    }
}

#[cfg(test)]
mod alias_tests;
#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_old_spelling_becomes_the_one_form() {
        for (old, new) in [
            (json!({"nodes": [], "edges": null}), json!({"nodes": [], "edges": []})),
            (json!({"nodes": null}), json!({"nodes": null, "edges": []})),
            (
                json!({"nodes": [], "edges": [{"source": "a"}, {"sourceHandle": "x"}, {"sourceHandle": null}, 5]}),
                json!({"nodes": [], "edges": [{"source": "a", "sourceHandle": "source"}, {"sourceHandle": "x"}, {"sourceHandle": null}, 5]}),
            ),
            (
                json!({"nodes": [], "edges": [{"source_node_id": "a", "target_node_id": "b", "source_handle": "true"}, {"source_handle": null}]}),
                json!({"nodes": [], "edges": [{"source": "a", "target": "b", "sourceHandle": "true"}, {"sourceHandle": "source"}]}),
            ),
            (
                json!({"nodes": [{"id": "a", "data": {"type": "code"}}, {"id": "b", "data": {"type": "if-else"}}],
                    "edges": [{"source": "a", "sourceHandle": "success-branch"}, {"source": "b", "sourceHandle": "success-branch"}]}),
                json!({"nodes": [{"id": "a", "data": {"type": "code"}}, {"id": "b", "data": {"type": "if-else"}}],
                    "edges": [{"source": "a", "sourceHandle": "source"}, {"source": "b", "sourceHandle": "success-branch"}]}),
            ),
            (
                json!({"nodes": [{"data": {"version": 2}}, {"data": {"version": "1"}}, {"data": {"version": [1]}}, {}], "edges": []}),
                json!({"nodes": [{"data": {"version": "2"}}, {"data": {"version": "1"}}, {"data": {"version": [1]}}, {}], "edges": []}),
            ),
            (
                json!({"nodes": [{"data": {"type": "assigner", "items": []}}, {"data": {"type": "code", "items": []}}], "edges": []}),
                json!({"nodes": [{"data": {"type": "assigner", "items": [], "version": "2"}}, {"data": {"type": "code", "items": []}}], "edges": []}),
            ),
            (
                json!({"nodes": [
                    {"data": {"type": "llm", "structured_output_enabled": true}},
                    {"data": {"type": "llm", "structured_output_enabled": true, "structured_output_switch_on": false}},
                ], "edges": []}),
                json!({"nodes": [
                    {"data": {"type": "llm", "structured_output_switch_on": true}},
                    {"data": {"type": "llm", "structured_output_switch_on": false}},
                ], "edges": []}),
            ),
            (
                json!({"nodes": [{"data": {"type": "USER_INTERACTION", "userInteractionType": "ask_for_approval", "showMessage": "Go?", "timeout": 5}}], "edges": []}),
                json!({"nodes": [{"data": {"type": "user-interaction", "interaction_type": "ask_for_approval", "show_message": "Go?", "timeout_ms": 5}}], "edges": []}),
            ),
            (
                json!({"nodes": [{"data": {
                    "type": "user-interaction", "operationType": "UPDATE_VARIABLES", "prompt": "?",
                    "variables": [{"variableName": "a", "expression": "{{input}}", "scope": "subgraph"}],
                }}], "edges": []}),
                json!({"nodes": [{"data": {
                    "type": "user-interaction", "interaction_type": "ask_for_input", "show_message": "?",
                    "on_answer": {"update_variables": [{"name": "a", "expression": "{{input}}", "scope": "local"}]},
                }}], "edges": []}),
            ),
            (
                json!({"nodes": [{"data": {
                    "type": "user-interaction", "operationType": "ADD_MESSAGE", "message": {"role": "user", "contentTemplate": "Q: {{input}}"},
                }}], "edges": []}),
                json!({"nodes": [{"data": {
                    "type": "user-interaction", "interaction_type": "ask_for_input",
                    "on_answer": {"add_message": {"role": "user", "content": "Q: {{input}}"}},
                }}], "edges": []}),
            ),
            (
                json!({"nodes": [
                    {"data": {"type": "llm", "profileId": "p", "prompt": "x", "maxToolCallsPerRequest": 4, "onToolError": "fail"}},
                    {"data": {"type": "LLM", "profileId": "theirs", "profile_id": "ours"}},
                    {"data": {"type": "llm", "model": {}, "outputAs": 1}},
                ], "edges": []}),
                json!({"nodes": [
                    {"data": {"type": "llm", "profile_id": "p", "prompt": "x", "max_tool_calls_per_request": 4, "on_tool_error": "fail"}},
                    {"data": {"type": "llm", "profile_id": "ours"}},
                    {"data": {"type": "llm", "model": {}, "outputAs": 1}},
                ], "edges": []}),
            ),
            (
                json!({"nodes": [{"data": {"default_value": {"text": "x", "n": 1, "l": ["a"], "o": {}}}}], "edges": []}),
                json!({"nodes": [{"data": {"default_value": [
                    {"key": "text", "type": "string", "value": "x"},
                    {"key": "n", "type": "number", "value": 1},
                    {"key": "l", "type": "array[string]", "value": ["a"]},
                    {"key": "o", "type": "object", "value": {}},
                ]}}], "edges": []}),
            ),
        ] {
            let mut graph = old.as_object().unwrap().clone();
            apply(&mut graph, Migrations::On);
            assert_eq!(Json::Object(graph.clone()), new);
            let once = graph.clone();
            apply(&mut graph, Migrations::On);
            assert_eq!(graph, once, "a form applied twice changes nothing more");
        }
    }
}
