//! Ends a run (nothing is left, a failure, a stop, a limit), pauses it, and continues it.

use crate::flow::pauses;
use std::sync::Arc;

use crate::fact::Timer;
use crate::flow::values::changes;
use crate::flow::{clock, subruns, time_limit, timeouts};
use crate::order::changes::TimerChange;
use crate::order::events::{EventKind, Output};
use crate::state::pause::PauseStatus;
use crate::state::run::{Frame, NodeStatus, Responder, RunState, RunStatus};
use crate::state::step_event::StepEvent;
use crate::step::Step;
use tidemill_base::failure::EngineErrorType;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{JsonMap, Stored};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::NodeData;

/// Ends the run when nothing is left to do. Pauses it when everything that is left waits for a person or a command.
pub(crate) fn check(cx: &mut Step<'_>) {
    if cx.run.status != RunStatus::Running || cx.run.sums.jobs > 0 {
        return;
    }
    let held = !cx.run.control.pausing.is_empty();
    if cx.run.is_busy() {
        let can_continue = !held && (!cx.run.ready.is_empty() || cx.run.sums.retrying > 0);
        if !can_continue {
            pause(cx);
        }
        return;
    }
    if held {
        return pause(cx);
    }
    let exceptions = cx.run.exceptions();
    let outputs = outputs(cx.run);
    let warnings = cx.run.control.warnings.clone();
    if exceptions > 0 {
        end_run(cx, RunStatus::PartialSucceeded, None);
        cx.emit(EventKind::GraphRunPartialSucceeded { exceptions, outputs, warnings });
    } else {
        end_run(cx, RunStatus::Succeeded, None);
        cx.emit(EventKind::GraphRunSucceeded { outputs, warnings });
    }
    cx.close_entry();
}

/// Pauses the run, because only an answer or a command can continue it.
fn pause(cx: &mut Step<'_>) {
    if let Some(pause) = cx.run.pauses.values().next()
        && cx.run.head.caller.is_some()
    {
        // A sub-workflow run is called as a tool, and a tool has to return a result.
        let node = cx.run.graph.node(pause.node).id.clone();
        let error = format!(
            "node {node} waits for an answer, and a workflow that is called as a tool cannot wait for one"
        );
        return fail(cx, &error);
    }
    cx.close_entry();
    cx.set_run_status(RunStatus::Paused);
    time_limit::set(cx);
    cx.out.continue_due = false;
    emit_paused(cx);
}

/// Emits what the run waits for.
pub(crate) fn emit_paused(cx: &mut Step<'_>) {
    let commands = cx.run.control.pausing.clone();
    let pauses = cx.run.pauses.values().cloned().collect();
    let outputs = outputs(cx.run);
    cx.emit(EventKind::GraphRunPaused { commands, pauses, outputs });
    cx.close_entry();
}

/// Continues a paused run, unless a pause command holds it. Time and steps are counted from zero, as on Dify.
pub(crate) fn resume(cx: &mut Step<'_>) {
    if cx.run.status != RunStatus::Paused || !cx.run.control.pausing.is_empty() {
        return;
    }
    cx.set_run_status(RunStatus::Running);
    cx.run.control.worked_before = cx.run.worked_micros(cx.at.now);
    let now = cx.at.now;
    cx.clock().begins(now);
    cx.run.control.resumed_at = Some(cx.at.now);
    cx.run.control.steps_before = cx.run.steps();
    cx.out.control = true;
    time_limit::set(cx);
    cx.emit(EventKind::GraphRunStarted { resumed: true, caller: None });
    cx.close_entry();
}

/// Fails the run at once, and takes its jobs back.
pub(crate) fn fail(cx: &mut Step<'_>, error: &str) {
    if cx.run.status.is_over() {
        return;
    }
    let exceptions = cx.run.exceptions();
    end_run(cx, RunStatus::Failed, Some(error.into()));
    let warnings = cx.run.control.warnings.clone();
    cx.emit(EventKind::GraphRunFailed { error: error.to_string(), exceptions, warnings });
    cx.close_entry();
}

