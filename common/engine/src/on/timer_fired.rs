//! Applies a timer that is due: a retry, a time limit of an attempt, a pause or a run.

use crate::fact::{LastSign, Timer};
use crate::flow::{ready, time_limit, timeouts};
use crate::on::answer;
use crate::order::changes::TimerChange;
use crate::state::run::NodeStatus;
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
        Timer::RunDeadline => time_limit::due(cx, &[]),
    }
}

/// Applies the timer of the run's time, with what is known about the workers that hold its jobs.
pub(crate) fn run_deadline(cx: &mut Step<'_>, signs: &[LastSign]) {
    cx.out.timers.push(TimerChange::Clear(Timer::RunDeadline));
    time_limit::due(cx, signs);
}
