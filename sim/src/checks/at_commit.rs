//! What is looked at after each commit, for each run that it wrote.

use std::collections::BTreeMap;

use tidemill_common::graph::Node;
use tidemill_common::ids::EntryId;
use tidemill_common::machine::invariants;
use tidemill_common::machine::run::RunState;
use tidemill_common::nodes::ExecutionType;
use tidemill_common::wire::event::EventRecord;

/// A run that a commit wrote.
pub(super) struct Touched<'a> {
    /// The run as it lies in the store.
    pub(super) rest: &'a RunState,
    /// The number of the last event before.
    pub(super) last_seq: u64,
    /// Events that the commit added.
    pub(super) fresh: &'a [EventRecord],
    /// How many commits wrote each field of a variable, this one included.
    pub(super) written: &'a BTreeMap<String, u32>,
    /// Its jobs, waiting or held.
    pub(super) jobs: &'a [EntryId],
    /// Its timers.
    pub(super) timers: &'a [String],
}

pub(super) fn events_count_on(it: &Touched<'_>) -> Option<String> {
    let expected = it.last_seq + 1..;
    let wrong = expected.zip(it.fresh).find(|(seq, event)| *seq != event.seq);
    wrong.map(|(seq, event)| format!("event {} ({}) stands where {seq} should", event.seq, event.kind))
}

pub(super) fn state_is_sound(it: &Touched<'_>) -> Option<String> {
    let broken = invariants::broken(it.rest);
    (!broken.is_empty()).then(|| broken.join(", "))
}

pub(super) fn variables_are_written_once(it: &Touched<'_>) -> Option<String> {
    let twice = it.written.iter().find(|(field, commits)| **commits > 1 && is_written_once(it.rest, field));
    twice.map(|(field, commits)| format!("{field} was written by {commits} commits"))
}

/// Whether a field holds the output of a node that runs once: of the root frame, and no container (whose variables are
/// there to change) nor part of a loop's body (which shares its parent's pool, and writes again in every round).
fn is_written_once(run: &RunState, field: &str) -> bool {
    let Some((id, _)) = field.strip_prefix("v:/").and_then(|rest| rest.split_once('.')) else { return false };
    let Some(node) = run.graph.find(id).map(|ix| run.graph.node(ix)) else { return false };
    // The names of bodies begin with those of their containers; see `draw`.
    let in_body = run
        .graph
        .nodes
        .iter()
        .any(|other| is_container(other) && other.id != node.id && id.starts_with(other.id.as_str()));
    !in_body && !is_container(node)
}

fn is_container(node: &Node) -> bool {
    node.kind.spec().execution == ExecutionType::Container
}

pub(super) fn nothing_outlives_its_run(it: &Touched<'_>) -> Option<String> {
    if !it.rest.status.is_over() || (it.jobs.is_empty() && it.timers.is_empty()) {
        return None;
    }
    Some(format!("{} is {}, and there are {:?} {:?}", it.rest.id, it.rest.status.name(), it.jobs, it.timers))
}