/// Fails the run like [`fail`], also when it has not begun.
pub(crate) fn fail_anywhere(cx: &mut Step<'_>, error: &str) {
    if cx.run.status == RunStatus::Scheduled {
        cx.out.status_from = Some(RunStatus::Scheduled);
        clock::begin(cx);
        cx.emit(EventKind::GraphRunStarted { resumed: false, caller: None });
    }
    fail(cx, error);
}

/// Fails the run because one of its steps panicked or brought its owner down.
pub(crate) fn defect(cx: &mut Step<'_>, reason: &str) {
    fail_anywhere(cx, &format!("{}: {reason}", EngineErrorType::Engine));
}

/// Stops the run at once, and takes its jobs back.
pub(crate) fn abort(cx: &mut Step<'_>, reason: &str) {
    stop(cx, reason, None);
}

/// Stops the run because a person refused this node. The node's job has emitted its cancellation already.
pub(crate) fn called_off(cx: &mut Step<'_>, reason: &str, frame: &FramePath, node: NodeIx) {
    stop(cx, reason, Some((frame, node)));
}

fn stop(cx: &mut Step<'_>, reason: &str, emitted: Option<(&FramePath, NodeIx)>) {
    if cx.run.status.is_over() {
        return;
    }
    if cx.run.status == RunStatus::Scheduled {
        cx.out.status_from = Some(RunStatus::Scheduled);
        clock::begin(cx);
        cx.emit(EventKind::GraphRunStarted { resumed: false, caller: None });
    }
    cancel_steps(cx, emitted);
    // Dify puts this word in front of every reason.
    let reason = format!("Aborted: {reason}");
    let outputs = outputs(cx.run);
    cut_off(cx, &reason);
    end_run(cx, RunStatus::Stopped, Some(reason.as_str().into()));
    let warnings = cx.run.control.warnings.clone();
    cx.emit(EventKind::GraphRunAborted { reason, outputs, warnings });
    cx.close_entry();
}

/// Emits an event for each reply of a model that is streaming and will not be completed.
fn cut_off(cx: &mut Step<'_>, reason: &str) {
    let graph = cx.run.graph.clone();
    let streams = |at: usize| matches!(&graph.nodes[at].data, NodeData::ProfileLlm(data) if data.stream);
    let places = (0..graph.nodes.len()).filter(|at| streams(*at));
    let replies: Vec<(FramePath, NodeIx)> = places
        .filter_map(|at| Some((at, u32::try_from(at).ok().map(NodeIx)?)))
        .flat_map(|(at, node)| {
            let running =
                |frame: &Frame| frame.nodes.get(at).is_some_and(|n| n.status == NodeStatus::Running);
            let frames = cx.run.frames.iter().filter(move |(_, frame)| running(frame));
            frames.map(|(path, _)| (path.clone(), node)).collect::<Vec<_>>()
        })
        .collect();
    for (frame, node) in replies {
        let about = cx.about(&frame, node);
        let id = graph.node(node).id.as_str();
        let data =
            JsonMap::from_iter([("node_id".to_owned(), id.into()), ("reason".to_owned(), reason.into())]);
        cx.emit(EventKind::NodeStep { about, what: StepEvent::LlmStreamAborted, data });
    }
}

/// Emits the cancellation of each workflow step in progress, except for the one whose job has emitted it.
fn cancel_steps(cx: &mut Step<'_>, emitted: Option<(&FramePath, NodeIx)>) {
    let graph = cx.run.graph.clone();
    let is_step =
        |at: usize| matches!(graph.nodes[at].data, NodeData::Step(_)) && graph.nodes[at].child.is_none();
    let frames = cx.run.frames.iter();
    let open = frames
        .flat_map(|(path, frame)| frame.nodes.iter().enumerate().map(move |(at, node)| (path, at, node)));
    let open =
        open.filter(|(_, at, node)| node.started_at.is_some() && node.status.is_open() && is_step(*at));
    let open: Vec<(FramePath, NodeIx)> =
        open.map(|(path, at, _)| (path.clone(), NodeIx(u32::try_from(at).unwrap_or(u32::MAX)))).collect();
    for (frame, node) in open {
        if emitted == Some((&frame, node)) {
            continue;
        }
        let spec = graph.node(node);
        let NodeData::Step(data) = &spec.data else { continue };
        let fields = [
            ("step_id", spec.id.as_str()),
            ("step_name", spec.title.as_str()),
            ("step_type", data.id()),
            ("step_status", "cancelled"),
        ];
        let data = fields.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        let about = cx.about(&frame, node);
        cx.emit(EventKind::NodeStep { about, what: StepEvent::StepCancel, data });
    }
}

