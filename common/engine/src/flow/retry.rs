//! Retries: whether another attempt follows a failed one, and when.

use std::time::Duration;

use crate::fact::Timer;
use crate::flow::{backoff, children};
use crate::order::changes::TimerChange;
use crate::order::events::{EventKind, NodeEnd};
use crate::state::record::Record;
use crate::state::run::NodeStatus;
use crate::step::Step;
use tidemill_base::failure::EngineErrorType;
use tidemill_base::ids::FramePath;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::messages::MessageError;

/// True when another attempt follows a failed one. A failed container, or a node with a failed child, is not retried:
/// the nodes inside have had their own retries.
pub(crate) fn is_due(cx: &Step<'_>, frame: &FramePath, node: NodeIx, record: &Record) -> bool {
    let spec = cx.run.graph.node(node);
    let attempt = cx.run.node(frame, node).map_or(1, |n| n.attempt);
    spec.kind.spec().retries
        && spec.retry.enabled
        && attempt <= spec.retry.retries_max
        && (!spec.settings.passing_only || may_pass(record))
        && !MessageError::NAMES.contains(&record.error_type.as_str())
        && !spec.settings.not_retryable.contains(&record.error_type)
        && !children::have_failed(cx, frame, node)
}

/// True when another attempt could help: the failure says so, or it comes from the engine. The class of a timeout does
/// not count: a service that a node calls may also time out, after it has done its work.
fn may_pass(record: &Record) -> bool {
    let engines = [EngineErrorType::WorkerLost, EngineErrorType::QueueTimeout];
    record.passing || engines.iter().any(|class| class.name() == record.error_type)
}

/// Sets the timer of the next attempt, and emits the retry.
pub(crate) fn again(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, end: &NodeEnd) {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    let attempt = cx.run.node(frame, node).map_or(1, |n| n.attempt);
    let execution = cx.execution(frame, node);
    let wait = backoff::wait_ms(&spec.retry, &spec.settings, &execution, attempt, end.record.retry_hint);
    let due = cx.at.now.plus(Duration::from_millis(wait));
    // The wait is part of the working time, as on Dify.
    let now = cx.at.now;
    cx.clock().waits(now, due);
    cx.update(frame, node, |state| {
        state.status = NodeStatus::Retrying;
        state.finished_at = None;
        state.error = None;
        state.worker = None;
        state.handle = None;
        state.delivery = 0;
    });
    let timer = Timer::Retry { frame: frame.clone(), node, attempt: attempt + 1 };
    cx.out.timers.push(TimerChange::Set(due, timer));
    cx.emit(EventKind::NodeRunRetry { end: end.clone(), index: attempt });
    cx.close_entry();
}
