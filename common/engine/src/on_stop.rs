//! Applies a stop command: the run ends now, and everything that still runs or waits is stopped.

use super::Step;
use super::end_of_run;
use super::fact::Stop;

#[inline(never)]
pub(super) fn step(cx: &mut Step<'_>, it: &Stop) {
    end_of_run::abort(cx, &it.reason);
}
