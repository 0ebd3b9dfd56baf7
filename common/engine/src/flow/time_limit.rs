//! The limits on the time of a run: `max_execution_time_s` for its work, and `deadline_ms` for everything.
//!
//! A worker ends an attempt when the time that the run has left is over: its job says how much that was. The timer of
//! the run is for a worker that lives and does not do so. It is not moved with each job. When it is due, it is set again
//! if the run has time left: waiting is not working ([`crate::state::clock`]).

use std::time::Duration;

use crate::fact::{LastSign, Timer};
use crate::flow::end_of_run;
use crate::order::changes::TimerChange;
use crate::state::run::RunStatus;
use crate::step::Step;
use tidemill_base::clock::Timestamp;
use tidemill_base::failure::EngineErrorType;
use tidemill_base::limits;

/// A job says how much time is left only when more than this part of it, in percent, is used. So most jobs say nothing,
/// and their workers take the whole.
const UNTOLD_PERCENT: u64 = 1;

/// The limit on the working time, in microseconds.
fn max_micros(cx: &Step<'_>) -> u64 {
    cx.run.head.options.seconds_max.saturating_mul(1_000_000)
}

/// The working time since the run began, or since its last pause ended, in microseconds.
fn ran_micros(cx: &Step<'_>, worked: i64) -> u64 {
    worked.saturating_sub(cx.run.control.worked_before).max(0).unsigned_abs()
}

/// Sets the timer for the end of the run's time, which is the earlier of two: the limit of its work, which does not run
/// while the run is paused, and its deadline, which does.
pub(crate) fn set(cx: &mut Step<'_>) {
    let ran = ran_micros(cx, cx.run.worked_micros(cx.at.now));
    set_after(cx, ran, Duration::ZERO);
}

/// Sets the timer when this working time is used. It is due when the limit could be met at the earliest, and not before
/// `wait` has passed.
fn set_after(cx: &mut Step<'_>, ran: u64, wait: Duration) {
    let left = Duration::from_micros(max_micros(cx).saturating_sub(ran));
    let of_work = (cx.run.status != RunStatus::Paused).then(|| cx.at.now.plus(left.max(wait)));
    let due = of_work.into_iter().chain(deadline(cx)).min();
    cx.out.timers.push(match due {
        Some(due) => TimerChange::Set(due, Timer::RunDeadline),
        None => TimerChange::Clear(Timer::RunDeadline),
    });
}

/// Applies the timer. `signs` are the last signs of life of the workers that hold the jobs of the run: what came later
/// does not count.
pub(crate) fn due(cx: &mut Step<'_>, signs: &[LastSign]) {
    if !meets_deadline(cx) {
        return;
    }
    // The limit of the work does not apply to a paused run.
    if cx.run.status == RunStatus::Paused {
        return set(cx);
    }
    let worked = cx.run.worked_micros_with(cx.at.now, |node| {
        signs.iter().find(|sign| Some(sign.entry) == node.job).map(|sign| sign.at)
    });
    let ran = ran_micros(cx, worked);
    if ran < max_micros(cx) {
        return set_after(cx, ran, Duration::from_millis(limits::TIME_LIMIT_CHECK_MS));
    }
    exceeded(cx, ran);
}

/// Stops the run when it has worked too long. Dify checks that when a node has ended.
pub(crate) fn check(cx: &mut Step<'_>) {
    let ran = ran_micros(cx, cx.run.worked_micros(cx.at.now));
    if ran > max_micros(cx) {
        exceeded(cx, ran);
    }
}

/// Stops the run because a worker has ended an attempt when the time of the run was over.
pub(crate) fn ended_by_worker(cx: &mut Step<'_>) {
    let ran = ran_micros(cx, cx.run.worked_micros(cx.at.now));
    // Reports of parallel jobs may be missing, so that less is counted here.
    exceeded(cx, ran.max(max_micros(cx)));
}

fn exceeded(cx: &mut Step<'_>, ran: u64) {
    let max = cx.run.head.options.seconds_max;
    // Dify's message.
    let text = format!("Maximum execution time exceeded: {:.2}s > {max}s", ran as f64 / 1e6);
    end_of_run::over_limit(cx, &text);
}

/// The working time that a new job may take, in milliseconds, or `None` for about the whole.
pub(crate) fn left_ms(cx: &Step<'_>) -> Option<u64> {
    let (ran, max) = (ran_micros(cx, cx.run.worked_micros(cx.at.now)), max_micros(cx));
    (ran > max / 100 * UNTOLD_PERCENT).then(|| max.saturating_sub(ran).div_ceil(1000))
}

/// The time by which the run has to end, if it was submitted with a deadline.
fn deadline(cx: &Step<'_>) -> Option<Timestamp> {
    let ms = cx.run.head.options.deadline_ms?;
    Some(cx.run.head.created_at.plus(Duration::from_millis(ms)))
}

/// Returns true while the run is within its deadline. Otherwise stops the run and returns false.
pub(crate) fn meets_deadline(cx: &mut Step<'_>) -> bool {
    let Some(due) = deadline(cx).filter(|due| *due <= cx.at.now) else { return true };
    let ms = cx.run.head.options.deadline_ms.unwrap_or_default();
    let over_ms = (cx.at.now.micros() - due.micros()) / 1000;
    let took_ms = ms.saturating_add(over_ms.unsigned_abs());
    let class = EngineErrorType::DeadlineExceeded;
    end_of_run::abort(
        cx,
        &format!("{class}: {took_ms} ms since it was submitted, and it may take {ms} (deadline_ms)"),
    );
    false
}
