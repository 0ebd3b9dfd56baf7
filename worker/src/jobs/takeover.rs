//! Takes over jobs of dead workers, and gives up poison messages: jobs that no worker finishes.
//!
//! All workers together check each stream about twice a second, or three times while jobs of it are held. A returned
//! job is announced and taken at once. After this worker's connection came up, broke or stalled, all jobs look
//! abandoned for one lease, because no worker could renew them. Until then the worker takes only returned jobs.
//! [`suspects`](crate::jobs::suspects) decides which of the others it takes; here is only what it does then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::failure::EngineErrorType;
use tidemill_common::ids::ShardId;
use tidemill_common::store::{Jobs, StaleJob, StoreError, TakeOver as Claimed, withheld};
use tidemill_common::wire::job::{Job, node_in};
use tidemill_common::wire::suspect::Suspect;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::jobs::backoff::fraction;
use crate::jobs::begin::{Earlier, begin_again};
use crate::jobs::consume::hand_back;
use crate::jobs::handle::JobHandle;
use crate::jobs::in_flight::{JobPlace, Stream};
use crate::jobs::shared::{Core, now};
use crate::jobs::suspects::{Change, HANDED_BACK, Situation, is_convicted, plan, silent_after};
use crate::metrics;

/// Most jobs that one request takes over.
const TAKEN_MAX: usize = 64;

/// Longest time between two checks of a single worker when the last check found no held jobs. With more workers each
/// checks proportionally less often.
const LOOK_EVERY: Duration = Duration::from_millis(1000);

/// The same when jobs are held, possibly by a dead worker.
const LOOK_EVERY_HELD: Duration = Duration::from_millis(400);

/// Reasons to look before the next check is due: shards for which a returned job was announced, and suspects that
/// wait until others have ended.
#[derive(Debug, Default)]
pub(crate) struct HandedBack {
    shards: Mutex<BTreeSet<ShardId>>,
    /// Suspects wait until this worker has ended others.
    suspects_wait: AtomicBool,
    /// This worker has ended suspects while others waited.
    has_room: AtomicBool,
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
        let is_first = self.lock().insert(shard);
        if is_first && !core.liveness.is_stopping() {
            drop(core.jobs.wake(self.reader.load(Ordering::Relaxed)).await);
        }
    }
    /// Notes that suspects have ended. If others wait, the read loop is woken.
    pub(crate) async fn suspects_ended(&self, jobs: &dyn Jobs) {
        if self.suspects_wait.swap(false, Ordering::Relaxed) {
            self.has_room.store(true, Ordering::Relaxed);
            drop(jobs.wake(self.reader.load(Ordering::Relaxed)).await);
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
        let asked = &core.handed_back;
        Instant::now() >= self.next || asked.has_room.load(Ordering::Relaxed) || !asked.lock().is_empty()
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
        let is_due = core.handed_back.has_room.swap(false, Ordering::Relaxed) || Instant::now() >= self.next;
        if is_due {
            let workers = u32::try_from(core.liveness.fleet()).unwrap_or(u32::MAX);
            self.next = Instant::now() + self.every.saturating_mul(workers).mul_f64(0.5 + fraction() / 2.0);
        }
        let wanted: Vec<Stream> =
            streams.iter().filter(|(shard, _)| is_due || announced.contains(shard)).cloned().collect();
        // One round trip for all streams, so that idle workers cause little load.
        let held = core.jobs.are_held(&wanted).await?;
        if is_due {
            self.every = if held.contains(&true) { LOOK_EVERY_HELD } else { LOOK_EVERY };
        }
        let held: Vec<Stream> =
            wanted.into_iter().zip(held).filter(|(_, is_held)| *is_held).map(|(stream, _)| stream).collect();
        if held.is_empty() {
            return Ok(());
        }
        let lease = core.settings.lease;
        // Of a part of the streams only returned jobs are taken: the others are judged by all that their worker held. In a
        // cluster these are its jobs on the servers that answer, because the others may be away for long.
        let is_steady = |stream: &Stream| is_due && core.liveness.steady_for(stream.0, lease);
        let (steady, disturbed): (Vec<Stream>, Vec<Stream>) = held.into_iter().partition(is_steady);
        for (streams, idle) in [(steady, silent_after(lease)), (disturbed, HANDED_BACK)] {
            if !streams.is_empty() {
                self.take(core, &streams, idle, permits).await?;
            }
        }
        Ok(())
    }

    /// Takes over jobs of these streams.
    async fn take(
        &mut self,
        core: &Arc<Core>,
        streams: &[Stream],
        idle: Duration,
        permits: &mut OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        let stale = core.jobs.stale(streams, idle).await?;
        if stale.jobs.iter().any(|job| core.setup.has_passed(&place_of(job))) {
            core.setup.look_at_fleet(&*core.jobs).await;
        }
        let plan = plan(
            &stale,
            &Situation {
                consumer: &core.consumer,
                lease: core.settings.lease,
                deliveries_max: core.settings.deliveries_max,
                permits: permits.num_permits(),
                window: core.in_flight.window(),
                barred: &|job| core.setup.is_for_others(&core.consumer, &place_of(job)),
            },
        );
        if idle < HANDED_BACK {
            core.handed_back.suspects_wait.store(plan.suspects_wait, Ordering::Relaxed);
        }
        let mut of_streams: BTreeMap<(ShardId, Arc<str>), Vec<Change>> = BTreeMap::new();
        for change in plan.changes {
            let StaleJob { shard, queue, .. } = &stale.jobs[change.job];
            of_streams.entry((*shard, queue.clone())).or_default().push(change);
        }
        for (stream, changes) in of_streams {
            for some in changes.chunks(TAKEN_MAX) {
                if !claim(core, &stream, some, permits).await? {
                    // Another worker was faster, so there may be others left for this one.
                    self.next = Instant::now();
                }
            }
        }
        Ok(())
    }
}

