//! What is asked by whoever works on jobs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{
    App, Called, Catalog, Dead, GiveLimit, JournalOf, KnowledgeBases, LimitTaken, Meta, Paused, StepBegin,
    StepKept, StoreError, TakeLimit,
};
use crate::ids::{BlobId, EntryId, ExecutionId, RunId, ShardId};

/// A job in a worker's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The shard.
    pub shard: ShardId,
    /// The queue.
    pub queue: Arc<str>,
    /// The entry.
    pub entry: EntryId,
    /// Which handing-out of this entry it is, from 1.
    pub number: u32,
    /// The run, as written.
    pub run: String,
    /// The body.
    pub body: String,
}

/// A job's result to hand in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The entry.
    pub entry: EntryId,
    /// Which handing-out of the entry the worker holds.
    pub number: u32,
    /// The run.
    pub run: RunId,
    /// The fact's kind.
    pub kind: &'static str,
    /// The fact's body.
    pub body: String,
    /// Blobs that the fact refers to and this worker has stored: name and size.
    pub blobs: Vec<(BlobId, u64)>,
    /// Kept for people as well, when the job was given up on.
    pub dead: Option<Dead>,
}

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It is in the inbox, the job is gone.
    Stored,
    /// The job is not this worker's: handed in before, taken over, or taken back.
    NotYours,
    /// A blob it refers to has expired; the job is still this worker's.
    BlobMissing,
}

/// Reads jobs; has a connection of its own.
#[async_trait]
pub trait JobReader: Send {
    /// For [`Jobs::wake`].
    fn id(&self) -> u64;
    /// New jobs of these streams, at most `count` of each; waits for the first at most `block` (not at all when zero).
    async fn read(
        &mut self,
        streams: &[(ShardId, Arc<str>)],
        count: usize,
        block: Duration,
    ) -> Result<Vec<Delivered>, StoreError>;
}

/// For whoever works.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// What is kept of knowledge bases.
    fn knowledge(&self) -> &dyn KnowledgeBases;
    /// The namespace's settings.
    async fn namespace(&self) -> Result<Meta, StoreError>;
    /// Tells that this worker lives; answers how many do.
    async fn announce_worker(&self, consumer: &str, ttl: Duration) -> Result<usize, StoreError>;
    /// Takes itself off the list.
    async fn retire_worker(&self, consumer: &str) -> Result<(), StoreError>;
    /// A reader of jobs for this consumer.
    async fn job_reader(&self, consumer: &str) -> Result<Box<dyn JobReader>, StoreError>;
    /// What this consumer holds already: after a reconnect, jobs whose delivery got lost on the way.
    async fn held(&self, shard: ShardId, queue: &str, consumer: &str) -> Result<Vec<Delivered>, StoreError>;
    /// Puts facts into the inbox, in this order: (run, kind, body).
    async fn report(&self, shard: ShardId, facts: &[(RunId, &'static str, String)])
    -> Result<(), StoreError>;
    /// Hands results in: each is accepted once, with its job gone, or not at all. May be repeated.
    async fn complete(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        results: &[Completion],
    ) -> Result<Vec<Accepted>, StoreError>;
    /// Keeps what is still this consumer's; answers which entries are not.
    async fn heartbeat(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        entries: &[EntryId],
    ) -> Result<Vec<EntryId>, StoreError>;
    /// Of each of these streams, whether anybody holds a job of it: only there is something to take over.
    async fn are_held(&self, streams: &[(ShardId, Arc<str>)]) -> Result<Vec<bool>, StoreError>;
    /// Takes over jobs that showed no sign of life for `idle`.
    async fn take_over(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        idle: Duration,
        count: usize,
    ) -> Result<Vec<Delivered>, StoreError>;
    /// Gives jobs back at once, their delivery not counted.
    async fn hand_back(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        entries: &[(EntryId, u32)],
    ) -> Result<(), StoreError>;
    /// Forgets consumers of this queue that hold nothing and have been silent for `idle`, and this one if it holds nothing.
    async fn drop_consumers(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        idle: Duration,
    ) -> Result<(), StoreError>;
    /// What the journal knows of a step of a job; a step without a result begins with it, and the mark of that is kept.
    /// `another`: the try under way has failed, and the next one begins.
    async fn begin_step(&self, of: &JournalOf, step: &str, another: bool) -> Result<StepBegin, StoreError>;
    /// Notes that the job is put down while the try of a step that has begun does nothing but wait: whoever goes on with it
    /// makes no call twice.
    async fn park_step(&self, of: &JournalOf, step: &str) -> Result<(), StoreError>;
    /// Keeps the result of a step together with the fact (kind, body) that tells of it and the blobs, with their sizes,
    /// that the two refer to, once, or neither. May be repeated.
    async fn record_step(
        &self,
        of: &JournalOf,
        step: &str,
        result: &str,
        fact: (&'static str, &str),
        blobs: &[(BlobId, u64)],
    ) -> Result<StepKept, StoreError>;
    /// What has become of what a step of a job may have asked, as the run's owner has written it.
    async fn paused(&self, run: RunId, pause: &str) -> Result<Paused, StoreError>;
    /// What is known of a run that this one may have called.
    async fn called(&self, caller: RunId, run: RunId) -> Result<Called, StoreError>;
    /// Gives a call to a model its turn, in all of its buckets or in none. May be repeated.
    async fn take_limit(&self, take: TakeLimit<'_>) -> Result<LimitTaken, StoreError>;
    /// Tells what came of a call that had its turn; answers how often it was refused so far, this time included.
    async fn give_limit(&self, give: GiveLimit<'_>) -> Result<u32, StoreError>;
    /// A number that is another one after each change to an entry of any kind; 0 before the first.
    async fn catalog_version(&self) -> Result<u64, StoreError>;
    /// All that is kept for all workers: providers, profiles, library nodes …
    async fn load_catalog(&self) -> Result<Catalog, StoreError>;
    /// The app of an id, else the one of a name; none when there is none, or several have the name.
    async fn app_called(&self, wanted: &str) -> Result<Option<App>, StoreError>;
    /// Notes that a run has files, or is about to have some; false when there is no such run any more. When it is removed,
    /// [`Shards::files_left`](super::Shards::files_left) tells it.
    async fn note_files(&self, run: RunId) -> Result<bool, StoreError>;
    /// What had better be looked at, as it is told; ends with the connection.
    async fn hints(&self) -> Result<Box<dyn Hints>, StoreError>;
    /// Ends the present wait of a [`JobReader`], if it waits. Nothing is lost by it; a store may leave it at that.
    async fn wake(&self, reader: u64) -> Result<(), StoreError>;
    /// A graph document.
    async fn graph_document(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError>;
    /// The JSON text of a blob.
    async fn load_blob(&self, shard: ShardId, id: &BlobId) -> Result<Option<String>, StoreError>;
    /// Stores a blob that expires unless something accepts it.
    async fn store_blob(&self, shard: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError>;
}

/// What workers had better look at now. Nothing relies on hints: who misses one looks a little later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// A job of this execution may have been taken back.
    Stop(ExecutionId),
    /// Jobs of this shard were handed back and wait for somebody.
    HandedBack(ShardId),
}

/// Hints as they are told.
#[async_trait]
pub trait Hints: Send {
    /// The next one; none when the connection is gone.
    async fn next(&mut self) -> Option<Hint>;
}
