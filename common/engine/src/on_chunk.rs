//! Applies a piece of streamed text. Clients see it in response order.

use super::fact::JobChunk;
use super::{Step, on_job_started, response};

#[inline(never)]
pub(super) fn step(cx: &mut Step<'_>, it: JobChunk) {
    if !on_job_started::is_current(cx, &it.job) {
        return;
    }
    on_job_started::tell_started(cx, &it.job, it.started_at);
    if it.job.frame.is_root() {
        response::streams::take_chunk(cx, it);
        response::flush(cx);
    }
}
