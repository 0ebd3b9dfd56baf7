//! A job is gone although its node waits for it (deleted by hand, or lost with Redis): it is enqueued again.
//! What may be left of the old entry is taken back, so that nobody works on it for nothing.

use super::changes::CancelledJob;
use super::fact::JobLost;
use super::{Step, drive, timeouts};

#[inline(never)]
pub(super) fn step(cx: &mut Step<'_>, it: &JobLost) {
    let waits = cx.run.node(&it.frame, it.node).is_some_and(|n| n.job == Some(it.entry));
    if waits {
        let queue = cx.run.graph.node(it.node).settings.queue.clone();
        let execution = cx.run.execution(&it.frame, it.node);
        cx.out.cancelled.push(CancelledJob { queue, entry: it.entry, execution });
        // The time of whoever was at it says nothing of the next holder.
        let attempt = cx.run.node(&it.frame, it.node).map_or(1, |n| n.attempt);
        timeouts::over(cx, &it.frame, it.node, attempt);
        drive::order_job(cx, &it.frame, it.node);
    }
}
