//! Moves the clock of the run ([`crate::state::clock`]): when it begins, when a worker begins a job, and when the job is
//! over for the worker.

use crate::fact::JobRef;
use crate::state::clock::Clock;
use crate::state::run::{NodeState, NodeStatus};
use crate::step::Step;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::FramePath;
use tidemill_workflow::graph::NodeIx;

/// Begins the run, and with it the clock.
pub(crate) fn begin(cx: &mut Step<'_>) {
    let now = cx.at.now;
    cx.run.started_at = Some(now);
    // Not noted as a change: a run that has stored no clock has this one.
    cx.run.clock = Clock { at: now, idle: 0 };
}

/// Notes that a delivery begins, and returns the clock of its begin.
pub(crate) fn job_begins(cx: &mut Step<'_>, job: &JobRef, at: Timestamp) -> Clock {
    if let Some(lost_at) = job.lost_at {
        job_lost(cx, job, lost_at.min(at));
    }
    let clock = cx.clock();
    clock.begins(at);
    *clock
}

/// Counts what a worker had worked that lost the job: until its last sign of life.
#[inline(never)]
fn job_lost(cx: &mut Step<'_>, job: &JobRef, until: Timestamp) {
    let is_older = |node: &&NodeState| node.status == NodeStatus::Running && node.delivery < job.delivery;
    let Some(node) = cx.run.node(&job.frame, job.node).filter(is_older) else { return };
    if until > cx.run.clock.at_begin_of(node, cx.at.now).at {
        job_worked(cx, &job.frame, job.node, until);
    }
}

/// Counts the work of a job that a worker has begun, until a moment. The worker does not hold it any longer.
pub(crate) fn job_worked(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, until: Timestamp) {
    let now = cx.at.now;
    // Every caller writes the node too, because it ends, waits, or begins again.
    let Some(begun) = cx.take_clock(frame, node) else { return };
    if cx.clock().worked(begun, until.min(now)) {
        let idle = cx.run.clock.idle;
        lower_others(cx, idle);
    }
}

/// A gap was no idle time, so it was none for the other running jobs either.
#[inline(never)]
fn lower_others(cx: &mut Step<'_>, idle: i64) {
    let is_higher = |state: &NodeState| state.is_held() && state.clock.idle > idle;
    let mut higher = Vec::new();
    for (path, frame) in &cx.run.frames {
        let found = frame.nodes.iter().enumerate().filter(|(_, state)| is_higher(state));
        higher.extend(found.map(|(at, _)| (path.clone(), NodeIx(u32::try_from(at).unwrap_or(u32::MAX)))));
    }
    for (frame, node) in higher {
        cx.update(&frame, node, |state| state.clock.idle = idle);
    }
}
