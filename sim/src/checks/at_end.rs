//! Checks when a run has ended, over all its events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use tidemill_common::graph::Graph;
use tidemill_common::machine::state::run::{RunState, RunStatus};
use tidemill_common::nodes::ExecutionType;
use tidemill_common::wire::event::{EventRecord, kind};

use crate::reference::Expected;

/// A run that has ended, with all its events.
pub(super) struct EndedRun<'a> {
    /// The state as it is stored.
    pub(super) rest: &'a RunState,
    /// The fields of the run's hash.
    pub(super) fields: &'a std::collections::HashMap<String, String>,
    /// All events, with the values of blobs put back in.
    pub(super) events: &'a [EventRecord],
    /// The expected outcome.
    pub(super) expected: &'a Expected,
    /// True if a stop was requested.
    pub(super) was_stopped: bool,
}

/// A node in a frame.
pub(super) type NodePath = (String, String);

pub(super) fn node_path(event: &EventRecord) -> NodePath {
    let text = |key: &str| event.data.get(key).and_then(Json::as_str).unwrap_or_default().to_string();
    (text("frame"), text("node_id"))
}

/// Returns true for an event that reports the end of a node.
pub(super) fn is_node_end(event: &EventRecord) -> bool {
    [kind::NODE_RUN_SUCCEEDED, kind::NODE_RUN_FAILED, kind::NODE_RUN_EXCEPTION].contains(&event.kind.as_str())
}

pub(super) fn each_execution_has_one_end(it: &EndedRun<'_>) -> Option<String> {
    let mut starts: BTreeMap<NodePath, u32> = BTreeMap::new();
    let mut ends: BTreeMap<NodePath, u32> = BTreeMap::new();
    for (at, event) in it.events.iter().enumerate() {
        let node_path = node_path(event);
        if event.kind == kind::NODE_RUN_STARTED {
            *starts.entry(node_path).or_default() += 1;
        } else if is_node_end(event) {
            if !starts.contains_key(&node_path) {
                return Some(format!("{node_path:?} ended before it started"));
            }
            *ends.entry(node_path).or_default() += 1;
        } else if event.is_terminal() && at + 1 != it.events.len() {
            return Some(format!("{} follows the end", it.events[at + 1].kind));
        }
    }
    let graph = &it.rest.graph;
    // A node that waits for a person starts again when the person has answered.
    let waits = |id: &str| graph.find(id).is_some_and(|ix| graph.node(ix).kind.wire() == "human-input");
    let often = starts.iter().filter(|((_, id), _)| !waits(id)).chain(&ends).find(|(_, count)| **count > 1);
    often.map(|(node_path, count)| format!("{node_path:?} started or ended {count} times"))
}

pub(super) fn downstream_follows_upstream(it: &EndedRun<'_>) -> Option<String> {
    let graph = &it.rest.graph;
    let mut ended: BTreeSet<NodePath> = BTreeSet::new();
    // Events of skipped edges have no frame.
    let mut skipped: BTreeSet<&str> = BTreeSet::new();
    for event in it.events {
        if event.kind == kind::GRAPH_EDGE_SKIPPED {
            skipped.extend(event.data.get("edge_id").and_then(Json::as_str));
        } else if is_node_end(event) {
            ended.insert(node_path(event));
        } else if event.kind == kind::NODE_RUN_STARTED {
            let (frame, id) = node_path(event);
            if let Some(wrong) = starts_too_early(graph, &frame, &id, &ended, &skipped) {
                return Some(wrong);
            }
        }
    }
    None
}

fn starts_too_early(
    graph: &Graph,
    frame: &str,
    id: &str,
    ended: &BTreeSet<NodePath>,
    skipped: &BTreeSet<&str>,
) -> Option<String> {
    let node = graph.node(graph.find(id)?);
    let edges = node.ins.iter().map(|edge| graph.edge(*edge));
    let mut is_taken = node.ins.is_empty();
    for edge in edges {
        let source = graph.node(edge.source);
        // The start of a body emits no events; it ends as soon as its frame exists.
        let is_hidden = ["iteration-start", "loop-start"].contains(&source.kind.wire());
        let has_ended = is_hidden || ended.contains(&(frame.to_string(), source.id.to_string()));
        is_taken |= has_ended;
        if !has_ended && !skipped.contains(&*edge.id) {
            return Some(format!("{id} in {frame:?} started before {} was decided", source.id));
        }
    }
    (!is_taken).then(|| format!("{id} in {frame:?} started although no edge to it was taken"))
}

