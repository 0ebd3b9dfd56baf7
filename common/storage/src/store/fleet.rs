//! The fleet: live workers with their records, and the queues that they serve.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, ShardId};
use tidemill_wire::worker::AboutWorker;

/// A worker in the list of live workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWorker {
    /// Its consumer name.
    pub name: String,
    /// Its last sign of life, by the store's clock.
    pub seen_at: Timestamp,
    /// The number of jobs that it holds; `None` without a record.
    pub held: Option<u64>,
    /// `None` when it has no record that can be read, for example because its version is older.
    pub about: Option<Arc<AboutWorker>>,
}

impl LiveWorker {
    /// Whether it takes jobs of this queue; `None` when that is unknown.
    pub fn serves(&self, queue: &str) -> Option<bool> {
        self.about.as_ref().map(|about| about.queues.iter().any(|known| known == queue))
    }
}

/// The state of one queue on one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueState {
    /// Jobs that no worker holds, those that were returned included.
    pub waiting: u64,
    /// Jobs that a worker holds.
    pub held: u64,
    /// The time at which the oldest waiting job was queued; `None` without one, and for a job of an older version.
    pub oldest: Option<Timestamp>,
    /// The places of the jobs that were asked for, in the order of the question.
    pub places: Vec<JobPlace>,
}

/// The place of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobPlace {
    /// Older jobs of this shard that wait; at most [`JOBS_COUNTED_MAX`](tidemill_base::limits::JOBS_COUNTED_MAX) are
    /// counted.
    pub before: u64,
    pub held: JobHeld,
    /// The time at which it was queued; `None` for a job of an older version.
    pub queued_at: Option<Timestamp>,
}

/// Who has a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum JobHeld {
    /// It waits for a worker.
    Waits,
    /// A worker holds it.
    By(String),
    /// This shard does not have it.
    #[default]
    Gone,
}

/// A shard and what is on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardUse {
    pub shard: ShardId,
    /// The scheduler that holds its lease; `None` when none does.
    pub owner: Option<String>,
    /// Runs that wait to begin.
    pub scheduled: u64,
    pub running: u64,
    pub paused: u64,
    /// Runs that have ended and were not removed yet.
    pub ended: u64,
    /// Facts in its inbox, those that are applied and not trimmed included.
    pub inbox: u64,
}

/// The outcome of raising the number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// It was this number before.
    From(u16),
    /// There are so many shards already.
    Same,
    /// There are more: this number.
    Less(u16),
    /// Processes may live that would not notice: the namespace has this version.
    OlderProcesses(u32),
}

/// Records of workers, the state of queues, and the shards.
#[async_trait]
pub trait Fleet: Send + Sync {
    /// Writes the record of a live worker, which expires after `ttl`. `about` is written only when it is given. Returns
    /// true when there was no record before, so that `about` must be given now.
    async fn note_worker(
        &self,
        name: &str,
        ttl: Duration,
        held: usize,
        about: Option<&AboutWorker>,
    ) -> Result<bool, StoreError>;
    /// The live workers by name, at most [`WORKERS_SHOWN_MAX`](tidemill_base::limits::WORKERS_SHOWN_MAX), the latest
    /// signs of life first when there are more.
    async fn workers(&self) -> Result<Vec<LiveWorker>, StoreError>;
    /// A text that all workers use for the fingerprints of their secret keys: the stored one, or else `fresh`, which is
    /// stored then.
    async fn fingerprint_salt(&self, fresh: &str) -> Result<String, StoreError>;
    /// The names of queues that runs have used, sorted, at most
    /// [`QUEUES_SHOWN_MAX`](tidemill_base::limits::QUEUES_SHOWN_MAX).
    async fn queue_names(&self) -> Result<Vec<String>, StoreError>;
    /// The state of a queue on a shard, and the places of these jobs of it.
    async fn queue_state(
        &self,
        shard: ShardId,
        queue: &str,
        asked: &[EntryId],
    ) -> Result<QueueState, StoreError>;
    /// The first `count` shards.
    async fn shard_uses(&self, count: u16) -> Result<Vec<ShardUse>, StoreError>;
    /// Raises the number of shards for new runs. Processes of this version notice it without a restart.
    async fn raise_shards(&self, to: u16) -> Result<Raised, StoreError>;
}
