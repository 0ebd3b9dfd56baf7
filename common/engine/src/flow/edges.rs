//! Decides edges: takes or skips them, passes skips on, and makes nodes ready whose edges are all decided.

use crate::flow::{ready, response, warnings};
use crate::state::run::{EdgeState, NodeStatus};
use crate::state::warnings::dead_end;
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_workflow::graph::{EdgeIx, NodeIx};
use tidemill_workflow::nodes::{ExecutionType, FAIL_BRANCH_HANDLE, NodeKind, SOURCE_HANDLE};

use crate::order::events::EventKind;

/// Decides the edges that leave a node. For a branch, the edges that are not selected are skipped first, then the
/// selected ones are taken, as on Dify.
pub(crate) fn decide(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, handle: &str) {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    let branch = spec.is_branch();
    let selected = |edge: &&EdgeIx| !branch || &*graph.edge(**edge).handle == handle;
    for edge in spec.outs.iter().filter(|e| !selected(e)) {
        skip(cx, frame, *edge);
    }
    let mut leads_on = false;
    for edge in spec.outs.iter().filter(selected) {
        leads_on = true;
        take(cx, frame, *edge);
    }
    if branch && !leads_on {
        note_dead_end(cx, node, handle);
    }
}

/// Notes that a branch was chosen which no edge follows, because the author may have forgotten the edge. Some such ends
/// are meant: a node without any edge, the success of a node that only has a fail branch, a branch that ends the round
/// of a loop.
fn note_dead_end(cx: &mut Step<'_>, node: NodeIx, handle: &str) {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    let is_end = match handle {
        FAIL_BRANCH_HANDLE => false,
        SOURCE_HANDLE if spec.kind.spec().execution != ExecutionType::Branch => true,
        _ => spec.outs.is_empty(),
    };
    let ends_round = spec.parent.is_some_and(|parent| graph.node(parent).kind == NodeKind::Loop);
    if !is_end && !ends_round {
        warnings::note(cx, Some(node), dead_end(handle));
    }
}

fn take(cx: &mut Step<'_>, frame: &FramePath, edge: EdgeIx) {
    set(cx, frame, edge, EdgeState::Taken);
    if frame.is_root() {
        response::edge_taken(cx, edge);
    }
    let target = cx.run.graph.edge(edge).target;
    if join(cx, frame, target) == Join::Ready {
        ready::make_ready(cx, frame, target);
    }
}

/// Skips all start nodes but the one that begins the run, with all nodes that only they lead to. No event is emitted,
/// because Dify does this while it builds the graph.
pub(crate) fn skip_other_roots(cx: &mut Step<'_>, root: NodeIx) {
    let graph = cx.run.graph.clone();
    let frame = FramePath::root();
    for (at, node) in graph.nodes.iter().enumerate() {
        let is_root = node.kind.spec().execution == ExecutionType::Root && node.parent.is_none();
        if is_root && at != root.at() {
            let other = NodeIx(u32::try_from(at).unwrap_or(u32::MAX));
            cx.update(&frame, other, |state| state.status = NodeStatus::Skipped);
            skip_all(cx, &frame, node.outs.iter().rev().copied().collect(), Emit::Nothing);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Emit {
    EachEdge,
    Nothing,
}

/// Skips an edge and everything that only it leads to.
fn skip(cx: &mut Step<'_>, frame: &FramePath, edge: EdgeIx) {
    skip_all(cx, frame, vec![edge], Emit::EachEdge);
}

/// Skips edges and everything that only they lead to. Without recursion, because a long chain would use up the stack.
fn skip_all(cx: &mut Step<'_>, frame: &FramePath, mut open: Vec<EdgeIx>, emit: Emit) {
    let graph = cx.run.graph.clone();
    while let Some(edge) = open.pop() {
        set(cx, frame, edge, EdgeState::Skipped);
        if emit == Emit::EachEdge {
            cx.emit(EventKind::GraphEdgeSkipped(edge));
        }
        let target = graph.edge(edge).target;
        match join(cx, frame, target) {
            Join::Waits => {}
            Join::Ready => ready::make_ready(cx, frame, target),
            Join::Skipped => {
                cx.update(frame, target, |state| state.status = NodeStatus::Skipped);
                // Depth first and in file order, as on Dify: the first outgoing edge is popped next.
                open.extend(graph.node(target).outs.iter().rev());
            }
        }
    }
}

/// Makes the event that a node began.
pub(crate) fn started(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> EventKind {
    let about = cx.about(frame, node);
    EventKind::NodeRunStarted { about, after: predecessor(cx, frame, node) }
}

/// Returns the node after whose end this one was ready, if several edges lead to it: of those with a taken edge the one
/// that ended last. Of those that ended in the same moment it is the last in the file.
fn predecessor(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> Option<NodeIx> {
    let graph = &cx.run.graph;
    let ins = &graph.node(node).ins;
    if ins.len() < 2 {
        return None;
    }
    let frame = cx.run.frames.get(frame)?;
    let taken = ins.iter().filter(|edge| frame.edges[edge.at()] == EdgeState::Taken);
    taken.map(|edge| graph.edge(*edge).source).max_by_key(|source| frame.nodes[source.at()].finished_at)
}

fn set(cx: &mut Step<'_>, frame: &FramePath, edge: EdgeIx, state: EdgeState) {
    if let Some(frame) = cx.run.frames.get_mut(frame) {
        frame.edges[edge.at()] = state;
    }
}

#[derive(PartialEq, Eq)]
enum Join {
    /// An edge to it is not decided, or the node is not `unknown` any more.
    Waits,
    /// Every edge is decided and at least one is taken.
    Ready,
    /// Every edge is skipped.
    Skipped,
}

fn join(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> Join {
    let Some(frame) = cx.run.frames.get(frame) else { return Join::Waits };
    if frame.nodes[node.at()].status != NodeStatus::Unknown {
        return Join::Waits;
    }
    let mut any_taken = false;
    for edge in &cx.run.graph.node(node).ins {
        match frame.edges[edge.at()] {
            EdgeState::Unknown => return Join::Waits,
            EdgeState::Taken => any_taken = true,
            EdgeState::Skipped => {}
        }
    }
    if any_taken { Join::Ready } else { Join::Skipped }
}
