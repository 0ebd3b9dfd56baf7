//! Parks a job that waits longer than a worker waits: no worker holds it. A timer, the end of a sub-workflow run, or an
//! answer queues the same attempt again.

use crate::flow::pauses;
use std::time::Duration;

use crate::fact::{JobParked, Timer};
use crate::flow::{clock, ready, subruns, timeouts};
use crate::on::job_started;
use crate::order::changes::TimerChange;
use crate::state::run::NodeStatus;
use crate::step::Step;
use tidemill_base::ids::Delivery;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: JobParked) {
    if !job_started::is_current(cx, &it.job) {
        return;
    }
    if it.is_childs {
        job_started::note_holder(cx, &it.job, it.started_at);
    } else {
        job_started::emit_started(cx, &it.job, it.started_at);
    }
    clock::job_worked(cx, &it.job.frame, it.job.node, it.parked_at.unwrap_or(it.started_at));
    let (frame, node, attempt) = (it.job.frame.clone(), it.job.node, it.job.attempt);
    timeouts::over(cx, &frame, node, attempt);
    subruns::leave(cx, &frame, node);
    cx.update(&frame, node, |state| {
        state.status = NodeStatus::Retrying;
        state.job = None;
        state.parked = Some(it.reason.into());
        // As after a hand-back: the next delivery has a higher number, but does not add to the delivery count.
        state.delivery = it.job.delivery.saturating_add(Delivery::HAND_BACK - 1);
    });
    if let Some(asked) = it.pause {
        pauses::wait_in_job(cx, &frame, node, *asked);
    } else if it.call.is_none_or(|call| subruns::wait(cx, &frame, node, *call)) {
        let due = cx.at.now.plus(Duration::from_millis(it.wait_ms));
        cx.out.timers.push(TimerChange::Set(due, Timer::Retry { frame, node, attempt }));
    } else {
        ready::make_ready(cx, &frame, node);
    }
    // Another node of this run may have waited for room for its job.
    ready::advance(cx);
}
