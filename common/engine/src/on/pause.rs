//! Applies a pause command: nothing new begins. Queued jobs are taken back; jobs that a worker executes may end.

use crate::fact::PauseCommand;
use crate::flow::{end_of_run, hold, ready};
use crate::state::run::RunStatus;
use crate::step::Step;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: PauseCommand) {
    hold::hold(cx, it);
    if cx.run.status == RunStatus::Paused {
        // The run waited for an answer already; now it waits for a resume command as well.
        end_of_run::emit_paused(cx);
    } else {
        ready::advance(cx);
    }
}
