//! Rewinds the state of an ended run to before one of its nodes, so that a new run can continue from there.
//!
//! An ended run never runs again. For a second try, a new run begins with the rewound state ([`crate::Fact::Import`]).
//! Nodes that ended before the node, or in parallel branches, keep their results. The node and all nodes after it are
//! reset. Nodes that the end of the run cut off are ready again.
//!
//! Variables of the conversation or of a loop that nodes after it have written keep their values, because the earlier
//! values are not stored.

use std::collections::BTreeSet;

use crate::flow::children;
use crate::state::frame::taken;
use crate::state::response::ResponseState;
use crate::state::run::{EdgeState, NodeState, NodeStatus, Responder, RunState, RunStatus, derive_edges};
use tidemill_base::ids::{FramePath, NodeId};
use tidemill_workflow::graph::{Graph, NodeIx};
use tidemill_workflow::nodes::{NodeKind, Phase};

/// The reason why a run cannot be rewound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewindError {
    /// The run has not ended.
    #[error("the run has not ended")]
    Open,
    /// The workflow has no such node.
    #[error("the workflow has no node {0}")]
    UnknownNode(NodeId),
    /// The node has no result to drop.
    #[error("node {0} never began in this run")]
    NeverBegan(NodeId),
    /// The node has succeeded, in a later attempt.
    #[error("node {0} has succeeded since")]
    Succeeded(NodeId),
}

/// Finds the node at which the new run would begin: the node itself or, when its frame is closed, the innermost
/// container around it whose own frame is open. Such a container begins from its start, because closed frames are not
/// stored.
///
/// # Errors
/// See [`RewindError`].
pub fn begins_at(
    run: &RunState,
    frame: &FramePath,
    node: &NodeId,
) -> Result<(FramePath, NodeIx), RewindError> {
    if !run.status.is_over() {
        return Err(RewindError::Open);
    }
    let find = |id: &NodeId| run.find(id).ok_or_else(|| RewindError::UnknownNode(id.clone()));
    let (mut at, mut ix, mut is_itself) = (frame.clone(), find(node)?, true);
    if let Some(child) = &run.graph.node(ix).child {
        // A child node begins with its parent.
        (ix, is_itself) = (child.of, false);
    }
    while !run.frames.contains_key(&at) {
        let Some((container, _)) = at.last() else { break };
        let container = NodeId::from(&*container);
        (ix, at, is_itself) = (find(&container)?, at.parent(), false);
    }
    let id = || run.graph.node(ix).id.clone();
    match run.node(&at, ix).map(|state| state.status) {
        None | Some(NodeStatus::Unknown | NodeStatus::Skipped) => Err(RewindError::NeverBegan(id())),
        Some(NodeStatus::Succeeded) if is_itself => Err(RewindError::Succeeded(id())),
        Some(
            NodeStatus::Ready
            | NodeStatus::Queued
            | NodeStatus::Running
            | NodeStatus::Retrying
            | NodeStatus::Body
            | NodeStatus::Waiting
            | NodeStatus::Succeeded
            | NodeStatus::Failed
            | NodeStatus::Exception
            | NodeStatus::Stopped,
        ) => Ok((at, ix)),
    }
}

/// Makes the state with which a new run begins at a node of an ended run.
///
/// # Errors
/// As [`begins_at`].
pub fn rewind(run: &RunState, frame: &FramePath, node: &NodeId) -> Result<RunState, RewindError> {
    let (frame, node) = begins_at(run, frame, node)?;
    let mut run = run.clone();
    let reset = with_later(&run.graph, node);
    forget(&mut run, &frame, &reset);
    let graph = run.graph.clone();
    let stays = |id: &NodeId| graph.find(id.as_str()).is_some_and(|ix| !is_in(&graph, ix, &reset));
    run.control.warnings.retain_nodes(stays);
    run.status = RunStatus::Running;
    (run.started_at, run.finished_at, run.error) = (None, None, None);
    reopen(&mut run, &frame, node);
    children::reset_all(&mut run);
    settle(&mut run);
    run.pauses.clear();
    run.control.pausing.clear();
    unfire(&mut run);
    run.derive();
    run.ready = ready(&run);
    reset_response(&mut run);
    Ok(run)
}

/// Finds the node and every node that can be reached from it, with their children. None of them can have begun before
/// the node had ended, because a join waits for all its edges.
fn with_later(graph: &Graph, node: NodeIx) -> BTreeSet<NodeIx> {
    let (mut found, mut open) = (BTreeSet::from([node]), vec![node]);
    while let Some(next) = open.pop() {
        for edge in &graph.node(next).outs {
            let target = graph.edge(*edge).target;
            if found.insert(target) {
                open.push(target);
            }
        }
    }
    let inside: Vec<NodeIx> = found.iter().flat_map(|ix| graph.node(*ix).children.iter().copied()).collect();
    found.extend(inside);
    found
}

