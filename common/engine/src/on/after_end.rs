//! Applies facts that arrive after the run has ended: costs are added to its ledger and totals, the rest is ignored.

use crate::Fact;
use crate::cost::{charges, ledger};
use crate::fact::{ChildEvent, JobDone};
use crate::flow::containers;
use crate::on::child;
use crate::state::cost::Cost;
use crate::state::run::{NodeState, NodeStatus};
use crate::step::Step;

/// Applies a fact to a run that has ended: adds costs to its ledger and totals, and ignores the rest.
pub(crate) fn step(cx: &mut Step<'_>, fact: Fact) {
    match fact {
        Fact::JobStepped(it) => {
            if let Some(charge) = &it.charge {
                charges::count(cx, &it.job, charge);
            }
        }
        Fact::Child(it) => {
            let job = child::of_child(&it);
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
                ChildEvent::Step { charge: Some(charge), .. } => charges::count(cx, &job, &charge),
                ChildEvent::Retry { record, .. } | ChildEvent::Ended { record, .. } => {
                    child::cost(cx, &job, it.number, &record);
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
        | Fact::JobCalled(_)
        | Fact::JobLost(_)
        | Fact::Defect(_)
        | Fact::TimerFired(_)
        | Fact::RunDeadline(_)
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
    let usage = Cost::of(it.record.usage.as_deref());
    if usage != Cost::default() {
        cx.update(frame, node, |state| state.cost = state.cost.plus(&usage.without(&state.charged)));
    }
}
