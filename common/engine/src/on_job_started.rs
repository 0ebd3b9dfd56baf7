//! A worker's first sign of life: when the attempt began, and in whose hands it is.

use super::events::EventKind;
use super::fact::{JobRef, JobStarted};
use super::run::NodeStatus;
use super::{Step, timeouts};
use tidemill_base::clock::Timestamp;

#[inline(never)]
pub(super) fn step(cx: &mut Step<'_>, it: &JobStarted) {
    if is_current(cx, &it.job) {
        tell_started(cx, &it.job, it.at);
    }
}

/// Whether the node waits for this very job, and this holder is not older than one already heard. Deliveries are counted
/// within an entry, so the holder of another one says nothing of them.
pub(super) fn is_current(cx: &Step<'_>, job: &JobRef) -> bool {
    cx.run.node(&job.frame, job.node).is_some_and(|node| {
        node.status.has_job()
            && node.attempt == job.attempt
            && node.job == Some(job.entry)
            && node.delivery <= job.delivery
    })
}

/// Tells that the node began, unless that was told before, and remembers who holds it.
pub(super) fn tell_started(cx: &mut Step<'_>, job: &JobRef, at: Timestamp) {
    let Some(node) = cx.run.node(&job.frame, job.node) else { return };
    let first = node.started_at.is_none();
    if node.status == NodeStatus::Running && node.delivery == job.delivery && !first {
        return;
    }
    hold(cx, job, Some(at));
    // Later attempts and deliveries begin silently, as on Dify.
    if first {
        let about = cx.about(&job.frame, job.node);
        cx.tell(EventKind::NodeRunStarted(about));
    }
}

/// Remembers who holds the job of a node. What runs inside the node comes before it: of the node itself nothing is told.
pub(super) fn heard(cx: &mut Step<'_>, job: &JobRef) {
    let is_known =
        |node: &super::run::NodeState| node.status == NodeStatus::Running && node.delivery == job.delivery;
    if !cx.run.node(&job.frame, job.node).is_some_and(is_known) {
        hold(cx, job, None);
    }
}

fn hold(cx: &mut Step<'_>, job: &JobRef, began: Option<Timestamp>) {
    let (now, number) = (cx.at.now, job.delivery);
    let mut was_queued = false;
    cx.update(&job.frame, job.node, |node| {
        was_queued = node.status == NodeStatus::Queued;
        node.status = NodeStatus::Running;
        node.delivery = number;
        if let Some(at) = began {
            // A worker's clock may run ahead; nothing begins after it was heard of.
            node.started_at.get_or_insert(at.min(now));
        }
    });
    if was_queued {
        timeouts::started(cx, &job.frame, job.node);
    }
}