fn place_of(job: &StaleJob) -> JobPlace {
    JobPlace { shard: job.shard, queue: job.queue.clone(), entry: job.entry }
}

/// Asks the store for these changes and starts the jobs that this worker has then. Returns false if it did not get all.
async fn claim(
    core: &Arc<Core>,
    (shard, queue): &Stream,
    changes: &[Change],
    permits: &mut OwnedSemaphorePermit,
) -> Result<bool, StoreError> {
    let looked_at = now();
    let asked: Vec<Claimed> = changes.iter().map(|change| change.take_over.clone()).collect();
    let taken = core.jobs.take_over(*shard, queue, &core.consumer, core.settings.lease, &asked).await?;
    let got_all = taken.len() == asked.iter().filter(|it| it.new_number.is_some()).count();
    for job in taken {
        let change = changes.iter().find(|change| change.take_over.entry == job.entry);
        let suspect = change.and_then(|change| change.suspect.clone());
        let idle = change.map(|change| change.idle).filter(|idle| *idle < HANDED_BACK);
        let lost_at = idle.map(|idle| looked_at.before(idle));
        let Some(permit) = permits.split(1) else {
            tokio::spawn(hand_back(core.clone(), job));
            continue;
        };
        metrics::JOBS_TAKEN.count();
        crash::pass(CrashPoint::JobTakenOver);
        let suspects = suspect.as_ref().map_or(0, |it| it.size);
        tracing::info!(run = job.run, node = node_in(&job.body), queue = %job.queue, entry = %job.entry, number = job.number, suspects, "job taken over");
        begin_again(core, job, permit, Earlier { lost_at, suspect });
    }
    Ok(got_all)
}

/// Returns true if a job is not tried again: it was delivered too often, and it alone was the reason.
pub(crate) fn is_worn_out(handle: &JobHandle, suspect: &Suspect) -> bool {
    is_convicted(suspect, handle.name.holder.counted(), handle.core.settings.deliveries_max)
}

/// Fails a job that no worker finishes, and clears those that were suspected with it. The dead letter contains no
/// secrets of the workflow.
pub(crate) async fn give_up(handle: JobHandle, job: Job, body: String, suspect: Suspect) {
    metrics::JOBS_ENDED.count_for("given_up");
    let times = handle.name.holder.counted().saturating_sub(1).max(suspect.lost);
    if let Err(error) = handle.core.jobs.clear_suspects(&suspect.origin).await {
        tracing::warn!(%error, "the jobs that were suspected with a job that is given up are not cleared yet");
    }
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