/// Removes everything that these nodes have left in a frame, and the frames inside them.
fn forget(run: &mut RunState, frame: &FramePath, nodes: &BTreeSet<NodeIx>) {
    let graph = run.graph.clone();
    let is_gone = |path: &FramePath| {
        path.outwards().any(|at| {
            at.parent() == *frame
                && at.last().and_then(|(id, _)| graph.find(&id)).is_some_and(|ix| nodes.contains(&ix))
        })
    };
    run.frames.retain(|path| !is_gone(path));
    run.containers.retain(|(path, ix), _| !(is_gone(path) || path == frame && nodes.contains(ix)));
    let pool = run.pool_frame(frame);
    if let Some(open) = run.frames.get_mut(&pool) {
        open.variables.retain(|id, _| graph.find(id.as_str()).is_none_or(|ix| !is_in(&graph, ix, nodes)));
    }
    hide_messages(run, frame, nodes);
    clear_loop_ends(run, frame, nodes);
    let gone_keys: Vec<String> = nodes
        .iter()
        .map(|ix| &graph.node(*ix).id)
        .flat_map(|id| {
            // The common beginning of the paths of all frames of a container.
            let first = frame.child(id, 0).to_string();
            [format!("{frame}/{id}"), first[..first.len() - 1].to_string()]
        })
        .collect();
    let is_answer_gone = |responder: &Responder| match responder {
        Responder::Root(ix) => frame.is_root() && nodes.contains(ix),
        Responder::Nested(key) => {
            gone_keys.iter().any(|gone| **key == **gone || gone.ends_with('#') && key.starts_with(&**gone))
        }
    };
    for open in run.frames.values_mut() {
        open.responded.retain(|responder| !is_answer_gone(responder));
    }
    let responders = run.frames.values().flat_map(|open| &open.responded);
    let kept: BTreeSet<String> = responders.filter_map(nested).collect();
    run.nested.retain(|key, _| kept.contains(&**key));
    if let Some(open) = run.frames.get_mut(frame) {
        nodes.iter().for_each(|ix| open.nodes[ix.at()] = NodeState::default());
        if open.nodes.iter().all(|state| state.status != NodeStatus::Failed) {
            open.error = None;
        }
    }
}

/// Hides the messages that these nodes, or frames inside them, have added. Their other changes of lists, their records
/// and their fields of `rt` stay.
fn hide_messages(run: &mut RunState, frame: &FramePath, nodes: &BTreeSet<NodeIx>) {
    let graph = run.graph.clone();
    let Some(messages) = &mut run.messages else { return };
    let is_gone = |by: &str| {
        let Some((path, node)) = by.rsplit_once('/') else { return false };
        let path = FramePath::from(path);
        let is_one = |id: &str| graph.find(id).is_some_and(|ix| nodes.contains(&ix));
        let within = path.outwards().find(|at| at.parent() == *frame);
        (path == *frame && is_one(node))
            || within.and_then(|at| at.last().map(|(id, _)| is_one(&id))).unwrap_or(false)
    };
    for list in messages.lists.values_mut() {
        list.hide(is_gone);
    }
}

/// Returns the key of a responder below the root.
fn nested(responder: &Responder) -> Option<String> {
    match responder {
        Responder::Root(_) => None,
        Responder::Nested(key) => Some(key.to_string()),
    }
}

/// True when a node is one of these or is in the body of one.
fn is_in(graph: &Graph, node: NodeIx, nodes: &BTreeSet<NodeIx>) -> bool {
    std::iter::successors(Some(node), |ix| graph.node(*ix).parent).any(|ix| nodes.contains(&ix))
}

