//! Effects on child nodes of what happens to their parent.

use crate::flow::response;
use crate::order::events::{EventKind, NodeEnd};
use crate::state::record::Record;
use crate::state::run::{NodeState, NodeStatus, RunState};
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_workflow::graph::NodeIx;

/// True when a child has failed permanently and without replaced outputs. The next attempt of the parent would find the
/// same failure.
pub(crate) fn have_failed(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
    let children = &cx.run.graph.node(node).children;
    children.iter().any(|child| cx.run.node(frame, *child).is_some_and(|it| it.status == NodeStatus::Failed))
}

/// Fails the open children of a parent whose attempt has failed. If another attempt follows (`again`), they continue
/// with it instead.
pub(crate) fn abandoned(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, record: &Record, again: bool) {
    let graph = cx.run.graph.clone();
    if again {
        return;
    }
    for child in &graph.node(node).children {
        let Some(state) = cx.run.node(frame, *child).filter(|state| state.status.is_open()) else { continue };
        let now = cx.at.now;
        let started_at = state.started_at.unwrap_or(now);
        let record = Record {
            error: record.error.clone(),
            error_type: record.error_type.clone(),
            ..Record::default()
        };
        cx.update(frame, *child, |state| {
            state.status = NodeStatus::Failed;
            state.finished_at = Some(now);
            state.error = Some(record.error.as_str().into());
        });
        response::live::close(cx, frame, *child);
        response::streams::close_of_node(cx, frame, *child);
        let about = cx.about(frame, *child);
        let end = NodeEnd { about, started_at, finished_at: now, record: Box::new(record) };
        cx.emit(EventKind::NodeRunFailed(end));
        cx.close_entry();
    }
}

/// Resets the children of a parent that begins again in another run, which does not know their journal. Their cost
/// stays counted.
pub(crate) fn reset(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let graph = cx.run.graph.clone();
    for child in &graph.node(node).children {
        cx.update(frame, *child, |state| {
            *state = NodeState { cost: state.cost.clone(), ..NodeState::default() };
        });
    }
}

/// Resets the children of all parents that have neither succeeded nor had their failure handled, and removes the
/// outputs of these children.
pub(crate) fn reset_all(run: &mut RunState) {
    let graph = run.graph.clone();
    for (at, node) in graph.nodes.iter().enumerate() {
        let Some(child) = &node.child else { continue };
        for frame in run.frames.values_mut() {
            let has_ended =
                matches!(frame.nodes[child.of.at()].status, NodeStatus::Succeeded | NodeStatus::Exception);
            if !has_ended {
                frame.nodes[at] = NodeState::default();
                frame.variables.remove(node.id.as_str());
            }
        }
    }
}
