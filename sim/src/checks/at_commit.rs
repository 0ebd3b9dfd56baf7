//! Checks after each commit, for each run that the commit wrote.

use std::collections::BTreeMap;

use tidemill_common::graph::Node;
use tidemill_common::ids::EntryId;
use tidemill_common::machine::state::invariants;
use tidemill_common::machine::state::run::RunState;
use tidemill_common::nodes::ExecutionType;
use tidemill_common::wire::event::EventRecord;

/// A run that a commit has written.
pub(super) struct Touched<'a> {
    /// The run as it is stored.
    pub(super) rest: &'a RunState,
    /// The number of the last event before this commit.
    pub(super) last_seq: u64,
    /// Events that this commit added.
    pub(super) fresh: &'a [EventRecord],
    /// Number of commits that wrote each field of a variable, including this one.
    pub(super) written: &'a BTreeMap<String, u32>,
    /// Jobs of the run, waiting or held.
    pub(super) jobs: &'a [EntryId],
    pub(super) timers: &'a [String],
}

pub(super) fn events_count_on(it: &Touched<'_>) -> Option<String> {
    let expected = it.last_seq + 1..;
    let wrong = expected.zip(it.fresh).find(|(seq, event)| *seq != event.seq);
    wrong.map(|(seq, event)| format!("event {} ({}) has the place of event {seq}", event.seq, event.kind))
}

pub(super) fn state_is_sound(it: &Touched<'_>) -> Option<String> {
    let broken = invariants::broken(it.rest);
    (!broken.is_empty()).then(|| broken.join(", "))
}

pub(super) fn variables_are_written_once(it: &Touched<'_>) -> Option<String> {
    let twice = it.written.iter().find(|(field, commits)| **commits > 1 && is_written_once(it.rest, field));
    twice.map(|(field, commits)| format!("{field} was written by {commits} commits"))
}

/// Returns true if the field is the output of a node that runs once. That is a node of the root frame, except
/// containers, whose variables may change, and nodes in a loop's body, which share the parent's pool and write again in
/// every round.
fn is_written_once(run: &RunState, field: &str) -> bool {
    let Some((id, _)) = field.strip_prefix("v:/").and_then(|rest| rest.split_once('.')) else { return false };
    let Some(node) = run.graph.find(id).map(|ix| run.graph.node(ix)) else { return false };
    // Ids of nodes in a body begin with the id of their container; see `draw`.
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
    Some(format!("{} is {}, but still has {:?} {:?}", it.rest.id, it.rest.status.name(), it.jobs, it.timers))
}
