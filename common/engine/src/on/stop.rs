//! Applies a stop command: the run ends now, and everything that still runs or waits is stopped.

use crate::fact::Stop;
use crate::flow::end_of_run;
use crate::step::Step;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: &Stop) {
    end_of_run::abort(cx, &it.reason);
}
