//! Compares the outcome of a run with the expected outcome of the reference.
//!
//! Not compared, because it depends on an order that is not specified: which of several failures ends a run and how far
//! the other nodes were; what parallel items did beside the one that ended their iteration; and everything cut off by a
//! stop.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use tidemill_common::machine::state::run::{NodeStatus, RunStatus};
use tidemill_common::wire::event::kind;

use super::at_end::{EndedRun, NodePath, is_node_end, node_path};
use crate::script::plain;

pub(super) fn is_the_references(it: &EndedRun<'_>) -> Option<String> {
    let (status, expected) = (it.rest.status, it.expected);
    if let Some(wrong) = nodes_differ(it) {
        return Some(wrong);
    }
    if status == RunStatus::Stopped && it.was_stopped {
        return None;
    }
    if status != expected.status {
        let error = it.fields.get("error").map_or("", String::as_str);
        return Some(format!("it is {} ({error}), but should be {}", status.name(), expected.status.name()));
    }
    if status == RunStatus::Failed {
        return None;
    }
    let exceptions = it.fields.get("exceptions").cloned().unwrap_or_default();
    if !expected.is_loose && exceptions != expected.exceptions.to_string() {
        return Some(format!("{exceptions} attempts failed, but {} should have failed", expected.exceptions));
    }
    let outputs = it.events.last().and_then(|end| end.data.get("outputs")).cloned().unwrap_or_default();
    let (outputs, wanted) = (unmarked(&outputs), unmarked(&Json::Object(expected.outputs.clone())));
    (outputs != wanted).then(|| format!("its outputs are {outputs}, but should be {wanted}"))
}

fn nodes_differ(it: &EndedRun<'_>) -> Option<String> {
    let mut attempts: BTreeMap<NodePath, u32> = BTreeMap::new();
    let mut ended: BTreeMap<NodePath, (NodeStatus, u32)> = BTreeMap::new();
    for event in it.events {
        let node_path = node_path(event);
        if event.kind == kind::NODE_RUN_RETRY {
            *attempts.entry(node_path).or_default() += 1;
        } else if is_node_end(event) {
            let status = match event.kind.as_str() {
                kind::NODE_RUN_SUCCEEDED => NodeStatus::Succeeded,
                kind::NODE_RUN_FAILED => NodeStatus::Failed,
                _ => NodeStatus::Exception,
            };
            let tries = attempts.get(&node_path).copied().unwrap_or(0) + 1;
            ended.insert(node_path, (status, tries));
        }
    }
    if it.expected.is_loose {
        return None;
    }
    let wrong = ended.iter().find(|(node_path, end)| it.expected.nodes.get(*node_path) != Some(end));
    if let Some((node_path, (status, tries))) = wrong {
        let wanted = it.expected.nodes.get(node_path);
        return Some(format!(
            "{node_path:?} is {} after {tries} attempts, but should be {wanted:?}",
            status.name()
        ));
    }
    let is_whole = matches!(it.rest.status, RunStatus::Succeeded | RunStatus::PartialSucceeded);
    let missing = it.expected.nodes.keys().find(|node_path| is_whole && !ended.contains_key(*node_path));
    missing.map(|node_path| format!("{node_path:?} never ended"))
}

/// Removes from all texts the mark of the holder that made them.
fn unmarked(value: &Json) -> Json {
    match value {
        Json::String(text) => plain(text).into(),
        Json::Array(items) => items.iter().map(unmarked).collect(),
        Json::Object(map) => map.iter().map(|(key, value)| (key.clone(), unmarked(value))).collect(),
        // The same number may be written in two ways.
        Json::Number(number) => number.as_f64().into(),
        Json::Null | Json::Bool(_) => value.clone(),
    }
}
