//! Applies a result that a worker reports: the node ends or waits, a phase goes to its container, and the end of a node
//! whose hooks have run now counts.

use super::fact::JobDone;
use super::{Step, containers, drive, late_hooks, on_job_started, pause, response, settle};

pub(super) fn step(cx: &mut Step<'_>, mut it: JobDone) {
    if !on_job_started::is_current(cx, &it.job) {
        return;
    }
    on_job_started::tell_started(cx, &it.job, it.started_at);
    let (frame, node) = (it.job.frame.clone(), it.job.node);
    if containers::is_part(cx, &frame, node) {
        containers::part_done(cx, &frame, node, *it.record);
    } else if let Some(ended) = late_hooks::take(cx, &frame, node) {
        let finished_at = it.finished_at.min(cx.at.now);
        late_hooks::told(cx, (&frame, node), finished_at, ended, it.record);
    } else if let Some(request) = pause::requested(&mut it.record) {
        pause::open(cx, &frame, node, request);
    } else {
        response::streams::finish(cx, &it);
        let finished_at = it.finished_at.min(cx.at.now);
        settle::succeeded(cx, &frame, node, finished_at, it.record);
    }
    drive::drive(cx);
}
