//! Takes over jobs of dead workers, and gives up poison messages: jobs that no worker finishes.
//!
//! All workers together check each stream about twice a second, or three times while jobs of it are held. A returned
//! job is announced and taken at once. After this worker's connection came up, broke or stalled, all jobs look
//! abandoned for one lease, because no worker could renew them. Until then the worker takes only returned jobs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::failure::EngineErrorType;
use tidemill_common::ids::ShardId;
use tidemill_common::store::{StoreError, withheld};
use tidemill_common::wire::job::Job;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::jobs::backoff::fraction;
use crate::jobs::begin::begin;
use crate::jobs::handle::JobHandle;
use crate::jobs::in_flight::Stream;
use crate::jobs::shared::Core;
use crate::metrics;

/// Most jobs taken over per check of one stream.
const TAKEN_MAX: usize = 16;

/// The idle time that only returned jobs reach: the store sets their last sign of life to the epoch.
pub(crate) const HANDED_BACK: Duration = Duration::from_secs(365 * 24 * 3600);

/// Longest time between two checks of a single worker when the last check found no held jobs. With more workers each
/// checks proportionally less often.
const LOOK_EVERY: Duration = Duration::from_millis(750);

/// The same when jobs are held, possibly by a dead worker.
const LOOK_EVERY_HELD: Duration = Duration::from_millis(400);

/// Shards for which a returned job was announced.
#[derive(Debug, Default)]
pub(crate) struct HandedBack {
    shards: Mutex<BTreeSet<ShardId>>,
    /// The id of the connection that waits for jobs.
    reader: AtomicU64,
}

impl HandedBack {
    /// Sets the connection that waits for jobs.
    pub(crate) fn read_by(&self, reader: u64) {
        self.reader.store(reader, Ordering::Relaxed);
    }
    /// Notes the shard and wakes the read loop, which alone takes jobs. After an error the next check finds the job.
    pub(crate) async fn hear(&self, core: &Core, shard: ShardId) {
        if core.setup.has_passed() {
            // The job may be one that only others can do. They come first; a due check finds what they leave.
            return;
        }
        let is_first = self.lock().insert(shard);
        if is_first && !core.liveness.is_stopping() {
            drop(core.jobs.wake(self.reader.load(Ordering::Relaxed)).await);
        }
    }
    fn take(&self) -> BTreeSet<ShardId> {
        std::mem::take(&mut *self.lock())
    }
    fn lock(&self) -> MutexGuard<'_, BTreeSet<ShardId>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time of the next check.
#[derive(Debug)]
pub(crate) struct TakeOver {
    next: Instant,
    /// Longest time between the next check and the one after it.
    every: Duration,
}

impl TakeOver {
    pub(crate) fn new() -> Self {
        Self { next: Instant::now(), every: LOOK_EVERY }
    }

    pub(crate) fn is_due(&self, core: &Core) -> bool {
        Instant::now() >= self.next || !core.handed_back.lock().is_empty()
    }

    /// Checks the streams that are due, as far as permits allow, and starts the jobs found.
    ///
    /// # Errors
    /// An error of the store. This worker may then hold jobs it does not know of.
    pub(crate) async fn look(
        &mut self,
        core: &Arc<Core>,
        streams: &[Stream],
        permits: &mut OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        let announced = core.handed_back.take();
        let is_due = Instant::now() >= self.next;
        if is_due {
            let workers = u32::try_from(core.liveness.fleet()).unwrap_or(u32::MAX);
            self.next = Instant::now() + self.every.saturating_mul(workers).mul_f64(0.5 + fraction() / 2.0);
        }
        let lease = core.settings.lease;
        let idle = if core.liveness.steady_for(lease) { lease } else { HANDED_BACK };
        let wanted: Vec<Stream> =
            streams.iter().filter(|(shard, _)| is_due || announced.contains(shard)).cloned().collect();
        // One round trip for all streams, so that idle workers cause little load.
        let held = core.jobs.are_held(&wanted).await?;
        if is_due {
            self.every = if held.contains(&true) { LOOK_EVERY_HELD } else { LOOK_EVERY };
        }
        for ((shard, queue), _) in wanted.iter().zip(held).filter(|(_, is_held)| *is_held) {
            let count = permits.num_permits().min(TAKEN_MAX);
            if count == 0 {
                break;
            }
            let taken = core.jobs.take_over(*shard, queue, &core.consumer, idle, count).await?;
            if taken.len() == TAKEN_MAX {
                // A worker that held many jobs is gone, so there are probably more.
                self.next = Instant::now();
            }
            for job in taken {
                let Some(permit) = permits.split(1) else { break };
                metrics::JOBS_TAKEN.count();
                crash::pass(CrashPoint::JobTakenOver);
                tracing::info!(run = job.run, queue = %job.queue, entry = %job.entry, number = job.number, "job taken over");
                begin(core, job, permit);
            }
        }
        Ok(())
    }
}

/// Returns true if a job was delivered too often to be tried again.
pub(crate) fn is_worn_out(handle: &JobHandle) -> bool {
    handle.name.holder.counted() > handle.core.settings.deliveries_max
}

/// Fails a job that no worker finishes. The dead letter contains no secrets of the workflow.
pub(crate) async fn give_up(handle: JobHandle, job: Job, body: String) {
    metrics::JOBS_ENDED.count_for("given_up");
    let times = handle.name.holder.counted() - 1;
    let reason =
        format!("node {} was delivered {times} times and no worker returned a result", handle.name.node);
    tracing::error!(run = %handle.run, node = %handle.name.node, times, "job given up");
    let graph = handle.core.workflows.get(handle.place.shard, &job.graph).await;
    let body = match graph {
        Ok(graph) => graph.hidden.hidden_json(body, 1),
        Err(_) => withheld(&body),
    };
    handle.give_up(EngineErrorType::WorkerLost, reason, body);
}
