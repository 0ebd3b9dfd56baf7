//! Invariants of the state of a run, each with an id. They are checked by assertions in debug builds, by property tests
//! and by the simulator; in every build the import of a snapshot refuses a state that breaks one, because a client sends it.

use std::collections::BTreeSet;

use crate::state::pause::PauseStatus;
use crate::state::run::{EdgeState, Frame, NodeState, NodeStatus, RunState, RunStatus, derive_edges};
use crate::state::totals::Sums;
use tidemill_base::ids::FramePath;
use tidemill_base::limits;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::Phase;

/// An invariant: its id, its text, and its test.
pub struct Invariant {
    /// `INV-<n>`, for searching.
    pub id: &'static str,
    /// The invariant in words.
    pub says: &'static str,
    holds: fn(&RunState) -> bool,
}

/// The table of invariants.
pub const INVARIANTS: &[Invariant] = &[
    Invariant {
        id: "INV-1",
        says: "a node has the entry of a job exactly while it is queued or running, and a child node never has one",
        holds: jobs_are_known,
    },
    Invariant { id: "INV-2", says: "the state of every edge follows from the nodes", holds: edges_follow },
    Invariant {
        id: "INV-3",
        says: "the ready queue holds exactly the nodes that are ready",
        holds: ready_is_exact,
    },
    Invariant { id: "INV-4", says: "a run that has ended has nothing open", holds: ended_has_nothing_open },
    Invariant { id: "INV-5", says: "a running run has an open node", holds: running_is_busy },
    Invariant {
        id: "INV-6",
        says: "a node that has begun is the start node or has a taken edge to it",
        holds: began_after_upstream,
    },
    Invariant {
        id: "INV-7",
        says: "a text that the response cursor has reached holds no chunks back",
        holds: reached_text_is_not_held,
    },
    Invariant {
        id: "INV-8",
        says: "the counters of the run and of its frames equal a new count",
        holds: counters_are_right,
    },
    Invariant {
        id: "INV-9",
        says: "every open frame below the root was opened by its container and not closed",
        holds: frames_have_containers,
    },
    Invariant {
        id: "INV-10",
        says: "a node waits for an answer exactly while a pending pause names it",
        holds: waits_are_pauses,
    },
    Invariant { id: "INV-11", says: "a paused run has no job", holds: paused_has_no_job },
    Invariant {
        id: "INV-12",
        says: "the state has an open container from its opening to its end, with a result of each closed frame",
        holds: containers_are_known,
    },
    Invariant {
        id: "INV-13",
        says: "a child node is open only while its parent is open",
        holds: children_have_parents,
    },
    Invariant {
        id: "INV-14",
        says: "a node whose end waits for its hooks is ready or has a job",
        holds: ends_wait_for_hooks,
    },
    Invariant {
        id: "INV-15",
        says: "only a node with a job has sub-workflow runs beside it, and a bounded number",
        holds: side_calls_have_jobs,
    },
];

/// Returns the ids of the invariants that do not hold.
pub fn broken(run: &RunState) -> Vec<&'static str> {
    contradictions(run).map(|invariant| invariant.id).collect()
}

/// Returns the invariants that do not hold.
pub fn contradictions(run: &RunState) -> impl Iterator<Item = &'static Invariant> {
    INVARIANTS.iter().filter(|invariant| !(invariant.holds)(run))
}

fn side_calls_have_jobs(run: &RunState) -> bool {
    run.frames.values().flat_map(|f| &f.nodes).all(|state| {
        state.side_calls.is_empty()
            || (state.status.has_job() && state.side_calls.len() <= limits::SIDE_CALLS_MAX)
    })
}

fn jobs_are_known(run: &RunState) -> bool {
    run.frames
        .values()
        .flat_map(|f| f.nodes.iter().zip(&run.graph.nodes))
        .all(|(state, node)| state.job.is_some() == (state.status.has_job() && node.child.is_none()))
}

fn edges_follow(run: &RunState) -> bool {
    // A run that failed or was stopped may have ended after a node's end and before its edges were decided.
    run.status.is_over() || run.frames.values().all(|f| f.edges == derive_edges(&run.graph, &f.nodes))
}

fn ready_is_exact(run: &RunState) -> bool {
    let ready = run.frames.values().flat_map(|f| &f.nodes).filter(|n| n.status == NodeStatus::Ready).count();
    ready == run.ready.len()
        && run.ready.iter().all(|(f, n)| run.node(f, *n).is_some_and(|n| n.status == NodeStatus::Ready))
}

fn ended_has_nothing_open(run: &RunState) -> bool {
    !run.status.is_over() || !run.is_busy()
}

fn running_is_busy(run: &RunState) -> bool {
    run.status != RunStatus::Running || run.is_busy()
}

