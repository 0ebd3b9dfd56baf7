//! What model calls within jobs have cost. A step that is recorded was paid for, whatever became of its node or its run
//! meanwhile: its fact lies in the inbox exactly once, and is counted when it is read. What it tells beside that may be void.

use super::body::Spent;
use super::fact::{Charge, ChildEvent, JobDone, JobRef};
use super::run::{NodeState, NodeStatus};
use super::{Fact, Step, containers, ledger, on_child};

/// Counts a call, also of a holder that is not the newest any more, and of a node that has ended without it.
pub(super) fn count(cx: &mut Step<'_>, job: &JobRef, charge: &Charge) {
    let spent = Spent::of(Some(&charge.usage));
    if cx.run.node(&job.frame, job.node).is_some() {
        cx.update(&job.frame, job.node, |node| {
            node.spent = node.spent.plus(&spent);
            node.charged = node.charged.plus(&spent);
        });
    } else {
        of_closed_frame(cx, job, &spent);
    }
    let (provider, model) = &charge.model;
    let by = ledger::By::of(charge.run, provider, model);
    ledger::note(cx, &job.frame, job.node, &charge.key, &charge.usage, by);
}

/// The item or round is closed: its container has what it cost.
fn of_closed_frame(cx: &mut Step<'_>, job: &JobRef, spent: &Spent) {
    let mut frame = job.frame.clone();
    while let Some(container) = frame.last().map(|(container, _)| container.to_string()) {
        frame = frame.parent();
        if let Some(node) = cx.run.graph.find(&container)
            && cx.run.node(&frame, node).is_some()
        {
            return cx.update(&frame, node, |node| node.inside.spent = node.inside.spent.plus(spent));
        }
    }
}

/// A run that is over is told something. Its ledger and its totals still take what was paid for; all else is void.
pub(super) fn behind_the_end(cx: &mut Step<'_>, fact: Fact) {
    match fact {
        Fact::JobStepped(it) => {
            if let Some(charge) = &it.charge {
                count(cx, &it.job, charge);
            }
        }
        Fact::Child(it) => {
            let job = on_child::of_child(&it);
            if matches!(
                it.what,
                ChildEvent::Started | ChildEvent::Chunk { .. } | ChildEvent::Step { charge: None, .. }
            ) {
                return;
            }
            // The end of the run has come before its beginning was heard of.
            let is_unheard = |state: &NodeState| state.status == NodeStatus::Unknown;
            if cx.run.node(&job.frame, job.node).is_some_and(is_unheard) {
                let at = cx.run.finished_at;
                cx.update(&job.frame, job.node, |state| {
                    (state.status, state.finished_at) = (NodeStatus::Stopped, at);
                });
            }
            match it.what {
                ChildEvent::Step { charge: Some(charge), .. } => count(cx, &job, &charge),
                ChildEvent::Retry { record, .. } | ChildEvent::Ended { record, .. } => {
                    on_child::cost(cx, &job, it.number, &record);
                }
                ChildEvent::Started | ChildEvent::Chunk { .. } | ChildEvent::Step { charge: None, .. } => {}
            }
        }
        Fact::JobSucceeded(it) | Fact::JobFailed(it) => whole(cx, &it),
        Fact::Start(_)
        | Fact::Begin
        | Fact::JobStarted(_)
        | Fact::JobChunk(_)
        | Fact::JobParked(_)
        | Fact::JobLost(_)
        | Fact::Defect(_)
        | Fact::TimerFired(_)
        | Fact::Continue
        | Fact::Stop(_)
        | Fact::Pause(_)
        | Fact::Resume
        | Fact::Update(_)
        | Fact::Answer(_)
        | Fact::OverBudget(_)
        | Fact::CallEnded(_)
        | Fact::ParentAsked(_)
        | Fact::ParentAnswered(_)
        | Fact::Import(_) => {}
    }
}

/// The end of an attempt that the end of the run has come before.
fn whole(cx: &mut Step<'_>, it: &JobDone) {
    let (frame, node) = (&it.job.frame, it.job.node);
    let was_cut_off =
        |state: &NodeState| state.status == NodeStatus::Stopped && state.attempt == it.job.attempt;
    if !cx.run.node(frame, node).is_some_and(was_cut_off) || containers::is_part(cx, frame, node) {
        return;
    }
    ledger::note_attempt(cx, frame, node, &it.record);
    let usage = Spent::of(it.record.usage.as_deref());
    if usage != Spent::default() {
        cx.update(frame, node, |state| state.spent = state.spent.plus(&usage.without(&state.charged)));
    }
}
