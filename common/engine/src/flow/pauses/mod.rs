//! Pauses: waits of nodes for a person. A pause is only state; no process holds anything while it lasts.
//!
//! Either the node itself waits, or its job waits in a journal entry. In the second case the job is parked, and queued
//! again when the pause has ended.

pub(crate) mod interactions;

use std::sync::Arc;
use std::time::Duration;

use crate::fact::{JobQuestion, Timer};
use crate::flow::{hooks, timeouts};
use crate::order::changes::TimerChange;
use crate::order::events::EventKind;
use crate::state::pause::{Pause, PauseStatus, id_of};
use crate::state::record::Record;
use crate::state::run::{NodeStatus, PendingEnd, RunState, json_size};
use crate::step::Step;
use tidemill_base::clock::Timestamp;
use tidemill_base::failure::{EngineErrorType, NodeFailure};
use tidemill_base::ids::FramePath;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::pause::not_interactive;
use tidemill_workflow::nodes::{PauseKind, PauseRequest};

/// Lets a node wait. Its branch waits, the others continue.
pub(crate) fn open(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, request: PauseRequest) {
    let execution = cx.execution(frame, node);
    let attempt = cx.run.node(frame, node).map_or(1, |n| n.attempt);
    let id = id_of(&execution, attempt);
    let request = match request.kind {
        PauseKind::UserInteraction => match interactions::goes_on(cx, frame, node, &id, request) {
            None => return,
            Some(request) => request,
        },
        PauseKind::Form
        | PauseKind::Simple
        | PauseKind::Params
        | PauseKind::Confirm
        | PauseKind::ToolApproval
        | PauseKind::HumanRelay => request,
    };
    if let Some(failure) = refused(cx, &request) {
        return fail(cx, frame, node, failure);
    }
    // The time limits apply to the attempt, not to the wait.
    timeouts::over(cx, frame, node, attempt);
    cx.update(frame, node, |state| {
        state.status = NodeStatus::Waiting;
        state.job = None;
    });
    let is_question = request.kind == PauseKind::UserInteraction;
    begin(cx, frame, node, (id.clone(), None), request);
    if is_question {
        interactions::emit_requested(cx, &id);
    }
}

/// Lets a node wait whose parked job has asked a question.
pub(crate) fn wait_in_job(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, asked: JobQuestion) {
    let JobQuestion { pause, step, request } = asked;
    if let Some(failure) = refused(cx, &request) {
        cx.update(frame, node, |state| state.parked = None);
        return fail(cx, frame, node, failure);
    }
    cx.update(frame, node, |state| state.status = NodeStatus::Waiting);
    begin(cx, frame, node, (pause, Some(step)), request);
}

fn begin(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    (id, step): (Arc<str>, Option<Arc<str>>),
    request: PauseRequest,
) {
    let (now, execution) = (cx.at.now, cx.execution(frame, node));
    let own = request.timeout().map(|wait| now.plus(wait));
    let limit = limit_of(cx.run, &request);
    let pause = Pause {
        id,
        frame: frame.clone(),
        node,
        execution,
        step,
        request: Box::new(request),
        opened_at: now,
        expires_at: [own, limit].into_iter().flatten().min(),
        status: PauseStatus::Pending,
    };
    set_timers(cx, &pause, own, limit);
    let about = cx.about(frame, node);
    cx.emit(EventKind::NodeRunPauseRequested { about, pause: pause.clone() });
    cx.close_entry();
    cx.out.pauses.insert(pause.id.clone(), pause.clone());
    cx.run.pauses.insert(pause.id.clone(), pause);
}

/// Returns a failure if this question cannot be asked.
fn refused(cx: &Step<'_>, request: &PauseRequest) -> Option<NodeFailure> {
    let options = &cx.run.head.options;
    if !options.choices().interactive {
        return Some(not_interactive(request.kind));
    }
    let (chars, max) = (request.content.chars().count(), options.template_chars_max);
    let message = || {
        format!("the form's text has {chars} characters, at most {max} are allowed (run.template_chars_max)")
    };
    if chars > max {
        return Some(NodeFailure::new("ValueError", message()));
    }
    if request.kind.is_form() {
        return None;
    }
    let parts =
        [&request.schema, &request.options, &request.defaults].into_iter().chain(request.details.values());
    let bytes: usize = parts.map(json_size).sum();
    let message =
        || format!("the question takes {bytes} bytes, at most {max} are allowed (run.template_chars_max)");
    (bytes > max).then(|| NodeFailure::new(EngineErrorType::ValueTooLarge.name(), message()))
}

pub(crate) fn fail(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, failure: NodeFailure) {
    let record = Record { error: failure.message, error_type: failure.error_type, ..Record::default() };
    hooks::end_node(cx, frame, node, PendingEnd { failed: true, record: record.into() });
}

/// Sets the timer of the pause's own time or that of the limit: the one that is due first ends the pause or the run.
fn set_timers(cx: &mut Step<'_>, pause: &Pause, own: Option<Timestamp>, limit: Option<Timestamp>) {
    if let Some(due) = own.filter(|own| limit.is_none_or(|limit| *own <= limit)) {
        cx.out.timers.push(TimerChange::Set(due, Timer::PauseExpires { pause: pause.id.clone() }));
    }
    if let Some(due) = limit.filter(|limit| own.is_none_or(|own| *limit < own)) {
        cx.out.timers.push(TimerChange::Set(due, Timer::PauseLimit { pause: pause.id.clone() }));
    }
}

/// Continues a pause of an exported run in this run, with the same id and the same times.
pub(crate) fn reopen(cx: &mut Step<'_>, mut pause: Pause) {
    pause.execution = cx.execution(&pause.frame, pause.node);
    let own = pause.request.timeout().map(|wait| pause.opened_at.plus(wait));
    let limit = limit_of(cx.run, &pause.request);
    set_timers(cx, &pause, own, limit);
    cx.out.pauses.insert(pause.id.clone(), pause.clone());
    cx.run.pauses.insert(pause.id.clone(), pause);
}

/// The time until which forms of the run may wait (`human_input_timeout_s`), counted from the run's start as on Dify.
fn limit_of(run: &RunState, request: &PauseRequest) -> Option<Timestamp> {
    let seconds = run.head.options.human_input_timeout_s;
    let is_bounded = seconds > 0 && request.kind.is_form();
    is_bounded.then_some(run.started_at?.plus(Duration::from_secs(seconds)))
}

/// Ends a pause with this status and clears its timers. Returns `None` if there is no such pause.
pub(crate) fn close_pause(cx: &mut Step<'_>, id: &str, status: PauseStatus) -> Option<Pause> {
    let mut pause = cx.run.pauses.remove(id)?;
    pause.status = status;
    cx.out.pauses.insert(pause.id.clone(), pause.clone());
    if pause.request.timeout().is_some() {
        cx.out.timers.push(TimerChange::Clear(Timer::PauseExpires { pause: pause.id.clone() }));
    }
    if limit_of(cx.run, &pause.request).is_some() {
        cx.out.timers.push(TimerChange::Clear(Timer::PauseLimit { pause: pause.id.clone() }));
    }
    Some(pause)
}

/// Takes the request for a pause out of a result, if it has one.
pub(crate) fn requested(record: &mut Record) -> Option<PauseRequest> {
    record.pause.take().map(|request| *request)
}
