//! A time has come: a retry is due, somebody has taken too long, or nobody has answered.

use super::changes::TimerChange;
use super::fact::Timer;
use super::run::{NodeStatus, RunStatus};
use super::{Step, drive, end_of_run, on_answer, timeouts};

#[inline(never)]
pub(super) fn step(cx: &mut Step<'_>, timer: Timer) {
    cx.out.timers.push(TimerChange::Clear(timer.clone()));
    match timer {
        Timer::Retry { frame, node, attempt } => {
            let waits = cx
                .run
                .node(&frame, node)
                .is_some_and(|n| n.status == NodeStatus::Retrying && n.attempt_due() == attempt);
            if waits {
                drive::make_ready(cx, &frame, node);
                drive::drive(cx);
            }
        }
        Timer::Queue { frame, node, attempt } => timeouts::queue_over(cx, &frame, node, attempt),
        Timer::Execution { frame, node, attempt } => timeouts::execution_over(cx, &frame, node, attempt),
        Timer::PauseExpires { pause } => on_answer::time_is_over(cx, &pause),
        Timer::PauseLimit { pause } => on_answer::limit_is_over(cx, &pause),
        Timer::RunDeadline if !end_of_run::meets_deadline(cx) => {}
        // The work of a run that waits has no time limit.
        Timer::RunDeadline if cx.run.status == RunStatus::Paused => end_of_run::set_deadline(cx),
        Timer::RunDeadline => {
            let (ran, max) = (end_of_run::ran_seconds(cx), cx.run.head.options.seconds_max);
            if ran < max as f64 {
                // It was read before the run paused and went on: its time counts anew since then.
                return end_of_run::set_deadline(cx);
            }
            end_of_run::abort(cx, &end_of_run::time_exceeded(ran, max));
        }
    }
}
