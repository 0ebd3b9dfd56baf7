//! How a run ends: nothing left to do, a failure, a stop, a limit.

use std::sync::Arc;

use super::changes::{CancelledJob, EventKind, Output, TimerChange};
use super::fact::Timer;
use super::run::{NodeStatus, RunState, RunStatus};
use super::{FramePath, Step};
use crate::graph::NodeIx;
use crate::value::Stored;

/// Ends the run when nothing is left that could go on.
pub(super) fn check(cx: &mut Step<'_>) {
    if cx.run.status != RunStatus::Running || cx.run.is_busy() {
        return;
    }
    let exceptions = cx.run.exceptions();
    let outputs = outputs(cx.run);
    if exceptions > 0 {
        end(cx, RunStatus::PartialSucceeded, None);
        cx.tell(EventKind::GraphRunPartialSucceeded { exceptions, outputs });
    } else {
        end(cx, RunStatus::Succeeded, None);
        cx.tell(EventKind::GraphRunSucceeded { outputs });
    }
    cx.close_entry();
}

/// Fails the run at once; what still runs is taken back.
pub(super) fn fail(cx: &mut Step<'_>, error: &str) {
    if cx.run.status.is_over() {
        return;
    }
    let exceptions = cx.run.exceptions();
    end(cx, RunStatus::Failed, Some(error.into()));
    cx.tell(EventKind::GraphRunFailed { error: error.to_string(), exceptions });
    cx.close_entry();
}

/// Fails the run because the engine met a defect in one of its steps.
pub(super) fn defect(cx: &mut Step<'_>, reason: &str) {
    if cx.run.status == RunStatus::Scheduled {
        cx.out.status_from = Some(RunStatus::Scheduled);
        cx.run.started_at = Some(cx.at.now);
        cx.tell(EventKind::GraphRunStarted);
    }
    fail(cx, &format!("{}: {reason}", crate::failure::EngineErrorType::Engine));
}

/// Stops the run at once; what still runs is taken back.
pub(super) fn abort(cx: &mut Step<'_>, reason: &str) {
    if cx.run.status.is_over() {
        return;
    }
    if cx.run.status == RunStatus::Scheduled {
        cx.out.status_from = Some(RunStatus::Scheduled);
        cx.run.started_at = Some(cx.at.now);
        cx.tell(EventKind::GraphRunStarted);
    }
    // Dify puts this word in front of every reason.
    let reason = format!("Aborted: {reason}");
    let outputs = outputs(cx.run);
    end(cx, RunStatus::Stopped, Some(reason.as_str().into()));
    cx.tell(EventKind::GraphRunAborted { reason, outputs });
    cx.close_entry();
}

/// Dify's words for a run that lasted too long.
pub(super) fn time_exceeded(ran_seconds: f64, max: u64) -> String {
    format!("Maximum execution time exceeded: {ran_seconds:.2}s > {max}s")
}

/// The limits that Dify looks at when a node has ended.
pub(super) fn check_limits(cx: &mut Step<'_>) {
    let options = &cx.run.head.options;
    let (steps, steps_max, seconds_max) = (cx.run.steps(), options.steps_max, options.seconds_max);
    let ran = cx.run.started_at.map_or(0.0, |began| cx.at.now.seconds_since(began));
    if steps > steps_max {
        abort(cx, &format!("Maximum execution steps exceeded: {steps} > {steps_max}"));
    } else if ran > seconds_max as f64 {
        abort(cx, &time_exceeded(ran, seconds_max));
    }
}

fn end(cx: &mut Step<'_>, status: RunStatus, error: Option<Arc<str>>) {
    cx.close_entry();
    take_back_all(cx);
    cx.out.status_from.get_or_insert(cx.run.status);
    cx.run.status = status;
    cx.run.finished_at = Some(cx.at.now);
    cx.run.error = error;
    cx.out.timers.push(TimerChange::Clear(Timer::RunDeadline));
    cx.out.go_on = false;
}

/// Everything open becomes stopped: jobs are taken out of their queues, timers are cleared.
fn take_back_all(cx: &mut Step<'_>) {
    cx.run.ready.clear();
    let open: Vec<(FramePath, NodeIx)> = cx
        .run
        .frames
        .iter()
        .flat_map(|(path, frame)| frame.nodes.iter().enumerate().map(move |(at, n)| (path, at, n)))
        .filter(|(_, _, node)| node.status.is_open())
        .map(|(path, at, _)| (path.clone(), NodeIx(u32::try_from(at).unwrap_or(u32::MAX))))
        .collect();
    for (frame, node) in open {
        let execution = cx.run.execution(&frame, node);
        let queue = cx.run.graph.node(node).settings.queue.clone();
        let now = cx.at.now;
        let Some(state) = cx.node_mut(&frame, node) else { continue };
        let was = state.status;
        state.status = NodeStatus::Stopped;
        state.finished_at = Some(now);
        let (job, attempt) = (state.job.take(), state.attempt);
        if let Some(entry) = job {
            cx.out.cancelled.push(CancelledJob { queue, entry, execution });
        }
        if was == NodeStatus::Retrying {
            let timer = Timer::Retry { frame, node, attempt: attempt + 1 };
            cx.out.timers.push(TimerChange::Clear(timer));
        }
    }
}

/// The run's outputs so far: of response nodes in the order of their end; texts named `answer` follow one another, of
/// everything else the last one stands (Dify's rule).
pub(super) fn outputs(run: &RunState) -> Vec<(String, Output)> {
    let root = FramePath::root();
    let mut merged: Vec<(String, Output)> = Vec::new();
    let Some(frame) = run.frames.get(&root) else { return merged };
    for node in &run.responded {
        let of_node = frame.variables.get(run.graph.node(*node).id.as_str());
        for (name, value) in of_node.into_iter().flatten() {
            match merged.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) if name == "answer" => join(old, value.clone()),
                Some((_, old)) => *old = Output::One(value.clone()),
                None => merged.push((name.clone(), Output::One(value.clone()))),
            }
        }
    }
    merged
}

fn join(old: &mut Output, more: Stored) {
    let parts = match std::mem::replace(old, Output::Joined(Vec::new())) {
        Output::One(first) => vec![first, more],
        Output::Joined(mut parts) => {
            parts.push(more);
            parts
        }
    };
    *old = Output::Joined(parts);
}
