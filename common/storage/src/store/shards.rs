//! The store as the owners of shards use it: facts in, commits out.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Dead, StoreError};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, RunId, ShardId};
use tidemill_wire::asked;
use tidemill_wire::commit::RunWrite;
use tidemill_wire::state::AtRest;

/// An entry of the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawFact {
    pub entry: EntryId,
    /// Known kinds are not copied.
    pub kind: Cow<'static, str>,
    /// The run id; as written if it is invalid.
    pub run: Result<RunId, String>,
    pub body: String,
}

impl RawFact {
    /// Builds an entry from its stored fields.
    pub fn read(entry: EntryId, kind: &str, run: &str, body: String) -> Self {
        let known = tidemill_wire::fact::kind::ALL.into_iter().find(|known| *known == kind);
        Self {
            entry,
            kind: known.map_or_else(|| Cow::Owned(kind.to_string()), Cow::Borrowed),
            run: run.parse().map_err(|_| run.to_string()),
            body,
        }
    }

    /// The run id, as written.
    pub fn run_text(&self) -> String {
        self.run.as_ref().map_or_else(Clone::clone, RunId::to_string)
    }
}

/// The memory use of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Bytes in use.
    pub used: u64,
    /// The limit in bytes; `None` when there is none.
    pub max: Option<u64>,
}

/// The ownership of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub shard: ShardId,
    /// The fencing number of this ownership.
    pub epoch: u64,
    /// The next commit must have a higher number.
    pub commit: u64,
    /// The last fact applied.
    pub cursor: EntryId,
    /// Take-overs since the last commit, this one included.
    pub takeovers: u32,
    /// Facts noted by [`Shards::note_trying`] since the last progress, with repetitions.
    pub trying: Vec<EntryId>,
}

/// One atomic change of a shard.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// Higher than that of the commit before.
    pub number: u64,
    /// The last fact it applies; `None` when it applies timers only.
    pub cursor: Option<EntryId>,
    /// One write per run.
    pub writes: Vec<RunWrite>,
    /// Timer members that were handled without a run's write.
    pub timers_cleared: Vec<String>,
    /// Dead letters to write.
    pub dead: Vec<Dead>,
}

impl Commit {
    /// Stores the questions of runs that begin to wait [once](tidemill_wire::asked). Only for namespaces of version
    /// [`QUESTIONS_ONCE`](tidemill_wire::asked::QUESTIONS_ONCE) or later: older processes cannot read that.
    pub fn shorten_questions(&mut self) {
        self.writes.iter_mut().for_each(asked::shorten);
    }
}

/// The failure of a commit.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Another owner has the shard. Nothing was written.
    #[error("shard {0} belongs to another scheduler now")]
    Lost(ShardId),
    /// Nothing was written; the same commit may be retried.
    #[error("the commit was refused and nothing was written: {0}")]
    NotDone(StoreError),
    /// It may have been written or may still be. The owner must release the shard and claim it again.
    #[error("it is unknown whether the commit was written: {0}")]
    Unknown(StoreError),
}

/// The owner's connection to one shard. It never reconnects on its own, because that would lose the guard
/// (WATCH).
#[async_trait]
pub trait Owner: Send {
    /// The claim on which this ownership rests.
    fn claim(&self) -> &Claim;
    /// Writes a complete commit or nothing.
    async fn commit(&mut self, commit: &Commit) -> Result<(), CommitError>;
}

/// Reads one shard's inbox over its own connection.
#[async_trait]
pub trait FactReader: Send {
    /// Facts after `after`, in order. Waits at most `block` for the first.
    async fn read(
        &mut self,
        after: EntryId,
        count: usize,
        block: Duration,
    ) -> Result<Vec<RawFact>, StoreError>;
}

/// The work of a shard that is due at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Due {
    /// Facts, in order.
    pub facts: Vec<RawFact>,
    /// Timers, earliest first: due time and member.
    pub timers: Vec<(Timestamp, String)>,
    /// The due time of the earliest timer that is not among `timers`. It is due already when there were more
    /// timers than asked for.
    pub next: Option<Timestamp>,
}

/// The result of [`Shards::index_runs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexed {
    /// More runs are left: call it again.
    More,
    /// Nothing is to be done now: call it again some time later.
    Later,
    /// All runs are listed.
    All,
}

