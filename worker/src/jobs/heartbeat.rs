//! A separate thread that renews the leases of held jobs, drops lost jobs, and reports that this worker is alive. So a
//! busy read loop loses no lease. For a stuck read loop it renews nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tidemill_common::crash;
use tidemill_common::store::{Jobs, StoreError};
use tokio::sync::oneshot;

use crate::jobs::in_flight::{JobPlace, Stream};
use crate::jobs::shared::Core;
use crate::metrics;

/// Creates the store of the heartbeat. It is called on the heartbeat thread, so that the connections belong to that
/// thread.
pub type OwnStore = Box<dyn FnOnce() -> Result<Arc<dyn Jobs>, StoreError> + Send>;

/// The running thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    _stop: oneshot::Sender<()>,
}

/// Starts the thread.
///
/// # Errors
/// The system provides no thread or no timer.
pub(crate) fn start(core: Arc<Core>, store: Option<OwnStore>) -> std::io::Result<Heartbeat> {
    let (stop, stopped) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("heartbeat".into()).spawn(move || {
        let jobs = match store.map(|make| runtime.block_on(async { make() })) {
            Some(Ok(own)) => own,
            Some(Err(error)) => {
                tracing::warn!(%error, "the heartbeat shares the connection of the read loop");
                core.jobs.clone()
            }
            None => core.jobs.clone(),
        };
        runtime.block_on(async move {
            tokio::select! {
                () = keep_beating(&core, &*jobs) => {}
                _ = stopped => {}
            }
        });
    })?;
    Ok(Heartbeat { _stop: stop })
}

async fn keep_beating(core: &Core, jobs: &dyn Jobs) {
    let lease = core.settings.lease;
    loop {
        let wait = match beat(core, jobs).await {
            Ok(()) => {
                core.beating.works();
                lease / 3
            }
            Err(error) => {
                core.beating.failed(&error);
                (lease / 10).min(Duration::from_secs(1))
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Renews all held jobs, stream by stream, and drops jobs the store reports as lost. Notes which streams could not be
/// renewed.
///
/// # Errors
/// An error of the store. The other streams were still renewed.
pub(crate) async fn beat(core: &Core, jobs: &dyn Jobs) -> Result<(), StoreError> {
    if !core.liveness.moves() {
        tracing::error!("the read loop is stuck; its jobs are left to other workers");
        return Ok(());
    }
    let held = core.in_flight.by_stream();
    metrics::JOBS_HELD.set(held.values().map(Vec::len).sum::<usize>() as f64);
    let renewed = join_all(held.iter().map(|(stream, entries)| renew(core, jobs, stream, entries)));
    let ttl = core.settings.lease.saturating_mul(3);
    let (renewed, fleet) = tokio::join!(renewed, jobs.announce_worker(&core.consumer, ttl));
    let failed = held.keys().zip(&renewed).filter(|(_, renewed)| renewed.is_err());
    if renewed.iter().all(Result::is_err) && (fleet.is_err() || !renewed.is_empty()) {
        core.liveness.disturb();
    } else {
        // One server of a cluster does not answer; the others keep their jobs.
        failed.for_each(|(stream, _)| core.liveness.disturb_shard(stream.0));
    }
    let fleet = fleet?;
    core.liveness.set_fleet(fleet);
    metrics::FLEET.set(fleet as f64);
    // A record that cannot be written, for example in a full Redis, must not stop the renewal of jobs.
    match core.setup.write(jobs, (&*core.consumer, ttl, held.values().map(Vec::len).sum())).await {
        Ok(()) => core.recording.works(),
        Err(error) => core.recording.failed(&error),
    }
    renewed.into_iter().collect()
}

async fn renew(
    core: &Core,
    jobs: &dyn Jobs,
    (shard, queue): &Stream,
    entries: &[(tidemill_common::ids::EntryId, u32)],
) -> Result<(), StoreError> {
    let ids: Vec<_> = entries.iter().map(|(entry, _)| *entry).collect();
    let lost = jobs.heartbeat(*shard, queue, &core.consumer, &ids).await?;
    crash::pass(crash::CrashPoint::BeatDone);
    for (entry, number) in entries.iter().filter(|(entry, _)| lost.contains(entry)) {
        let place = JobPlace { shard: *shard, queue: queue.clone(), entry: *entry };
        // A result that was accepted meanwhile has already left the map.
        let (run, node) = core.in_flight.described(&place).unzip();
        if core.in_flight.lose(&place, *number) {
            metrics::JOBS_LOST.count();
            let (run, node) = (run.map(tracing::field::display), node.map(tracing::field::display));
            tracing::info!(run, node, %shard, %queue, %entry, "job no longer belongs to this worker and was dropped");
        }
    }
    Ok(())
}
