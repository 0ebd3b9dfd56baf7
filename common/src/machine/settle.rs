//! What follows when an execution has ended, in Dify's order: values into the pool, edges, streamed text, and only
//! then the event that tells of the end.

use std::sync::Arc;

use super::changes::{EventKind, NodeEnd, Record};
use super::run::NodeStatus;
use super::{Step, drive, edges, end_of_run, response, retry};
use crate::clock::Timestamp;
use crate::graph::{ErrorStrategy, NodeIx};
use crate::ids::FramePath;
use crate::nodes::{ExecutionType, FAIL_BRANCH_HANDLE, SOURCE_HANDLE};
use crate::value::{Segment, Stored};

/// The node ended well.
pub(super) fn succeeded(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    finished_at: Timestamp,
    record: Record,
) {
    let handle: Arc<str> = if record.handle.is_empty() { SOURCE_HANDLE } else { &record.handle }.into();
    let end = close(cx, frame, node, finished_at, record, NodeStatus::Succeeded);
    go_on(cx, frame, node, &handle, &end);
    cx.tell(EventKind::NodeRunSucceeded(end));
    cx.close_entry();
    end_of_run::check_limits(cx);
}

/// An attempt failed: retry, strategy, or the end of the run.
pub(super) fn failed(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    finished_at: Timestamp,
    mut record: Record,
) {
    if let Some(state) = cx.node_mut(frame, node) {
        state.failures += 1;
    }
    let graph = cx.run.graph.clone();
    let error: Arc<str> = record.error.as_str().into();
    let strategy = graph.node(node).error_strategy.clone();
    let (status, handle, outputs) = match strategy {
        _ if can_retry(cx, frame, node) => {
            let end = close(cx, frame, node, finished_at, record, NodeStatus::Failed);
            retry::again(cx, frame, node, &end);
            return;
        }
        None => {
            let end = close(cx, frame, node, finished_at, record, NodeStatus::Failed);
            cx.tell(EventKind::NodeRunFailed(end));
            cx.close_entry();
            end_of_run::check_limits(cx);
            end_of_run::fail(cx, &error);
            return;
        }
        Some(ErrorStrategy::FailBranch) => (NodeStatus::Exception, FAIL_BRANCH_HANDLE, Vec::new()),
        Some(ErrorStrategy::DefaultValue(values)) => (NodeStatus::Exception, SOURCE_HANDLE, values),
    };
    let strategy_name = if handle == FAIL_BRANCH_HANDLE { "fail-branch" } else { "default-value" };
    let text = |text: &str| Stored::Inline(Segment::string(text));
    let own = [("error_message", text(&record.error)), ("error_type", text(&record.error_type))];
    record.outputs = outputs.into_iter().map(|(name, value)| (name, Stored::Inline(value))).collect();
    for (name, value) in own {
        record.outputs.retain(|(known, _)| known != name);
        record.outputs.push((name.to_string(), value));
    }
    record.metadata = crate::value::JsonMap::from_iter([("error_strategy".into(), strategy_name.into())]);
    record.handle = handle.to_string();
    let end = close(cx, frame, node, finished_at, record, status);
    if graph.node(node).kind.spec().execution == ExecutionType::Branch && handle == SOURCE_HANDLE {
        // Dify finds no branch for it and fails the run; so do we, and say how to mend it.
        let id = &graph.node(node).id;
        let reason = format!("Branch node {id} completed without selecting a branch");
        cx.tell(EventKind::NodeRunException(end));
        cx.close_entry();
        end_of_run::fail(cx, &reason);
        return;
    }
    go_on(cx, frame, node, handle, &end);
    cx.tell(EventKind::NodeRunException(end));
    cx.close_entry();
}

fn can_retry(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
    let spec = cx.run.graph.node(node);
    let attempt = cx.run.node(frame, node).map_or(1, |n| n.attempt);
    spec.kind.spec().retries && spec.retry.enabled && attempt <= spec.retry.retries_max
}

/// Writes the end into the node's state.
fn close(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    finished_at: Timestamp,
    record: Record,
    status: NodeStatus,
) -> NodeEnd {
    let about = cx.about(frame, node);
    let mut started_at = finished_at;
    if let Some(state) = cx.node_mut(frame, node) {
        started_at = state.started_at.unwrap_or(finished_at);
        state.status = status;
        state.job = None;
        state.finished_at = Some(finished_at);
        state.tokens += record.usage.as_ref().map_or(0, |u| u.total_tokens);
        state.handle = (!record.handle.is_empty() && record.handle != SOURCE_HANDLE)
            .then(|| record.handle.as_str().into());
        state.error = (!record.error.is_empty()).then(|| record.error.as_str().into());
    }
    NodeEnd { about, started_at, finished_at, record: Box::new(record) }
}

/// Values, edges, run outputs, text: everything but the event.
fn go_on(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, handle: &str, end: &NodeEnd) {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    for (name, value) in &end.record.outputs {
        // What the start node shows of other namespaces is for the record; it is in the pool already.
        if spec.kind.spec().execution == ExecutionType::Root {
            continue;
        }
        drive::write(cx, frame, spec.id.as_str(), name, value.clone());
    }
    response::streams::close_of_node(cx, frame, node);
    edges::decide(cx, frame, node, handle);
    if spec.kind.spec().execution == ExecutionType::Response && frame.is_root() {
        cx.run.responded.push(node);
        cx.out.response = true;
    }
    response::flush(cx);
}
