//! Counts the cost of model calls within jobs. A recorded journal entry was paid for, even if its node or run has ended
//! since. Its fact is in the inbox exactly once, so the cost is counted even where its events are ignored.

use super::body::Spent;
use super::fact::{Charge, ChildEvent, JobDone, JobRef};
use super::run::{NodeState, NodeStatus};
use super::{Fact, Step, containers, ledger, on_child};

/// Counts a charge, also of an earlier holder of the job, and of a node that has ended already.
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

/// Adds the cost to the container, when the frame of the node has closed.
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

/// Applies a fact to a run that has ended: adds costs to its ledger and totals, and ignores the rest.
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
            // The run ended before the start of the child was reported.
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

/// Counts the cost of an attempt that the end of the run cut off.
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
