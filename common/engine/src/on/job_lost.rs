//! Queues a job again that has vanished from Redis while its node waits for it (deleted by hand, or lost with data).
//! The old entry is taken back, so that no worker executes it in vain if it still exists.

use crate::fact::JobLost;
use crate::flow::{ready, subruns, timeouts};
use crate::order::changes::CancelledJob;
use crate::step::Step;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: &JobLost) {
    let waits = cx.run.node(&it.frame, it.node).is_some_and(|n| n.job == Some(it.entry));
    if waits {
        let queue = cx.run.graph.node(it.node).settings.queue.clone();
        let execution = cx.run.execution(&it.frame, it.node);
        cx.out.cancelled.push(CancelledJob { queue, entry: it.entry, execution });
        // The timers of the lost job do not apply to the new one.
        let attempt = cx.run.node(&it.frame, it.node).map_or(1, |n| n.attempt);
        timeouts::over(cx, &it.frame, it.node, attempt);
        subruns::leave(cx, &it.frame, it.node);
        ready::order_job(cx, &it.frame, it.node);
    }
}
