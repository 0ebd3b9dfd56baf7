//! The read loop: takes free permits, reads as many jobs, and starts each. Only this loop takes jobs, so a worker never
//! holds more than it can run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::ids::ShardId;
use tidemill_common::store::{Delivered, JobReader, StoreError};
use tidemill_common::wire::job::node_in;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::jobs::backoff::Backoff;
use crate::jobs::begin::begin;
use crate::jobs::in_flight::{JobPlace, Stream};
use crate::jobs::shared::Core;
use crate::jobs::takeover::TakeOver;
use crate::metrics;

/// Longest wait for jobs on all streams. The loop proves at least this often that it is alive.
const BLOCK: Duration = Duration::from_secs(1);
/// Longest wait on some of the streams, because the others are not read meanwhile.
const BLOCK_SUBSET: Duration = Duration::from_millis(50);
/// Most jobs of one stream per read.
const READ_MAX: usize = 64;
/// Time between two checks for new shards.
const REFRESH: Duration = Duration::from_secs(5);

/// Takes jobs until the worker stops.
pub(crate) async fn run(core: Arc<Core>) {
    let mut stopping = core.stopping.subscribe();
    let mut consumer = Consumer::new(core);
    tokio::select! {
        // Jobs of an interrupted read are returned at the end of the stop.
        _ = stopping.wait_for(|stopping| *stopping) => {}
        never = consumer.consume() => match never {},
    }
}

struct Consumer {
    core: Arc<Core>,
    reader: Option<Box<dyn JobReader>>,
    streams: Vec<Stream>,
    refreshed: Option<Instant>,
    /// The index of the first stream of the next subset.
    next: usize,
    takeover: TakeOver,
    /// Shards of which an answer may have been lost. This worker may hold jobs of them without knowing.
    lost: BTreeSet<ShardId>,
    /// Shards that cannot be read although others can.
    silent: BTreeSet<ShardId>,
}

