//! The stored form of a node's state and of a variable.

use std::sync::Arc;

use serde_json::Value as Json;

use super::WHAT;
use crate::WireError;
use crate::codec::fields::Fields;
use crate::codec::text::{ObjectText, put_stored};
use crate::record::{read_record, write_record};
use crate::state::frames;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{FramePath, NodeId, RunId};
use tidemill_base::value::{JsonMap, Stored};
use tidemill_engine::state::clock::Clock;
use tidemill_engine::state::cost::Cost;
use tidemill_engine::state::run::{NodeState, NodeStatus, OpenCall, PendingEnd, RunState};
use tidemill_workflow::graph::DEFAULT_QUEUE;

/// Marks a variable of an outer frame that an item must not see.
pub(super) const HIDDEN: &str = r#"{"$tm":"hidden"}"#;

/// Writes a node's state. `queue` holds its job, if it has one.
pub(crate) fn write_node(object: &mut ObjectText, node: &NodeState, queue: &str) {
    object.word("status", node.status.name());
    if node.attempt != 1 {
        object.number("attempt", node.attempt);
    }
    if let Some(job) = node.job {
        object.entry("job", job);
        // Stored so that the job can be found even when the workflow is unreadable.
        if queue != DEFAULT_QUEUE {
            object.text("queue", queue);
        }
    }
    if node.delivery > 0 {
        object.number("delivery", node.delivery);
    }
    if let Some(at) = node.started_at {
        object.number("started_at", at.micros());
    }
    if let Some(at) = node.finished_at {
        object.number("finished_at", at.micros());
    }
    if node.clock != Clock::default() {
        object.number("began", node.clock.at.micros());
        object.number("idle", node.clock.idle);
    }
    if let Some(handle) = &node.handle {
        object.text("handle", handle);
    }
    if let Some(error) = &node.error {
        object.text("error", error);
    }
    if let Some(worker) = &node.worker {
        object.text("worker", worker);
    }
    if node.failures > 0 {
        object.number("failures", node.failures);
    }
    if let Some(reason) = &node.parked {
        object.text("parked", reason);
    }
    if let Some(call) = &node.call {
        object.text(if call.ended { "called" } else { "calls" }, &call.run.to_string());
    }
    if !node.side_calls.is_empty() {
        object.value("side_calls", &node.side_calls);
    }
    if let Some(ended) = &node.ended {
        object.open("ended");
        if ended.failed {
            object.value("failed", &true);
        }
        write_record(object, &ended.record);
        object.close();
    }
    frames::write_spent(object, &node.cost);
    if node.charged != Cost::default() {
        object.open("charged");
        frames::write_spent(object, &node.charged);
        object.close();
    }
    if let Some(body) = &node.body {
        frames::write_body(object, body);
    }
    frames::write_tally(object, &node.inside);
}

/// Reads a node's state.
///
/// # Errors
/// Not JSON, or an unknown status.
pub fn node_from_json(text: &str) -> Result<NodeState, WireError> {
    let map: JsonMap = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    let number = |key: &str| map.get(key).and_then(Json::as_u64);
    let small = |key: &str| number(key).and_then(|n| u32::try_from(n).ok());
    let words = |key: &str| map.get(key).and_then(Json::as_str);
    let time = |key: &str| map.get(key).and_then(Json::as_i64).map(Timestamp::from_micros);
    let status = words("status").unwrap_or("");
    Ok(NodeState {
        status: NodeStatus::from_name(status)
            .ok_or_else(|| WireError::Unknown { what: "a node's status", kind: status.to_string() })?,
        attempt: small("attempt").unwrap_or(1),
        job: words("job").and_then(|t| t.parse().ok()),
        delivery: small("delivery").unwrap_or(0),
        started_at: time("started_at"),
        finished_at: time("finished_at"),
        clock: clock(&map).unwrap_or_default(),
        handle: words("handle").map(Arc::from),
        error: words("error").map(Arc::from),
        worker: words("worker").map(Arc::from),
        failures: small("failures").unwrap_or(0),
        cost: frames::read_spent(&map),
        charged: map.get("charged").and_then(Json::as_object).map(frames::read_spent).unwrap_or_default(),
        parked: words("parked").map(Arc::from),
        call: open_call(&map),
        side_calls: side_calls(&map),
        ended: map.get("ended").and_then(Json::as_object).map(ended).transpose()?,
        body: frames::read_body(map.get("body"))?,
        inside: frames::read_tally(map.get("inside")),
    })
}

/// The clock of the run when the present delivery began.
fn clock(map: &JsonMap) -> Option<Clock> {
    let at = Timestamp::from_micros(map.get("began")?.as_i64()?);
    Some(Clock { at, idle: map.get("idle")?.as_i64()? })
}

/// The node's end, for hooks that have not run yet.
fn ended(map: &JsonMap) -> Result<Box<PendingEnd>, WireError> {
    let failed = map.get("failed").and_then(Json::as_bool).unwrap_or(false);
    let record = Box::new(read_record(&mut Fields::from(map.clone()))?);
    Ok(Box::new(PendingEnd { failed, record }))
}

/// The sub-workflow run of the node: `calls` while it runs, `called` once it has ended.
fn open_call(map: &JsonMap) -> Option<Box<OpenCall>> {
    let of = |key: &str, ended| Some(OpenCall { run: map.get(key)?.as_str()?.parse().ok()?, ended });
    of("calls", false).or_else(|| of("called", true)).map(Box::new)
}

/// The sub-workflow runs that the job has called and continues beside. Older versions do not write them.
fn side_calls(map: &JsonMap) -> Vec<RunId> {
    let runs = map.get("side_calls").and_then(Json::as_array).into_iter().flatten();
    runs.filter_map(|run| run.as_str()?.parse().ok()).collect()
}

/// The stored form of a variable.
pub(crate) enum VariableText<'a> {
    Stored(&'a Stored),
    /// An item must not see it.
    Hidden,
}

impl VariableText<'_> {
    /// Appends its JSON to a text.
    pub(crate) fn put(self, text: &mut String) {
        match self {
            Self::Stored(stored) => put_stored(text, stored),
            Self::Hidden => text.push_str(HIDDEN),
        }
    }
}

/// A variable for the state; `None` deletes it.
pub(crate) fn variable_text<'a>(
    run: &'a RunState,
    frame: &FramePath,
    node: &str,
    name: &str,
) -> Option<VariableText<'a>> {
    let open = run.frames.get(frame)?;
    match open.get(node, name) {
        Some(stored) => Some(VariableText::Stored(stored)),
        None if open.hidden.contains(&(NodeId::from(node), name.to_string())) => Some(VariableText::Hidden),
        None => None,
    }
}
