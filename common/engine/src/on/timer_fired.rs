//! Applies a timer that is due: a retry, a time limit of an attempt, a pause or a run.

use crate::fact::Timer;
use crate::flow::{end_of_run, ready, timeouts};
use crate::on::answer;
use crate::order::changes::TimerChange;
use crate::state::run::{NodeStatus, RunStatus};
use crate::step::Step;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, timer: Timer) {
    cx.out.timers.push(TimerChange::Clear(timer.clone()));
    match timer {
        Timer::Retry { frame, node, attempt } => {
            let waits = cx
                .run
                .node(&frame, node)
                .is_some_and(|n| n.status == NodeStatus::Retrying && n.attempt_due() == attempt);
            if waits {
                ready::make_ready(cx, &frame, node);
                ready::advance(cx);
            }
        }
        Timer::Queue { frame, node, attempt } => timeouts::queue_over(cx, &frame, node, attempt),
        Timer::Execution { frame, node, attempt } => timeouts::execution_over(cx, &frame, node, attempt),
        Timer::PauseExpires { pause } => answer::time_is_over(cx, &pause),
        Timer::PauseLimit { pause } => answer::limit_is_over(cx, &pause),
        Timer::RunDeadline if !end_of_run::meets_deadline(cx) => {}
        // The time limit of the work does not apply to a paused run.
        Timer::RunDeadline if cx.run.status == RunStatus::Paused => end_of_run::set_deadline(cx),
        Timer::RunDeadline => {
            let (ran, max) = (end_of_run::ran_seconds(cx), cx.run.head.options.seconds_max);
            if ran < max as f64 {
                // The timer is from before a pause. Since then the time is counted from the resumption.
                return end_of_run::set_deadline(cx);
            }
            end_of_run::abort(cx, &end_of_run::time_exceeded(ran, max));
        }
    }
}
