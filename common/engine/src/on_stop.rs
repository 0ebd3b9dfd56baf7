//! Somebody wants the run to end: it ends now, whatever still runs or waits.

use super::Step;
use super::end_of_run;
use super::fact::Stop;

#[inline(never)]
pub(super) fn step(cx: &mut Step<'_>, it: &Stop) {
    end_of_run::abort(cx, &it.reason);
}
