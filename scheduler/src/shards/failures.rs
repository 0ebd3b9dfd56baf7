//! The failures in a commit, as log lines: one for each node and one for the run. They are written after the commit, so
//! each failure appears once.

use tidemill_common::ids::RunId;
use tidemill_common::machine::order::events::{Event, EventKind, NodeEnd};
use tidemill_common::machine::state::run::RunState;

/// Most lines of one commit. An iteration may have thousands of failed items.
const LINES_MAX: usize = 32;

/// The failures of a commit.
#[derive(Debug, Default)]
pub struct Failures {
    lines: Vec<Failure>,
    /// Failures beyond [`LINES_MAX`].
    more: usize,
}

/// A failed node, or a failed run. Contains no values: an error text may quote them.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    run: RunId,
    /// `None` for a run.
    node: Option<FailedNode>,
    /// The class of the node's failure. For a run that of the node that failed it, if that is known.
    class: String,
}

#[derive(Debug, PartialEq, Eq)]
struct FailedNode {
    id: String,
    frame: String,
    /// The worker that failed, if a worker did.
    worker: String,
    /// True when the node's error strategy continued the run.
    is_handled: bool,
}

impl Failures {
    /// Adds the failures in the events of a run.
    pub(crate) fn add(&mut self, run: &RunState, events: &[Event]) {
        let mut class = String::new();
        for event in events {
            if let EventKind::NodeRunFailed(end) = &event.kind {
                class.clone_from(&end.record.error_type);
                self.push(of_node(run, end, false));
            } else if let EventKind::NodeRunException(end) = &event.kind {
                self.push(of_node(run, end, true));
            } else if let EventKind::GraphRunFailed { .. } = &event.kind {
                self.push(Failure { run: run.id, node: None, class: std::mem::take(&mut class) });
            }
        }
    }

    fn push(&mut self, failure: Failure) {
        // A run is always named, because there is only one line of it.
        if self.lines.len() < LINES_MAX || failure.node.is_none() {
            self.lines.push(failure);
        } else {
            self.more += 1;
        }
    }

    /// Writes the lines and forgets them.
    pub(crate) fn log(&mut self) {
        for Failure { run, node, class } in self.lines.drain(..) {
            match node {
                Some(FailedNode { id, frame, worker, is_handled }) => {
                    tracing::warn!(%run, node = id, frame, class, worker, is_handled, "a node failed");
                }
                None => tracing::warn!(%run, class, "a run failed"),
            }
        }
        if self.more > 0 {
            tracing::warn!(nodes = std::mem::take(&mut self.more), "more nodes failed in the same commit");
        }
    }
}

fn of_node(run: &RunState, end: &NodeEnd, is_handled: bool) -> Failure {
    let id = run.graph.node(end.about.node).id.to_string();
    let (frame, worker) = (end.about.frame.to_string(), end.record.worker.clone());
    let node = FailedNode { id, frame, worker, is_handled };
    Failure { run: run.id, node: Some(node), class: end.record.error_type.clone() }
}
