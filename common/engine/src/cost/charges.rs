//! Counts the cost of model calls within jobs. A recorded journal entry was paid for, even if its node or run has ended
//! since. Its fact is in the inbox exactly once, so the cost is counted even where its events are ignored.

use crate::cost::ledger;
use crate::fact::{Charge, JobRef};
use crate::state::cost::Cost;
use crate::step::Step;

/// Counts a charge, also of an earlier holder of the job, and of a node that has ended already.
pub(crate) fn count(cx: &mut Step<'_>, job: &JobRef, charge: &Charge) {
    let cost = Cost::of(Some(&charge.usage));
    if cx.run.node(&job.frame, job.node).is_some() {
        cx.update(&job.frame, job.node, |node| {
            node.cost = node.cost.plus(&cost);
            node.charged = node.charged.plus(&cost);
        });
    } else {
        of_closed_frame(cx, job, &cost);
    }
    let (provider, model) = &charge.model;
    let by = ledger::By::of(charge.run, provider, model);
    ledger::note(cx, &job.frame, job.node, &charge.key, &charge.usage, by);
}

/// Adds the cost to the container, when the frame of the node has closed.
fn of_closed_frame(cx: &mut Step<'_>, job: &JobRef, cost: &Cost) {
    let mut frame = job.frame.clone();
    while let Some(container) = frame.last().map(|(container, _)| container.to_string()) {
        frame = frame.parent();
        if let Some(node) = cx.run.graph.find(&container)
            && cx.run.node(&frame, node).is_some()
        {
            return cx.update(&frame, node, |node| node.inside.cost = node.inside.cost.plus(cost));
        }
    }
}
