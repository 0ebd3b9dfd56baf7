//! What is asked by whoever owns shards: facts in, commits out.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Dead, StoreError};
use crate::clock::Timestamp;
use crate::ids::{EntryId, RunId, ShardId};
use crate::wire::commit::RunWrite;
use crate::wire::state::AtRest;

/// An entry of the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawFact {
    /// Its id.
    pub entry: EntryId,
    /// Its kind; of one of ours nothing is copied.
    pub kind: Cow<'static, str>,
    /// Its run; as written, if that is none.
    pub run: Result<RunId, String>,
    /// Its body.
    pub body: String,
}

impl RawFact {
    /// An entry from its fields as they are written.
    pub fn read(entry: EntryId, kind: &str, run: &str, body: String) -> Self {
        let known = crate::wire::fact::kind::ALL.into_iter().find(|known| *known == kind);
        Self {
            entry,
            kind: known.map_or_else(|| Cow::Owned(kind.to_string()), Cow::Borrowed),
            run: run.parse().map_err(|_| run.to_string()),
            body,
        }
    }

    /// Its run, as written.
    pub fn run_text(&self) -> String {
        self.run.as_ref().map_or_else(Clone::clone, RunId::to_string)
    }
}

/// How much memory the store uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Bytes in use.
    pub used: u64,
    /// Bytes that it may use at most; none when nothing bounds it.
    pub max: Option<u64>,
}

/// A shard that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The shard.
    pub shard: ShardId,
    /// The fencing number of this ownership.
    pub epoch: u64,
    /// The number that the next commit must exceed.
    pub commit: u64,
    /// The last fact applied.
    pub cursor: EntryId,
    /// Take-overs since the last commit, this one included.
    pub takeovers: u32,
    /// Facts that were noted since the last progress, each as often as it was.
    pub trying: Vec<EntryId>,
}

/// One atomic change of a shard.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// Its number, larger than that of the one before.
    pub number: u64,
    /// The last fact it applies; none when it applies timers only.
    pub cursor: Option<EntryId>,
    /// What it writes, a run each.
    pub writes: Vec<RunWrite>,
    /// Members of the timers set that were dealt with although no run wants them.
    pub timers_cleared: Vec<String>,
    /// What it gives up on.
    pub dead: Vec<Dead>,
}

/// How a commit failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Another owner has the shard. Nothing was written.
    #[error("shard {0} belongs to another scheduler now")]
    Lost(ShardId),
    /// Nothing was written; the same commit may be tried again.
    #[error("the commit was refused and nothing was written: {0}")]
    NotDone(StoreError),
    /// It may have been written or may still be: whoever sent it must let go of the shard and take it anew.
    #[error("it is unknown whether the commit was written: {0}")]
    Unknown(StoreError),
}

/// The owner's side of one shard. Its connection never reconnects by itself: with it the guard would be lost.
#[async_trait]
pub trait Owner: Send {
    /// What was taken.
    fn claim(&self) -> &Claim;
    /// Writes a commit whole, or nothing.
    async fn commit(&mut self, commit: &Commit) -> Result<(), CommitError>;
}

/// Reads one shard's inbox; has a connection of its own.
#[async_trait]
pub trait FactReader: Send {
    /// Facts behind `after`, in order; waits for the first at most `block`.
    async fn read(
        &mut self,
        after: EntryId,
        count: usize,
        block: Duration,
    ) -> Result<Vec<RawFact>, StoreError>;
}

/// For whoever owns shards.
#[async_trait]
pub trait Shards: Send + Sync {
    /// Tells that this scheduler lives; answers who else does (ids, sorted, itself included).
    async fn announce_scheduler(&self, id: &str, ttl: Duration) -> Result<Vec<String>, StoreError>;
    /// Raises the version of the namespace to [`crate::wire::VERSION`], unless a process lives that does not know that
    /// version. Answers the version that holds then.
    async fn raise_version(&self) -> Result<u32, StoreError>;
    /// Takes itself off the list.
    async fn retire_scheduler(&self, id: &str) -> Result<(), StoreError>;
    /// Who holds a shard's lease.
    async fn holder(&self, shard: ShardId) -> Result<Option<String>, StoreError>;
    /// Takes a shard that is free or one's own already: a new epoch, which voids whatever the last owner has under way.
    async fn claim(
        &self,
        shard: ShardId,
        id: &str,
        lease: Duration,
    ) -> Result<Option<Box<dyn Owner>>, StoreError>;
    /// Renews leases; answers which of them are lost. Called from a thread of its own.
    async fn renew(&self, shards: &[ShardId], id: &str, lease: Duration) -> Result<Vec<ShardId>, StoreError>;
    /// Gives a shard up at once.
    async fn release(&self, shard: ShardId, id: &str) -> Result<(), StoreError>;
    /// A reader of a shard's inbox.
    async fn reader(&self, shard: ShardId) -> Result<Box<dyn FactReader>, StoreError>;
    /// A run at rest, with the number of its last event.
    async fn load_run(&self, run: RunId) -> Result<Option<AtRest>, StoreError>;
    /// A graph document.
    async fn load_graph(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError>;
    /// Timers that are due at `now`: (due, member), earliest first.
    async fn due_timers(
        &self,
        shard: ShardId,
        now: Timestamp,
        count: usize,
    ) -> Result<Vec<(Timestamp, String)>, StoreError>;
    /// When the earliest timer is due.
    async fn next_timer(&self, shard: ShardId) -> Result<Option<Timestamp>, StoreError>;
    /// Notes facts that are about to be applied, beside those noted before: after repeated take-overs without progress.
    /// A fact that is noted again and again brings its owners down.
    async fn note_trying(&self, shard: ShardId, facts: &[EntryId]) -> Result<(), StoreError>;
    /// Cuts the inbox below the stored cursor; only for the owner of this epoch.
    async fn trim_inbox(&self, shard: ShardId, epoch: u64) -> Result<(), StoreError>;
    /// Runs that are under way or about to be, from a place in the index on, and the place to go on from (none at the
    /// end). Those that wait for somebody have no jobs, and nobody needs to look at them.
    async fn open_runs(
        &self,
        shard: ShardId,
        from: usize,
        count: usize,
    ) -> Result<(Vec<RunId>, Option<usize>), StoreError>;
    /// Which of these entries of a queue are neither waiting nor held by anybody.
    async fn lost_jobs(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<Vec<EntryId>, StoreError>;
    /// Removes runs that ended before a moment, at most `count`; answers how many.
    async fn sweep(
        &self,
        shard: ShardId,
        epoch: u64,
        ended_before: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError>;
    /// Some of the removed runs whose files are still to be removed, any ones, at most `count`.
    async fn files_left(&self, shard: ShardId, count: usize) -> Result<Vec<RunId>, StoreError>;
    /// The files of a removed run are gone.
    async fn files_gone(&self, run: RunId) -> Result<(), StoreError>;
    /// Gives the blobs of runs that ended up to a moment the time that their run's other keys have, at most those of
    /// `count` runs; answers of how many. Goes on where it was the last time.
    async fn expire_blobs(
        &self,
        shard: ShardId,
        ended_by: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError>;
    /// Cuts a queue below everything that waits or is held: what lies there was acknowledged and not deleted.
    async fn trim_jobs(&self, shard: ShardId, queue: &str) -> Result<(), StoreError>;
    /// Memory of the store; may be a few seconds old.
    async fn memory(&self) -> Result<Memory, StoreError>;
    /// Length of the inbox behind nothing, for the metrics.
    async fn inbox_len(&self, shard: ShardId) -> Result<u64, StoreError>;
}
