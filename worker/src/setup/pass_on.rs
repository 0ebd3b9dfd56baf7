//! Hands a job back because this worker's set-up lacks what it needs, when another living worker has it.

use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::need::Need;
use tidemill_common::nodes::NodeResult;

use crate::jobs::handle::JobHandle;
use crate::jobs::shared::Core;
use crate::metrics;
use crate::setup::decide::{self, NodeNames, Wanted};

/// Returns true if the failed job is to be handed back: then this worker must not report it. Otherwise the failure is
/// final, and says that no worker can do the job.
pub(crate) async fn is_for_another(handle: &JobHandle, node: &Node, result: &mut NodeResult) -> bool {
    match &mut result.failure {
        Some(failure) => failure_is_for_another(handle, Some(node), failure).await,
        None => false,
    }
}

/// As [`is_for_another`], for a failure without a result.
pub(crate) async fn failure_is_for_another(
    handle: &JobHandle,
    node: Option<&Node>,
    failure: &mut NodeFailure,
) -> bool {
    let Some(need) = failure.lacks.as_deref().cloned() else { return false };
    let core = &handle.core;
    core.setup.note(&need, &failure.message);
    // Others must read what is missing here before they get the job.
    let of = (&*core.consumer, core.settings.lease.saturating_mul(3), core.in_flight.len());
    let is_noted = !core.setup.is_changed() || core.setup.write(&*core.jobs, of).await.is_ok();
    if is_noted && others_can(core, &handle.place.queue, &wanted(core, node, &need)).await {
        return true;
    }
    failure.lacks = None;
    failure.message.push_str(match (failure.message.ends_with('.'), &need) {
        (true, _) => " No living worker can run it.",
        // The text of a profile that does not exist is fixed, because workflows compare it.
        (false, Need::Profile { .. }) => "",
        (false, _) => "; no living worker can run it",
    });
    tracing::info!(run = %handle.run, node = %handle.name.node, missing = %need, "no living worker can do the job");
    false
}

fn wanted(core: &Core, node: Option<&Node>, need: &Need) -> Wanted {
    let is_hosted_here = node.is_some_and(|node| core.hosts.takes(node));
    Wanted { need: need.clone(), node: node.map(NodeNames::of), is_hosted_here }
}

/// Returns true if another living worker of the queue can do the job.
async fn others_can(core: &Core, queue: &str, wanted: &Wanted) -> bool {
    let Some(fleet) = core.setup.fleet(&*core.jobs).await else { return false };
    let key = core.setup.fingerprint();
    !decide::able(&fleet, &core.consumer, queue, wanted, key.as_deref()).is_empty()
}

/// Hands a job back for which [`is_for_another`] has returned true.
pub(crate) async fn pass(handle: &JobHandle, node: Option<&Node>, failure: Option<&NodeFailure>) {
    let core = &handle.core;
    let (place, number) = (&handle.place, handle.number);
    if let Some(need) = failure.and_then(|failure| failure.lacks.as_deref()) {
        let is_first = core.setup.remember(place, wanted(core, node, need));
        if is_first {
            tracing::warn!(run = %handle.run, node = %handle.name.node, missing = %need, worker = %core.consumer,
                "this worker cannot do the job and hands it back to others that can");
        }
    }
    metrics::HANDED_BACK.count();
    // First removed, so that no heartbeat renews it after it was returned.
    core.in_flight.settle(place, number);
    let entries = [(place.entry, number)];
    if let Err(error) = core.jobs.hand_back(place.shard, &place.queue, &core.consumer, &entries).await {
        core.reading.failed(&error);
    }
}