/// Clears the mark that a loop is to end, if only loop-ends that are reset have set it. Loop-ends inside a container
/// that begins again count as reached, because its closed frames are not stored.
fn clear_loop_ends(run: &mut RunState, frame: &FramePath, nodes: &BTreeSet<NodeIx>) {
    let graph = run.graph.clone();
    let ends = |ix: &NodeIx| graph.node(*ix).kind == NodeKind::LoopEnd;
    let all: Vec<NodeIx> = (0..).map(NodeIx).take(graph.nodes.len()).filter(ends).collect();
    let is_reached =
        |path: &FramePath, ix| run.node(path, ix).is_some_and(|state| state.status == NodeStatus::Succeeded);
    let mut rounds = Vec::new();
    for end in all.iter().filter(|ix| is_in(&graph, **ix, nodes)) {
        let Some(target) = graph.node(*end).loop_id else { continue };
        let id = &graph.node(target).id;
        let round = frame.outwards().find(|path| path.last().is_some_and(|(of, _)| of == id.as_str()));
        let Some(round) = round.filter(|_| !nodes.contains(end) || is_reached(frame, *end)) else { continue };
        let mut others = run.frames.keys().filter(|path| path.outwards().any(|at| at == round));
        let stays = others.any(|path| {
            let is_other = |ix: &&NodeIx| !(path == frame && nodes.contains(*ix));
            let of_loop = all.iter().filter(|ix| graph.node(**ix).loop_id == Some(target));
            of_loop.filter(is_other).any(|ix| is_reached(path, *ix))
        });
        rounds.push((round, stays));
    }
    for (round, stays) in rounds {
        if let Some(open) = run.frames.get_mut(&round) {
            open.loop_end = stays;
        }
    }
}

/// Restores the nodes that the end of the run cut off. The node itself, and failed nodes of the root frame, become
/// ready: with a failed node left, the new run could not end properly.
fn reopen(run: &mut RunState, frame: &FramePath, node: NodeIx) {
    for (path, open) in run.frames.iter_mut() {
        for (at, state) in open.nodes.iter_mut().enumerate() {
            let is_first = path == frame && at == node.at();
            if is_first || (path.is_root() && state.status == NodeStatus::Failed) {
                *state = NodeState { status: NodeStatus::Ready, ..NodeState::default() };
            } else if state.status == NodeStatus::Stopped {
                cut_off(state);
            }
        }
    }
}

fn cut_off(state: &mut NodeState) {
    let status = match state.body.as_ref().map(|body| body.phase) {
        // The container was between two phases.
        Some(None) => NodeStatus::Body,
        Some(Some(Phase::Check | Phase::Collect)) => NodeStatus::Ready,
        Some(Some(Phase::Open)) | None => {
            *state = NodeState { status: NodeStatus::Ready, ..NodeState::default() };
            return;
        }
    };
    (state.status, state.delivery, state.finished_at, state.job) = (status, 0, None, None);
}

/// Decides joins that are still open. A run may end after the end of a node and before its joins are decided, and no
/// later step would look at them.
fn settle(run: &mut RunState) {
    let graph = run.graph.clone();
    for frame in run.frames.values_mut() {
        loop {
            let edges = derive_edges(&graph, &frame.nodes);
            let decided = graph.nodes.iter().enumerate().find_map(|(at, node)| {
                let is_open = frame.nodes[at].status == NodeStatus::Unknown && !node.ins.is_empty();
                let is_known = |state: EdgeState| state != EdgeState::Unknown;
                if !is_open || !node.ins.iter().all(|edge| is_known(edges[edge.at()])) {
                    return None;
                }
                let any = node.ins.iter().any(|edge| edges[edge.at()] == EdgeState::Taken);
                Some((at, if any { NodeStatus::Ready } else { NodeStatus::Skipped }))
            });
            let Some((at, status)) = decided else { break };
            frame.nodes[at].status = status;
        }
    }
}

/// Lets breakpoints fire again whose node is to end again.
fn unfire(run: &mut RunState) {
    let has_ended = |id: &str| {
        let state = run.graph.find(id).and_then(|ix| run.node(&FramePath::root(), ix));
        state.is_some_and(|state| state.finished_at.is_some())
    };
    let again: Vec<usize> = (run.control.fired.iter().copied())
        .filter(|at| run.head.commands.get(*at).is_none_or(|command| !has_ended(&command.after)))
        .collect();
    again.iter().for_each(|at| _ = run.control.fired.remove(at));
}

fn ready(run: &RunState) -> std::collections::VecDeque<(FramePath, NodeIx)> {
    let mut found = std::collections::VecDeque::new();
    for (path, frame) in &run.frames {
        for (at, state) in frame.nodes.iter().enumerate() {
            if state.status == NodeStatus::Ready {
                found.push_back((path.clone(), NodeIx(u32::try_from(at).unwrap_or(u32::MAX))));
            }
        }
    }
    found
}

/// Resets the streamed answers. The new run has its own event stream, so its answers are sent from their beginning, in
/// the same order as far as they are reached.
fn reset_response(run: &mut RunState) {
    let graph = run.graph.clone();
    let begins = run.root();
    let mut reached = std::mem::take(&mut run.response.reached);
    let root = run.frames.root();
    reached.retain(|at| graph.responses[*at].is_reached(&graph, begins, taken(&root.edges)));
    run.response = ResponseState { reached, ..ResponseState::default() };
}