impl Consumer {
    fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            reader: None,
            streams: Vec::new(),
            refreshed: None,
            next: 0,
            takeover: TakeOver::new(),
            lost: BTreeSet::new(),
            silent: BTreeSet::new(),
        }
    }

    async fn consume(&mut self) -> std::convert::Infallible {
        let mut backoff = Backoff::default();
        loop {
            self.core.liveness.turn();
            let Some(permits) = free_permits(&self.core).await else { continue };
            match self.read_round(permits).await {
                Ok(()) => {
                    self.core.reading.works();
                    backoff.reset();
                }
                Err(error) => {
                    self.core.reading.failed(&error);
                    self.core.liveness.disturb();
                    self.reader = None;
                    self.silent.clear();
                    self.lost.extend(self.streams.iter().map(|(shard, _)| *shard));
                    backoff.wait().await;
                }
            }
        }
    }

    async fn read_round(&mut self, mut permits: OwnedSemaphorePermit) -> Result<(), StoreError> {
        self.refresh().await?;
        self.adopt(&mut permits).await?;
        if self.takeover.is_due(&self.core) {
            let answering = self.streams.iter().filter(|(shard, _)| !self.silent.contains(shard));
            let answering: Vec<Stream> = answering.cloned().collect();
            self.takeover.look(&self.core, &answering, &mut permits).await?;
        }
        if permits.num_permits() == 0 {
            return Ok(());
        }
        for job in self.read(permits.num_permits()).await? {
            self.start_or_return(job, &mut permits);
        }
        Ok(())
    }

    /// Lists the streams: one per shard and queue. Shards may be added while the worker runs.
    async fn refresh(&mut self) -> Result<(), StoreError> {
        if self.refreshed.is_some_and(|at| at.elapsed() < REFRESH) {
            return Ok(());
        }
        let meta = match self.core.jobs.namespace().await {
            Ok(meta) => meta,
            // In a cluster the shards may be on other servers than the namespace.
            Err(error) if error.is_passing() && !self.streams.is_empty() => {
                tracing::debug!(%error, "the number of shards cannot be read; going on with those known");
                self.refreshed = Some(Instant::now());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let of_queue = |queue: &Arc<str>| {
            let queue = queue.clone();
            (0..meta.shards).map(move |shard| (ShardId(shard), queue.clone()))
        };
        self.streams = self.core.settings.queues.iter().flat_map(of_queue).collect();
        self.refreshed = Some(Instant::now());
        Ok(())
    }

    /// Reads at most `free` jobs. The store counts per stream, so with few permits only some streams are read at a
    /// time.
    async fn read(&mut self, free: usize) -> Result<Vec<Delivered>, StoreError> {
        let all = self.streams.len();
        if all > 0 && free >= all {
            let streams = self.streams.clone();
            return self.read_streams(&streams, (free / all).min(READ_MAX), BLOCK).await;
        }
        let mut seen = 0;
        while seen < all {
            let some = self.rotate(free.min(all - seen));
            seen += some.len();
            let jobs = self.read_streams(&some, 1, Duration::ZERO).await?;
            if !jobs.is_empty() {
                return Ok(jobs);
            }
        }
        let some = self.rotate(free);
        self.read_streams(&some, 1, BLOCK_SUBSET).await
    }

    /// Returns the next `count` streams in rotation.
    fn rotate(&mut self, count: usize) -> Vec<Stream> {
        let some = self.streams.iter().cycle().skip(self.next).take(count.min(self.streams.len()));
        let some: Vec<Stream> = some.cloned().collect();
        self.next = (self.next + some.len()) % self.streams.len().max(1);
        some
    }

    async fn read_streams(
        &mut self,
        streams: &[Stream],
        count: usize,
        block: Duration,
    ) -> Result<Vec<Delivered>, StoreError> {
        let core = &self.core;
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(core.jobs.job_reader(&core.consumer).await?),
        };
        core.handed_back.read_by(reader.id());
        let started = Instant::now();
        let jobs = reader.read(streams, count, block).await?;
        let outages = reader.outages();
        // Nobody could renew jobs there meanwhile.
        outages.silent.iter().chain(&outages.back).for_each(|shard| core.liveness.disturb_shard(*shard));
        self.lost.extend(outages.back);
        self.silent = outages.silent;
        if started.elapsed() > block + core.settings.lease / 3 {
            // The store or this process stalled, and leases ran on meanwhile.
            core.liveness.disturb();
        }
        Ok(jobs)
    }

    /// Starts jobs that this worker holds without knowing.
    ///
    /// # Errors
    /// None of the shards answers. Those that do not are tried again later.
    async fn adopt(&mut self, permits: &mut OwnedSemaphorePermit) -> Result<(), StoreError> {
        let (lost, mut failed, mut is_any) = (std::mem::take(&mut self.lost), None, false);
        for shard in lost {
            if self.silent.contains(&shard) {
                self.lost.insert(shard);
                continue;
            }
            match self.adopt_of(shard, permits).await {
                Ok(()) => is_any = true,
                Err(error) => {
                    self.lost.insert(shard);
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if !is_any => Err(error),
            Some(_) | None => Ok(()),
        }
    }

    async fn adopt_of(
        &mut self,
        shard: ShardId,
        permits: &mut OwnedSemaphorePermit,
    ) -> Result<(), StoreError> {
        for (shard, queue) in self.streams.iter().filter(|(of, _)| *of == shard) {
            // Check before and after: a job that ends in between is only in the first set.
            let before = self.core.in_flight.by_stream().remove(&(*shard, queue.clone())).unwrap_or_default();
            for job in self.core.jobs.held(*shard, queue, &self.core.consumer).await? {
                let place = JobPlace { shard: *shard, queue: queue.clone(), entry: job.entry };
                let known = before.iter().any(|(entry, _)| *entry == job.entry);
                if !known && !self.core.in_flight.contains(&place) {
                    tracing::info!(run = job.run, node = node_in(&job.body), entry = %job.entry, %queue, "found a job whose delivery was lost on the way");
                    self.start_or_return(job, permits);
                }
            }
        }
        Ok(())
    }

    /// Starts a job if there is a permit for it; otherwise returns it to its queue.
    fn start_or_return(&self, job: Delivered, permits: &mut OwnedSemaphorePermit) {
        match permits.split(1) {
            Some(permit) => begin(&self.core, job, permit),
            None => {
                metrics::HANDED_BACK.count();
                tokio::spawn(hand_back(self.core.clone(), job));
            }
        }
    }
}

/// Takes all free permits, at least one. `None` when none became free in time.
async fn free_permits(core: &Core) -> Option<OwnedSemaphorePermit> {
    let permits = &core.permits;
    let waited = tokio::time::timeout(BLOCK, permits.clone().acquire_owned()).await;
    let mut first = waited.ok()?.ok()?;
    let more = u32::try_from(permits.available_permits()).unwrap_or(u32::MAX);
    if more > 0
        && let Ok(more) = permits.clone().try_acquire_many_owned(more)
    {
        first.merge(more);
    }
    Some(first)
}

/// Returns a job to its queue. After an error its lease expires instead.
pub(crate) async fn hand_back(core: Arc<Core>, job: Delivered) {
    let entries = [(job.entry, job.number)];
    if let Err(error) = core.jobs.hand_back(job.shard, &job.queue, &core.consumer, &entries).await {
        core.reading.failed(&error);
    }
}
