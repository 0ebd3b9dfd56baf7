//! A worker brought a result: outputs into the pool, edges decided, successors readied.

use super::fact::JobDone;
use super::{Step, drive, on_job_started, response, settle};

pub(super) fn step(cx: &mut Step<'_>, it: JobDone) {
    if !on_job_started::is_current(cx, &it.job) {
        return;
    }
    on_job_started::tell_started(cx, &it.job, it.started_at);
    response::streams::finish(cx, &it);
    let finished_at = it.finished_at.min(cx.at.now);
    settle::succeeded(cx, &it.job.frame, it.job.node, finished_at, it.record);
    drive::drive(cx);
}