pub(super) fn counters_are_the_events(it: &EndedRun<'_>) -> Option<String> {
    let count = |kinds: &[&str]| {
        it.events.iter().filter(|event| kinds.contains(&event.kind.as_str())).count().to_string()
    };
    let field = |name: &str| it.fields.get(name).cloned().unwrap_or_default();
    let failures = count(&[kind::NODE_RUN_RETRY, kind::NODE_RUN_FAILED, kind::NODE_RUN_EXCEPTION]);
    if field("exceptions") != failures {
        return Some(format!("{} failures are counted, but the events show {failures}", field("exceptions")));
    }
    // A run that was cut short may have counted an attempt without emitting its start event.
    let is_whole = matches!(it.rest.status, RunStatus::Succeeded | RunStatus::PartialSucceeded);
    let in_root = |event: &&EventRecord| !event.data.contains_key("frame");
    let events_of = |name: &str| -> Vec<NodePath> {
        it.events.iter().filter(in_root).filter(|event| event.kind == name).map(node_path).collect()
    };
    let (retries, starts): (Vec<NodePath>, BTreeSet<NodePath>) =
        (events_of(kind::NODE_RUN_RETRY), events_of(kind::NODE_RUN_STARTED).into_iter().collect());
    // A node that waited for a person emits another start event after the answer; that is not another attempt.
    let steps = (retries.len() + starts.len()).to_string();
    let counted = field("steps");
    (is_whole && counted != steps)
        .then(|| format!("{counted} steps are counted, but the events show {steps}"))
}

pub(super) fn shown_text_is_whole(it: &EndedRun<'_>) -> Option<String> {
    if !matches!(it.rest.status, RunStatus::Succeeded | RunStatus::PartialSucceeded) {
        return None;
    }
    let mut shown: BTreeMap<Vec<&str>, String> = BTreeMap::new();
    let mut made: BTreeMap<Vec<&str>, &str> = BTreeMap::new();
    let text = |value: Option<&Json>| value.and_then(Json::as_str).unwrap_or_default().to_string();
    for event in it.events.iter().filter(|event| event.is_in_answer()) {
        let selector: Vec<&str> = event
            .data
            .get("selector")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        if event.kind == kind::NODE_RUN_STREAM_CHUNK {
            let chunk = text(event.data.get("chunk"));
            let from = event.data.get("from").and_then(Json::as_u64).and_then(|n| usize::try_from(n).ok());
            let chunk = chunk.get(from.unwrap_or(0)..).unwrap_or_default();
            shown.entry(selector).or_default().push_str(chunk);
        } else if event.kind == kind::NODE_RUN_STREAM_REPLACED {
            shown.insert(selector, text(event.data.get("text")));
        } else if event.kind == kind::NODE_RUN_SUCCEEDED
            && !event.data.contains_key("frame")
            && let Some(id) = event.data.get("node_id").and_then(Json::as_str)
            && let Some(Json::String(output)) =
                event.data.get("outputs").and_then(|outputs| outputs.get("text"))
        {
            made.insert(vec![id, "text"], output);
        }
    }
    // Two responses may show the same text, each once.
    let is_whole = |text: &str, shown: &str| !text.is_empty() && shown.replace(text, "").is_empty();
    let torn = made.iter().find_map(|(selector, text)| {
        let shown = shown.get(selector)?;
        (!is_whole(text, shown)).then(|| format!("of {selector:?} readers saw {shown:?}, but it is {text:?}"))
    });
    torn.filter(|_| {
        it.rest.graph.nodes.iter().any(|node| node.kind.spec().execution == ExecutionType::Response)
    })
}
