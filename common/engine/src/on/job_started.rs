//! Applies the first report of a worker on a job: when the attempt began, and which delivery holds it. The clock of the
//! run runs from there, to the end of the job.

use crate::fact::{JobRef, JobStarted};
use crate::flow::{clock, edges, subruns, timeouts};
use crate::state::run::NodeStatus;
use crate::step::Step;
use tidemill_base::clock::Timestamp;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: &JobStarted) {
    if is_current(cx, &it.job) {
        emit_started(cx, &it.job, it.at);
    }
}

/// True when the node waits for this job, and this delivery is not older than the newest one known. Delivery numbers
/// only compare within one entry, so a report on another entry never counts.
pub(crate) fn is_current(cx: &Step<'_>, job: &JobRef) -> bool {
    cx.run.node(&job.frame, job.node).is_some_and(|node| {
        node.status.has_job()
            && node.attempt == job.attempt
            && node.job == Some(job.entry)
            && node.delivery <= job.delivery
    })
}

/// Notes which delivery holds the job, and emits the start of the node, once.
pub(crate) fn emit_started(cx: &mut Step<'_>, job: &JobRef, at: Timestamp) {
    let Some(node) = cx.run.node(&job.frame, job.node) else { return };
    let first = node.started_at.is_none();
    if node.status == NodeStatus::Running && node.delivery == job.delivery && !first {
        return;
    }
    hold(cx, job, at, true);
    // Later attempts and deliveries begin silently, as on Dify.
    if first {
        let began = edges::started(cx, &job.frame, job.node);
        cx.emit(began);
    }
}

/// Notes which delivery holds the job of a parent. Its children run before it, so the parent has not begun and no event
/// is emitted. `at` is when the worker began.
pub(crate) fn note_holder(cx: &mut Step<'_>, job: &JobRef, at: Timestamp) {
    let is_known = |node: &crate::state::run::NodeState| {
        node.status == NodeStatus::Running && node.delivery == job.delivery
    };
    if !cx.run.node(&job.frame, job.node).is_some_and(is_known) {
        hold(cx, job, at, false);
    }
}

fn hold(cx: &mut Step<'_>, job: &JobRef, at: Timestamp, has_begun: bool) {
    let number = job.delivery;
    // A worker's clock may run ahead, but a start is never after the report of it.
    let at = at.min(cx.at.now);
    let before = cx.run.clock;
    let clock = clock::job_begins(cx, job, at);
    let (mut was_queued, mut is_known, mut attempt, mut has_ended) = (false, false, 1, false);
    cx.update(&job.frame, job.node, |node| {
        was_queued = node.status == NodeStatus::Queued;
        is_known = node.status == NodeStatus::Running && node.delivery == number;
        (attempt, has_ended) = (node.attempt, node.ended.is_some());
        if !is_known {
            node.clock = clock;
        }
        node.status = NodeStatus::Running;
        node.delivery = number;
        if has_begun {
            node.started_at.get_or_insert(at);
        }
    });
    if is_known {
        // The children of this job have begun before.
        cx.run.clock = before;
    } else {
        // The worker that had the job before no longer follows what it has called.
        subruns::leave(cx, &job.frame, job.node);
    }
    if was_queued {
        timeouts::started(cx, &job.frame, job.node, attempt, has_ended);
    }
}
