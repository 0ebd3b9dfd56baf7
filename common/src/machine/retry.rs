//! Whether and when a failed attempt is followed by another.

use std::time::Duration;

use super::Step;
use super::changes::{EventKind, NodeEnd, TimerChange};
use super::fact::Timer;
use super::run::NodeStatus;
use crate::graph::NodeIx;
use crate::ids::FramePath;

/// Sets the timer of the next attempt and tells of it; false when there is none left or the type has no retries.
pub(super) fn again(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, end: &NodeEnd) -> bool {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    let attempt = cx.run.node(frame, node).map_or(1, |n| n.attempt);
    if !spec.kind.spec().retries || !spec.retry.enabled || attempt > spec.retry.retries_max {
        return false;
    }
    let due = cx.at.now.plus(Duration::from_millis(spec.retry.interval_ms));
    cx.update(frame, node, |state| {
        state.status = NodeStatus::Retrying;
        state.finished_at = None;
        state.error = None;
        state.handle = None;
        state.delivery = 0;
    });
    let timer = Timer::Retry { frame: frame.clone(), node, attempt: attempt + 1 };
    cx.out.timers.push(TimerChange::Set(due, timer));
    cx.tell(EventKind::NodeRunRetry { end: end.clone(), index: attempt });
    cx.close_entry();
    true
}
