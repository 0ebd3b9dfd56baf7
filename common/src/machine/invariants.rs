//! What is always true of a run, each with its number: used by assertions in debug builds, by property tests and by
//! the simulator.

use super::run::{EdgeState, NodeStatus, RunState, RunStatus, derive_edges};

/// An invariant: its id, what it says, and the test.
pub struct Invariant {
    /// For searching.
    pub id: &'static str,
    /// In words.
    pub says: &'static str,
    holds: fn(&RunState) -> bool,
}

/// The table of invariants.
pub const INVARIANTS: &[Invariant] = &[
    Invariant {
        id: "INV-1",
        says: "a job's entry is known exactly while its node is queued or running on a worker",
        holds: jobs_are_known,
    },
    Invariant { id: "INV-2", says: "the state of every edge follows from the nodes", holds: edges_follow },
    Invariant {
        id: "INV-3",
        says: "the ready queue holds exactly the nodes that are ready",
        holds: ready_is_exact,
    },
    Invariant { id: "INV-4", says: "a run that is over has nothing open", holds: over_is_over },
    Invariant { id: "INV-5", says: "a running run has something open", holds: running_is_busy },
    Invariant {
        id: "INV-6",
        says: "a node that began has a taken edge to it, or is the root",
        holds: began_after_upstream,
    },
    Invariant {
        id: "INV-7",
        says: "a text that is being told holds nothing back once its cursor has reached it",
        holds: told_is_not_held,
    },
];

/// The ids of the invariants that do not hold.
pub fn broken(run: &RunState) -> Vec<&'static str> {
    INVARIANTS.iter().filter(|i| !(i.holds)(run)).map(|i| i.id).collect()
}

fn jobs_are_known(run: &RunState) -> bool {
    run.frames.values().flat_map(|f| &f.nodes).all(|n| n.job.is_some() == n.status.has_job())
}

fn edges_follow(run: &RunState) -> bool {
    // A run that failed or was stopped may have ended between a node's end and its edges.
    run.status.is_over() || run.frames.values().all(|f| f.edges == derive_edges(&run.graph, &f.nodes))
}

fn ready_is_exact(run: &RunState) -> bool {
    let ready = run.frames.values().flat_map(|f| &f.nodes).filter(|n| n.status == NodeStatus::Ready).count();
    ready == run.ready.len()
        && run.ready.iter().all(|(f, n)| run.node(f, *n).is_some_and(|n| n.status == NodeStatus::Ready))
}

fn over_is_over(run: &RunState) -> bool {
    !run.status.is_over() || !run.is_busy()
}

fn running_is_busy(run: &RunState) -> bool {
    run.status != RunStatus::Running || run.is_busy()
}

fn began_after_upstream(run: &RunState) -> bool {
    run.frames.values().all(|frame| {
        frame.nodes.iter().zip(&run.graph.nodes).enumerate().all(|(at, (state, node))| {
            state.started_at.is_none()
                || at == run.graph.root.at()
                || node.ins.is_empty()
                || node.ins.iter().any(|e| frame.edges[e.at()] == EdgeState::Taken)
        })
    })
}

fn told_is_not_held(run: &RunState) -> bool {
    let active = run.response.reached.get(run.response.done);
    let Some(crate::graph::TemplatePart::Variable(selector)) =
        active.and_then(|a| run.graph.responses[*a].template.get(run.response.at))
    else {
        return true;
    };
    run.response.streams.get(&super::response::stream_key(selector)).is_none_or(|s| s.held.is_empty())
}