fn began_after_upstream(run: &RunState) -> bool {
    run.frames.values().all(|frame| {
        frame.nodes.iter().zip(&run.graph.nodes).enumerate().all(|(at, (state, node))| {
            state.started_at.is_none()
                || at == run.root().at()
                || node.ins.is_empty()
                || node.ins.iter().any(|e| frame.edges[e.at()] == EdgeState::Taken)
        })
    })
}

fn reached_text_is_not_held(run: &RunState) -> bool {
    let active = run.response.reached.get(run.response.done);
    let Some(tidemill_workflow::graph::TemplatePart::Variable(selector)) =
        active.and_then(|a| run.graph.responses[*a].template.get(run.response.at))
    else {
        return true;
    };
    run.response
        .streams
        .get(&tidemill_workflow::graph::stream_key(selector))
        .is_none_or(|s| s.held.is_empty())
}

/// Iterates over the nodes of a frame with their indexes.
fn places(frame: &Frame) -> impl Iterator<Item = (NodeIx, &NodeState)> {
    frame.nodes.iter().enumerate().map(|(at, node)| (NodeIx(u32::try_from(at).unwrap_or(u32::MAX)), node))
}

/// Finds all nodes of a run that pass the test.
fn nodes(run: &RunState, test: impl Fn(&NodeState) -> bool) -> BTreeSet<(FramePath, NodeIx)> {
    let of_frame = |(path, frame): (&FramePath, &Frame)| {
        let found = places(frame).filter(|(_, node)| test(node)).map(|(ix, _)| (path.clone(), ix));
        found.collect::<Vec<_>>()
    };
    run.frames.iter().flat_map(of_frame).collect()
}

fn counters_are_right(run: &RunState) -> bool {
    let open = |frame: &Frame| frame.nodes.iter().filter(|node| node.status.is_open()).count();
    run.sums == Sums::of(run) && run.frames.values().all(|frame| frame.open == open(frame))
}

fn frames_have_containers(run: &RunState) -> bool {
    // The frames that were open when a run ended stay in its state.
    if run.status.is_over() {
        return true;
    }
    let below = run.frames.keys().filter(|path| !path.is_root());
    let is_opened = |path: &FramePath| {
        let Some((id, index)) = path.last() else { return false };
        let container = run.graph.find(&id).and_then(|ix| run.node(&path.parent(), ix));
        let body =
            container.filter(|node| node.status == NodeStatus::Body).and_then(|node| node.body.as_ref());
        body.is_some_and(|body| body.phase.is_none() && index < body.next)
    };
    let mut count = 0;
    let all = below.inspect(|_| count += 1).all(is_opened);
    let bodies = run.frames.values().flat_map(|frame| &frame.nodes).filter_map(|node| node.body.as_ref());
    all && count == bodies.map(|body| body.open() as usize).sum::<usize>()
}

fn waits_are_pauses(run: &RunState) -> bool {
    let named: BTreeSet<_> = run.pauses.values().map(|pause| (pause.frame.clone(), pause.node)).collect();
    named.len() == run.pauses.len()
        && run.pauses.values().all(|pause| pause.status == PauseStatus::Pending)
        && named == nodes(run, |node| node.status == NodeStatus::Waiting)
}

fn paused_has_no_job(run: &RunState) -> bool {
    run.status != RunStatus::Paused
        || run.frames.values().flat_map(|frame| &frame.nodes).all(|n| n.job.is_none())
}

fn containers_are_known(run: &RunState) -> bool {
    // Before it is opened, a container has only the phase for which a worker opens it.
    let is_opened = |node: &NodeState| node.body.as_ref().is_some_and(|body| body.phase != Some(Phase::Open));
    let known: BTreeSet<_> = run.containers.keys().cloned().collect();
    run.status.is_over()
        || known == nodes(run, is_opened)
            && run.containers.iter().all(|((frame, node), container)| {
                let body = run.node(frame, *node).and_then(|node| node.body.as_ref());
                body.is_some_and(|body| container.closed() == body.closed as usize)
            })
}

fn ends_wait_for_hooks(run: &RunState) -> bool {
    let nodes = run.frames.values().flat_map(|frame| &frame.nodes);
    nodes
        .filter(|node| node.ended.is_some())
        .all(|node| node.status == NodeStatus::Ready || node.status.has_job())
}

fn children_have_parents(run: &RunState) -> bool {
    run.frames.values().all(|frame| {
        frame.nodes.iter().zip(&run.graph.nodes).all(|(state, node)| match &node.child {
            Some(child) if state.status.is_open() => frame.nodes[child.of.at()].status.is_open(),
            Some(_) | None => true,
        })
    })
}
