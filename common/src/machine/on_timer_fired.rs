//! A time has come: a retry is due, or the run has lasted too long.

use super::changes::TimerChange;
use super::fact::Timer;
use super::run::NodeStatus;
use super::{Step, drive, end_of_run};

pub(super) fn step(cx: &mut Step<'_>, timer: Timer) {
    cx.out.timers.push(TimerChange::Clear(timer.clone()));
    match timer {
        Timer::Retry { frame, node, attempt } => {
            let waits = cx
                .run
                .node(&frame, node)
                .is_some_and(|n| n.status == NodeStatus::Retrying && n.attempt + 1 == attempt);
            if waits {
                drive::make_ready(cx, &frame, node);
                drive::drive(cx);
            }
        }
        Timer::RunDeadline => {
            let ran = cx.run.started_at.map_or(0.0, |began| cx.at.now.seconds_since(began));
            let reason = end_of_run::time_exceeded(ran, cx.run.head.options.seconds_max);
            end_of_run::abort(cx, &reason);
        }
    }
}
