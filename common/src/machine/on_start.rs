//! The run begins: what it was given is its own now, and its root is ready.

use std::time::Duration;

use super::changes::{EventKind, TimerChange};
use super::fact::Timer;
use super::run::{RunHead, RunStatus};
use super::{Step, drive, edges, objects, response};
use crate::ids::FramePath;

pub(super) fn step(cx: &mut Step<'_>, head: RunHead) {
    if cx.run.status != RunStatus::Scheduled {
        return;
    }
    cx.run.head = head;
    cx.out.status_from = Some(RunStatus::Scheduled);
    cx.run.status = RunStatus::Running;
    cx.run.started_at = Some(cx.at.now);
    let deadline = cx.at.now.plus(Duration::from_secs(cx.run.head.options.seconds_max));
    cx.out.timers.push(TimerChange::Set(deadline, Timer::RunDeadline));
    objects::begin(cx);
    let caller = cx.run.head.caller.as_ref().map(|caller| caller.run);
    cx.tell(EventKind::GraphRunStarted { resumed: false, caller });
    // Fixed text that nothing stands before is shown before the first node runs, as on Dify.
    response::open(cx);
    cx.close_entry();
    let root = cx.run.root();
    edges::skip_other_roots(cx, root);
    drive::make_ready(cx, &FramePath::root(), root);
    drive::drive(cx);
}
