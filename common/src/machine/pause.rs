//! What a node waits for from outside. A pause is nothing but state: nobody holds anything while it lasts.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::changes::{EventKind, Record, TimerChange};
use super::fact::Timer;
use super::run::{NodeStatus, RunState};
use super::{Step, settle};
use crate::clock::Timestamp;
use crate::graph::NodeIx;
use crate::ids::{ExecutionId, FramePath};
use crate::nodes::PauseRequest;

/// Where a pause stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseStatus {
    /// Nobody has answered.
    Pending,
    /// Answered.
    Answered,
    /// Its time is over.
    Expired,
    /// The run ended before.
    Cancelled,
}

impl PauseStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Answered, Self::Expired, Self::Cancelled];
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A node's wait for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Pause {
    /// Its id (Dify: session id, form id).
    pub id: Arc<str>,
    /// The frame.
    pub frame: FramePath,
    /// The node.
    pub node: NodeIx,
    /// The node's execution.
    pub execution: ExecutionId,
    /// What is asked.
    pub request: Box<PauseRequest>,
    /// Since when.
    pub opened_at: Timestamp,
    /// Until when, if there is an end to it.
    pub expires_at: Option<Timestamp>,
    /// Where it stands.
    pub status: PauseStatus,
}

/// The id of the wait that begins with this attempt of an execution. It follows from both, so that a step computed
/// again opens the same pause.
fn id_of(execution: &ExecutionId, attempt: u32) -> Arc<str> {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{execution}/pause/{attempt}").as_bytes()).to_string().into()
}

/// The node waits from now on. Its branch goes no further; everything else does.
pub(super) fn open(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, request: PauseRequest) {
    let (chars, max) = (request.content.chars().count(), cx.run.head.options.template_chars_max);
    if chars > max {
        let error = format!(
            "the form's text has {chars} characters, at most {max} are allowed (run.template_chars_max)"
        );
        let record = Record { error, error_type: "ValueError".into(), ..Record::default() };
        let now = cx.at.now;
        return settle::failed(cx, frame, node, now, record);
    }
    let (now, execution) = (cx.at.now, cx.execution(frame, node));
    let attempt = cx.run.node(frame, node).map_or(1, |n| n.attempt);
    let own = request.timeout_s.map(|seconds| now.plus(Duration::from_secs(seconds)));
    let limit = limit_of(cx.run);
    let pause = Pause {
        id: id_of(&execution, attempt),
        frame: frame.clone(),
        node,
        execution,
        request: Box::new(request),
        opened_at: now,
        expires_at: [own, limit].into_iter().flatten().min(),
        status: PauseStatus::Pending,
    };
    cx.update(frame, node, |state| {
        state.status = NodeStatus::Waiting;
        state.job = None;
    });
    if let Some(due) = own {
        cx.out.timers.push(TimerChange::Set(due, Timer::PauseExpires { pause: pause.id.clone() }));
    }
    if let Some(due) = limit {
        cx.out.timers.push(TimerChange::Set(due, Timer::PauseLimit { pause: pause.id.clone() }));
    }
    let about = cx.about(frame, node);
    cx.tell(EventKind::NodeRunPauseRequested { about, pause: pause.clone() });
    cx.close_entry();
    cx.out.pauses.insert(pause.id.clone(), pause.clone());
    cx.run.pauses.insert(pause.id.clone(), pause);
}

/// A pause of an exported run goes on in this one, under its id and with its times.
pub(super) fn reopen(cx: &mut Step<'_>, mut pause: Pause) {
    pause.execution = cx.execution(&pause.frame, pause.node);
    if let Some(seconds) = pause.request.timeout_s {
        let due = pause.opened_at.plus(Duration::from_secs(seconds));
        cx.out.timers.push(TimerChange::Set(due, Timer::PauseExpires { pause: pause.id.clone() }));
    }
    if let Some(due) = limit_of(cx.run) {
        cx.out.timers.push(TimerChange::Set(due, Timer::PauseLimit { pause: pause.id.clone() }));
    }
    cx.out.pauses.insert(pause.id.clone(), pause.clone());
    cx.run.pauses.insert(pause.id.clone(), pause);
}

/// Until when any form of the run may wait (`human_input_timeout_s`); counted from the run's begin, as on Dify.
fn limit_of(run: &RunState) -> Option<Timestamp> {
    let seconds = run.head.options.human_input_timeout_s;
    (seconds > 0).then_some(run.started_at?.plus(Duration::from_secs(seconds)))
}

/// The wait is over, one way or another.
pub(super) fn close(cx: &mut Step<'_>, id: &str, status: PauseStatus) -> Option<Pause> {
    let mut pause = cx.run.pauses.remove(id)?;
    pause.status = status;
    cx.out.pauses.insert(pause.id.clone(), pause.clone());
    let limit = limit_of(cx.run).is_some();
    if pause.request.timeout_s.is_some() {
        cx.out.timers.push(TimerChange::Clear(Timer::PauseExpires { pause: pause.id.clone() }));
    }
    if limit {
        cx.out.timers.push(TimerChange::Clear(Timer::PauseLimit { pause: pause.id.clone() }));
    }
    Some(pause)
}

/// The request in a worker's result, for a node that is to wait.
pub(super) fn requested(record: &mut Record) -> Option<PauseRequest> {
    record.pause.take().map(|request| *request)
}