/// Ends the run if it exceeds a limit that Dify checks when a node has ended.
pub(crate) fn check_limits(cx: &mut Step<'_>) {
    // While the run is paused, its clock does not run.
    if cx.run.status == RunStatus::Paused {
        return;
    }
    if !time_limit::meets_deadline(cx) {
        return;
    }
    let steps_max = cx.run.head.options.steps_max;
    let steps = cx.run.steps().saturating_sub(cx.run.control.steps_before);
    if steps > steps_max {
        over_limit(cx, &format!("Maximum execution steps exceeded: {steps} > {steps_max}"));
    } else {
        time_limit::check(cx);
    }
}

/// Ends the run because it is over its limit of steps or time: it is stopped, as on Dify, or fails.
pub(crate) fn over_limit(cx: &mut Step<'_>, reason: &str) {
    match cx.run.head.options.dify_ways.limits_stop_runs {
        true => abort(cx, reason),
        false => fail(cx, reason),
    }
}

fn end_run(cx: &mut Step<'_>, status: RunStatus, error: Option<Arc<str>>) {
    cx.close_entry();
    take_back_all(cx);
    changes::leave(cx);
    cx.set_run_status(status);
    cx.run.finished_at = Some(cx.at.now);
    cx.run.error = error;
    cx.out.timers.push(TimerChange::Clear(Timer::RunDeadline));
    cx.out.continue_due = false;
}

/// Stops everything that is open: jobs are taken back, timers are cleared, pauses are cancelled.
fn take_back_all(cx: &mut Step<'_>) {
    cx.run.ready.clear();
    let waits: Vec<Arc<str>> = cx.run.pauses.keys().cloned().collect();
    for id in waits {
        pauses::close_pause(cx, &id, PauseStatus::Cancelled);
    }
    let open: Vec<(FramePath, NodeIx)> = cx
        .run
        .frames
        .iter()
        .flat_map(|(path, frame)| frame.nodes.iter().enumerate().map(move |(at, n)| (path, at, n)))
        .filter(|(_, _, node)| node.status.is_open())
        .map(|(path, at, _)| (path.clone(), NodeIx(u32::try_from(at).unwrap_or(u32::MAX))))
        .collect();
    for (frame, node) in open {
        let Some(state) = cx.run.node(&frame, node) else { continue };
        let (was, attempt, due) = (state.status, state.attempt, state.attempt_due());
        timeouts::take_back(cx, &frame, node);
        timeouts::over(cx, &frame, node, attempt);
        subruns::over(cx, &frame, node);
        let now = cx.at.now;
        clock::job_worked(cx, &frame, node, now);
        cx.update(&frame, node, |state| {
            state.status = NodeStatus::Stopped;
            state.finished_at = Some(now);
            state.job = None;
            state.parked = None;
            state.ended = None;
        });
        if was == NodeStatus::Retrying {
            let timer = Timer::Retry { frame, node, attempt: due };
            cx.out.timers.push(TimerChange::Clear(timer));
        }
    }
}

/// Returns the outputs of the run so far, from its response nodes in the order of their ends. Outputs named `answer`
/// are joined; for any other name the last value counts, as on Dify.
pub fn outputs(run: &RunState) -> Vec<(String, Output)> {
    let mut merged: Vec<(String, Output)> = Vec::new();
    let root = run.frames.root();
    for responder in &root.responded {
        let values = match responder {
            Responder::Root(node) => root.variables.get(run.graph.node(*node).id.as_str()),
            Responder::Nested(key) => run.nested.get(key),
        };
        for (name, value) in values.into_iter().flatten() {
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
