//! Applies a piece of streamed text. Clients see it in response order.

use crate::fact::JobChunk;
use crate::flow::response;
use crate::on::job_started;
use crate::step::Step;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: JobChunk) {
    if !job_started::is_current(cx, &it.job) {
        return;
    }
    job_started::emit_started(cx, &it.job, it.started_at);
    if it.job.frame.is_root() {
        response::streams::take_chunk(cx, it);
        response::flush(cx);
    }
}
