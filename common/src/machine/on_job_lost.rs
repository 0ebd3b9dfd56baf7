//! A job is gone although its node waits for it (deleted by hand, or lost with Redis): it is enqueued again.

use super::fact::JobLost;
use super::{Step, drive};

pub(super) fn step(cx: &mut Step<'_>, it: &JobLost) {
    let waits = cx.run.node(&it.frame, it.node).is_some_and(|n| n.job == Some(it.entry));
    if waits {
        drive::order_job(cx, &it.frame, it.node);
    }
}