/// The store as the owners of shards use it.
#[async_trait]
pub trait Shards: Send + Sync {
    /// Reports that this scheduler is alive; returns the ids of all live schedulers, sorted.
    async fn announce_scheduler(&self, id: &str, ttl: Duration) -> Result<Vec<String>, StoreError>;
    /// Raises the version of the namespace to [`tidemill_wire::VERSION`], unless a live process does not know
    /// it. Returns the version that is valid then.
    async fn raise_version(&self) -> Result<u32, StoreError>;
    /// Removes the scheduler from the list.
    async fn retire_scheduler(&self, id: &str) -> Result<(), StoreError>;
    /// The scheduler that holds a shard's lease.
    async fn holder(&self, shard: ShardId) -> Result<Option<String>, StoreError>;
    /// Claims a shard that is free or already owned by this scheduler. The new epoch makes all work of the
    /// last owner invalid.
    async fn claim(
        &self,
        shard: ShardId,
        id: &str,
        lease: Duration,
    ) -> Result<Option<Box<dyn Owner>>, StoreError>;
    /// Renews leases; returns the lost ones. Called from a separate thread.
    async fn renew(&self, shards: &[ShardId], id: &str, lease: Duration) -> Result<Vec<ShardId>, StoreError>;
    /// Releases a shard at once.
    async fn release(&self, shard: ShardId, id: &str) -> Result<(), StoreError>;
    /// Opens a reader of a shard's inbox.
    async fn reader(&self, shard: ShardId) -> Result<Box<dyn FactReader>, StoreError>;
    /// The stored parts of a run, with the number of its last event.
    async fn load_run(&self, run: RunId) -> Result<Option<AtRest>, StoreError>;
    /// A graph document.
    async fn load_graph(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError>;
    /// What is due at `now`, without waiting: the facts after a position, at most so many (none if `facts` is
    /// `None`), then at most `timers` timers. The facts are read first, so a timer that is returned comes with
    /// all facts that were received before it was due, unless there were more than asked for. Removes nothing.
    async fn due(
        &self,
        shard: ShardId,
        facts: Option<(EntryId, usize)>,
        now: Timestamp,
        timers: usize,
    ) -> Result<Due, StoreError>;
    /// The due time of the earliest timer.
    async fn next_timer(&self, shard: ShardId) -> Result<Option<Timestamp>, StoreError>;
    /// Notes facts that are about to be applied, after repeated take-overs without progress. A fact that is
    /// noted again and again crashes its owners.
    async fn note_trying(&self, shard: ShardId, facts: &[EntryId]) -> Result<(), StoreError>;
    /// Deletes inbox entries below the stored cursor; only for the owner of this epoch.
    async fn trim_inbox(&self, shard: ShardId, epoch: u64) -> Result<(), StoreError>;
    /// Scheduled and running runs from an index position on, and the next position (`None` at the end).
    /// Paused runs have no jobs and are left out.
    async fn open_runs(
        &self,
        shard: ShardId,
        from: usize,
        count: usize,
    ) -> Result<(Vec<RunId>, Option<usize>), StoreError>;
    /// For each of these entries of a queue that a worker holds, the time since the last sign of life of the worker;
    /// `None` for one that is not held, or was returned.
    async fn idle_of(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<Vec<Option<Duration>>, StoreError>;
    /// The entries of a queue that neither wait nor are held.
    async fn lost_jobs(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<Vec<EntryId>, StoreError>;
    /// Removes at most `count` runs that ended before a time; returns the number removed.
    async fn sweep(
        &self,
        shard: ShardId,
        epoch: u64,
        ended_before: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError>;
    /// Lists about `count` runs of an earlier version under their apps. Call it only if the version of the namespace is at
    /// least [`tidemill_wire::RUNS_OF_APPS`].
    async fn index_runs(
        &self,
        shard: ShardId,
        epoch: u64,
        now: Timestamp,
        count: usize,
    ) -> Result<Indexed, StoreError>;
    /// Takes removed runs off the lists of at most `count` labels, chosen at random. A version before labels leaves them there
    /// when it removes a run.
    async fn tidy_labels(&self, shard: ShardId, count: usize) -> Result<(), StoreError>;
    /// Settles at most `count` notes of files that came with a request, of those that were made up to a time: the files of
    /// a run that does not exist are listed by [`Self::files_left`] then. Returns the number of settled notes.
    async fn settle_early_files(
        &self,
        shard: ShardId,
        noted_by: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError>;
    /// Removed runs whose files are not deleted yet: at most `count`, in no order.
    async fn files_left(&self, shard: ShardId, count: usize) -> Result<Vec<RunId>, StoreError>;
    /// Records that the files of a removed run are deleted.
    async fn files_gone(&self, run: RunId) -> Result<(), StoreError>;
    /// Sets the time to live of the blobs of at most `count` runs that ended up to a time, as their other
    /// keys have; returns the number of runs. Continues after the last call.
    async fn expire_blobs(
        &self,
        shard: ShardId,
        ended_by: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError>;
    /// Deletes queue entries below everything that waits or is held: they were acknowledged but not deleted.
    async fn trim_jobs(&self, shard: ShardId, queue: &str) -> Result<(), StoreError>;
    /// The memory use of the server that holds this shard; may be a few seconds old.
    async fn memory(&self, shard: ShardId) -> Result<Memory, StoreError>;
    /// The time of the server that holds this shard. In a cluster each server has its own clock.
    async fn time_at(&self, shard: ShardId) -> Result<Timestamp, StoreError>;
    /// The number of inbox entries, for the metrics.
    async fn inbox_len(&self, shard: ShardId) -> Result<u64, StoreError>;
}
