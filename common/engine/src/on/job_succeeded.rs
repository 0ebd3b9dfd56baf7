//! Applies a result that a worker reports: the node ends or waits, a phase goes to its container, and the end of a node
//! whose hooks have run now counts.

use crate::fact::JobDone;
use crate::flow::pauses;
use crate::flow::{clock, containers, hooks, ready, response, settle, subruns, warnings};
use crate::on::job_started;
use crate::step::Step;

pub(crate) fn step(cx: &mut Step<'_>, mut it: JobDone) {
    if !job_started::is_current(cx, &it.job) {
        return;
    }
    job_started::emit_started(cx, &it.job, it.started_at);
    clock::job_worked(cx, &it.job.frame, it.job.node, it.finished_at);
    let (frame, node) = (it.job.frame.clone(), it.job.node);
    warnings::note_all(cx, node, &mut it.record.warnings);
    // Also when the node does not end with its job.
    subruns::leave(cx, &frame, node);
    if containers::is_part(cx, &frame, node) {
        containers::part_done(cx, &frame, node, *it.record);
    } else if let Some(ended) = hooks::take(cx, &frame, node) {
        let finished_at = it.finished_at.min(cx.at.now);
        hooks::hook_ended(cx, (&frame, node), finished_at, ended, it.record);
    } else if let Some(request) = pauses::requested(&mut it.record) {
        pauses::open(cx, &frame, node, request);
    } else {
        response::streams::finish(cx, &it);
        let finished_at = it.finished_at.min(cx.at.now);
        settle::succeeded(cx, &frame, node, finished_at, it.record);
    }
    ready::advance(cx);
}
