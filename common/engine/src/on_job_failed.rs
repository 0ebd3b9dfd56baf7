//! Applies a failure that a worker reports: another attempt, the node's error strategy, or the end of the run.

use super::fact::JobDone;
use super::run::Ended;
use super::{Step, containers, drive, late_hooks, on_job_started, settle};
use tidemill_base::failure::EngineErrorType;

#[inline(never)]
pub(super) fn step(cx: &mut Step<'_>, it: JobDone) {
    if !on_job_started::is_current(cx, &it.job) {
        return;
    }
    on_job_started::tell_started(cx, &it.job, it.started_at);
    if containers::is_part(cx, &it.job.frame, it.job.node) {
        containers::part_done(cx, &it.job.frame, it.job.node, *it.record);
    } else {
        let (frame, node) = (&it.job.frame, it.job.node);
        let finished_at = it.finished_at.min(cx.at.now);
        match late_hooks::take(cx, frame, node) {
            Some(ended) => late_hooks::failed(cx, (frame, node), finished_at, ended, it.record),
            None if hooks_have_not_run(&it.record.error_type) => {
                late_hooks::end(cx, frame, node, Ended { failed: true, record: it.record });
            }
            None => settle::failed(cx, frame, node, finished_at, it.record),
        }
    }
    drive::drive(cx);
}

/// True for failures with which the worker could not run the hooks of the node.
fn hooks_have_not_run(error_type: &str) -> bool {
    use EngineErrorType::{BlobMissing, WorkerLost, WorkerPanic};
    [WorkerLost, WorkerPanic, BlobMissing].iter().any(|class| class.name() == error_type)
}
