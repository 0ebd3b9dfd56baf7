//! Time limits of an attempt: how long its job may wait in the queue, and how long it may run.
//!
//! A worker ends an attempt that runs too long. The engine's timer is due later, for a worker that hangs or is lost.

use std::time::Duration;

use crate::fact::Timer;
use crate::flow::{containers, hooks, ready, settle};
use crate::order::changes::{CancelledJob, TimerChange};
use crate::state::record::Record;
use crate::state::run::{NodeStatus, PendingEnd};
use crate::step::Step;
use tidemill_base::failure::EngineErrorType;
use tidemill_base::ids::FramePath;
use tidemill_base::limits;
use tidemill_workflow::graph::NodeIx;

/// The time that the engine waits longer than the worker before it ends an attempt.
const WORKER_FIRST: Duration = Duration::from_secs(2);

/// The longest time that a job of the node may wait in its queue, in milliseconds. A job for hooks after an end always
/// has a limit.
fn queue_ms(cx: &Step<'_>, node: NodeIx, has_ended: bool) -> Option<u64> {
    let own = cx.run.graph.node(node).settings.queue_timeout_ms;
    own.or_else(|| has_ended.then_some(limits::LATE_HOOKS_WAIT_MS))
}

/// Sets the timer for a job that was queued. `has_ended`: the node has ended, and only its hooks are left.
pub(crate) fn queued(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, attempt: u32, has_ended: bool) {
    if let Some(ms) = queue_ms(cx, node, has_ended) {
        let due = cx.at.now.plus(Duration::from_millis(ms));
        let timer = Timer::Queue { frame: frame.clone(), node, attempt };
        cx.out.timers.push(TimerChange::Set(due, timer));
    }
}

/// Replaces the timer of the queue by that of the execution, when a worker has begun.
pub(crate) fn started(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, attempt: u32, has_ended: bool) {
    let queue = queue_ms(cx, node, has_ended);
    let execution = cx.run.graph.node(node).settings.execution_timeout_ms;
    if queue.is_some() {
        cx.out.timers.push(TimerChange::Clear(Timer::Queue { frame: frame.clone(), node, attempt }));
    }
    if let Some(ms) = execution {
        let due = cx.at.now.plus(Duration::from_millis(ms) + WORKER_FIRST);
        let timer = Timer::Execution { frame: frame.clone(), node, attempt };
        cx.out.timers.push(TimerChange::Set(due, timer));
    }
}

/// Clears the timers of an attempt that has ended or whose job was taken back.
pub(crate) fn over(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, attempt: u32) {
    let has_ended = cx.run.node(frame, node).is_some_and(|state| state.ended.is_some());
    attempt_over(cx, frame, node, attempt, has_ended);
}

/// Like [`over`], for a caller that knows whether the node has ended before its hooks.
pub(crate) fn attempt_over(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    attempt: u32,
    has_ended: bool,
) {
    let queue = queue_ms(cx, node, has_ended);
    let execution = cx.run.graph.node(node).settings.execution_timeout_ms;
    if queue.is_some() {
        cx.out.timers.push(TimerChange::Clear(Timer::Queue { frame: frame.clone(), node, attempt }));
    }
    if execution.is_some() {
        cx.out.timers.push(TimerChange::Clear(Timer::Execution { frame: frame.clone(), node, attempt }));
    }
}

/// Fails an attempt whose job no worker has taken in time.
pub(crate) fn queue_over(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, attempt: u32) {
    let waits = |n: &crate::state::run::NodeState| n.status == NodeStatus::Queued && n.attempt == attempt;
    let Some(state) = cx.run.node(frame, node).filter(|state| waits(state)) else { return };
    let ms = queue_ms(cx, node, state.ended.is_some()).unwrap_or_default();
    let queue = &cx.run.graph.node(node).settings.queue;
    let error = format!(
        "no worker has taken the job from queue {queue:?} within {ms} ms (tidemill.queue_timeout_ms)"
    );
    end_attempt(cx, frame, node, EngineErrorType::QueueTimeout, error);
}

/// Fails an attempt that runs too long and that no worker has ended.
pub(crate) fn execution_over(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, attempt: u32) {
    // A queued job has not begun, so the timer belonged to an earlier one.
    let runs = |n: &crate::state::run::NodeState| n.status == NodeStatus::Running && n.attempt == attempt;
    if !cx.run.node(frame, node).is_some_and(runs) {
        return;
    }
    let ms = cx.run.graph.node(node).settings.execution_timeout_ms.unwrap_or_default();
    let error = format!("the node ran longer than {ms} ms (tidemill.execution_timeout_ms)");
    end_attempt(cx, frame, node, EngineErrorType::Timeout, error);
}

fn end_attempt(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, kind: EngineErrorType, error: String) {
    take_back(cx, frame, node);
    let record = Record { error, error_type: kind.name().to_string(), passing: true, ..Record::default() };
    let now = cx.at.now;
    settle::told_started(cx, frame, node);
    if containers::is_part(cx, frame, node) {
        containers::part_done(cx, frame, node, record);
    } else if let Some(ended) = hooks::take(cx, frame, node) {
        hooks::failed(cx, (frame, node), now, ended, record.into());
    } else if kind == EngineErrorType::Timeout {
        hooks::end_node(cx, frame, node, PendingEnd { failed: true, record: record.into() });
    } else {
        // No worker serves the queue in time, so none would run the hooks either.
        settle::failed(cx, frame, node, now, record.into());
    }
    ready::advance(cx);
}

/// Takes a node's job out of its queue, or away from its worker.
pub(crate) fn take_back(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let execution = cx.execution(frame, node);
    let queue = cx.run.graph.node(node).settings.queue.clone();
    let Some(entry) = cx.run.node(frame, node).and_then(|n| n.job) else { return };
    cx.out.cancelled.push(CancelledJob { queue, entry, execution });
}
