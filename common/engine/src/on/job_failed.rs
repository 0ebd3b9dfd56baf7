//! Applies a failure that a worker reports: another attempt, the node's error strategy, or the end of the run.

use crate::fact::JobDone;
use crate::flow::{clock, containers, hooks, ready, settle, subruns, time_limit, warnings};
use crate::on::job_started;
use crate::state::run::PendingEnd;
use crate::step::Step;
use tidemill_base::failure::EngineErrorType;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, mut it: JobDone) {
    if !job_started::is_current(cx, &it.job) {
        return;
    }
    job_started::emit_started(cx, &it.job, it.started_at);
    clock::job_worked(cx, &it.job.frame, it.job.node, it.finished_at);
    warnings::note_all(cx, it.job.node, &mut it.record.warnings);
    if it.record.error_type == EngineErrorType::RunTimeOver.name() {
        return time_limit::ended_by_worker(cx);
    }
    // Also when the node does not end with its job.
    subruns::leave(cx, &it.job.frame, it.job.node);
    if containers::is_part(cx, &it.job.frame, it.job.node) {
        containers::part_done(cx, &it.job.frame, it.job.node, *it.record);
    } else {
        let (frame, node) = (&it.job.frame, it.job.node);
        let finished_at = it.finished_at.min(cx.at.now);
        match hooks::take(cx, frame, node) {
            Some(ended) => hooks::failed(cx, (frame, node), finished_at, ended, it.record),
            None if hooks_have_not_run(&it.record.error_type) => {
                hooks::end_node(cx, frame, node, PendingEnd { failed: true, record: it.record });
            }
            None => settle::failed(cx, frame, node, finished_at, it.record),
        }
    }
    ready::advance(cx);
}

/// True for failures with which the worker could not run the hooks of the node.
fn hooks_have_not_run(error_type: &str) -> bool {
    use EngineErrorType::{BlobMissing, WorkerLost, WorkerPanic};
    [WorkerLost, WorkerPanic, BlobMissing].iter().any(|class| class.name() == error_type)
}
