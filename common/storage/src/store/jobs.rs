//! The store as workers use it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use tidemill_wire::WireError;
use tidemill_wire::state::caller_run;
use tidemill_wire::suspect::Suspect;

use super::{
    App, Called, Catalog, Dead, EntryBegin, EntryPut, EntryStored, Fleet, GiveLimit, JournalKey,
    KnowledgeBases, LimitTaken, Meta, Paused, PluginValue, PluginValuePut, PutEntry, StoreError, TakeLimit,
};
use tidemill_base::ids::{BlobId, EntryId, ExecutionId, RunId, ShardId};

/// A job delivered to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    pub shard: ShardId,
    pub queue: Arc<str>,
    pub entry: EntryId,
    /// The delivery count of the entry, from 1.
    pub number: u32,
    /// The run id, as written.
    pub run: String,
    pub body: String,
}

/// A job without a sign of life from its consumer, or a returned one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleJob {
    pub shard: ShardId,
    pub queue: Arc<str>,
    pub entry: EntryId,
    /// The consumer that holds it.
    pub holder: String,
    /// Time since the last sign of life; of a returned job, decades.
    pub idle: Duration,
    /// The delivery count of the entry.
    pub number: u32,
    /// What is known of it if it was lost with a worker before.
    pub suspect: Option<Suspect>,
}

/// The answer to [`Jobs::stale`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stale {
    pub jobs: Vec<StaleJob>,
    /// Origins whose suspects are cleared ([`Jobs::clear_suspects`]). Empty when there are no jobs.
    pub cleared: BTreeSet<String>,
}

/// A stale job to take over, or only to note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeOver {
    pub entry: EntryId,
    /// The consumer that was seen to hold it. If another one does, nothing is done.
    pub holder: String,
    /// The delivery count that was seen.
    pub number: u32,
    /// The delivery count under which it is taken; `None` takes nothing and only writes the note.
    pub new_number: Option<u32>,
    pub note: Note,
}

/// A change of a suspect's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Changes nothing.
    Leave,
    Remove,
    Write(Suspect),
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    pub entry: EntryId,
    /// The delivery count that the worker holds.
    pub number: u32,
    pub run: RunId,
    pub kind: &'static str,
    pub body: String,
    /// Blobs that the fact refers to, stored by this worker: name and size.
    pub blobs: Vec<(BlobId, u64)>,
    /// A dead letter to write as well, when the job is given up.
    pub dead: Option<Dead>,
}

/// The outcome of reporting a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// The fact is in the inbox and the job is deleted.
    Stored,
    /// The worker does not hold the job: already reported, taken over or cancelled.
    NotYours,
    /// A blob it refers to has expired; the worker still holds the job.
    BlobMissing,
}

/// Reads jobs over its own connection.
#[async_trait]
pub trait JobReader: Send {
    /// The id for [`Jobs::wake`].
    fn id(&self) -> u64;
    /// Reads new jobs of these streams, at most `count` of each. Waits at most `block` for the first; not at
    /// all when zero.
    async fn read(
        &mut self,
        streams: &[(ShardId, Arc<str>)],
        count: usize,
        block: Duration,
    ) -> Result<Vec<Delivered>, StoreError>;
    /// Shards that fail while others are read. A store in one place has none: there a read fails as a whole.
    fn outages(&mut self) -> Outages {
        Outages::default()
    }
}

/// Shards whose jobs cannot be read although others can, because a server of a cluster does not answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outages {
    pub silent: BTreeSet<ShardId>,
    /// Those that can be read again since the last call. Answers of them may have been lost.
    pub back: BTreeSet<ShardId>,
}

/// The owner of a run and of its files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOwner {
    /// The id of its app; `None` for a workflow that came with its request.
    pub app: Option<String>,
    /// The user who started it; empty if none was named.
    pub user: String,
    /// The run that called it.
    pub caller: Option<RunId>,
    /// Runs whose files the operator has handed to it.
    pub handed: BTreeSet<RunId>,
}

impl RunOwner {
    /// The field of a run's hash with the ids of [`Self::handed`], separated by spaces.
    pub const HANDED: &'static str = "files_of";
    /// The fields of a run's hash that say whose it is. Each run has a status.
    pub(super) const FIELDS: [&'static str; 5] = ["app", "user", "caller", Self::HANDED, "status"];

    /// The value of [`Self::HANDED`] for these runs; `None` for no run.
    pub fn handed_field(runs: &BTreeSet<RunId>) -> Option<(&'static str, String)> {
        let ids: Vec<String> = runs.iter().map(ToString::to_string).collect();
        (!ids.is_empty()).then(|| (Self::HANDED, ids.join(" ")))
    }

    /// Reads it from the fields; `None` when there is no run.
    ///
    /// # Errors
    /// The caller cannot be read. Without it the run would count as one that no other has called.
    pub(super) fn of(fields: &HashMap<String, String>) -> Result<Option<Self>, StoreError> {
        if !fields.contains_key("status") {
            return Ok(None);
        }
        let unreadable = |error: WireError| StoreError::Unexpected {
            doing: "reading the owner of a run",
            reason: error.to_string(),
        };
        let caller = fields.get("caller").map(|text| caller_run(text)).transpose().map_err(unreadable)?;
        let text = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        let handed = text(Self::HANDED).split(' ').filter_map(|id| id.parse().ok()).collect();
        Ok(Some(Self { app: fields.get("app").cloned(), user: text("user").to_owned(), caller, handed }))
    }
}

/// The store as workers use it.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// The store of knowledge bases.
    fn knowledge(&self) -> &dyn KnowledgeBases;
    /// The live workers and the queues.
    fn fleet(&self) -> &dyn Fleet;
    /// The namespace's settings.
    async fn namespace(&self) -> Result<Meta, StoreError>;
    /// Succeeds when the store accepts writes.
    async fn accepts_writes(&self) -> Result<(), StoreError>;
    /// Reports that this worker is alive; returns the number of live workers.
    async fn announce_worker(&self, consumer: &str, ttl: Duration) -> Result<usize, StoreError>;
    /// Removes the worker from the list.
    async fn retire_worker(&self, consumer: &str) -> Result<(), StoreError>;
    /// Opens a reader of jobs for this consumer.
    async fn job_reader(&self, consumer: &str) -> Result<Box<dyn JobReader>, StoreError>;
    /// The jobs that this consumer holds. After a reconnect they include deliveries that were lost on the
    /// way.
    async fn held(&self, shard: ShardId, queue: &str, consumer: &str) -> Result<Vec<Delivered>, StoreError>;
    /// Appends facts to the inbox in this order: run, kind, body.
    async fn report(&self, shard: ShardId, facts: &[(RunId, &'static str, String)])
    -> Result<(), StoreError>;
    /// Reports results. Each is accepted once, together with the deletion of its job, or not at all. May be
    /// repeated.
    async fn complete(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        results: &[Completion],
    ) -> Result<Vec<Accepted>, StoreError>;
    /// Renews this consumer's jobs; returns the entries that it no longer holds.
    async fn heartbeat(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        entries: &[EntryId],
    ) -> Result<Vec<EntryId>, StoreError>;
    /// For each stream, whether a job of it is held. Only then can there be something to take over.
    async fn are_held(&self, streams: &[(ShardId, Arc<str>)]) -> Result<Vec<bool>, StoreError>;
    /// The jobs of these streams without a heartbeat for `idle`, with their holders; of each stream at most
    /// [`limits::STALE_READ_MAX`](tidemill_base::limits::STALE_READ_MAX), oldest first.
    async fn stale(&self, streams: &[(ShardId, Arc<str>)], idle: Duration) -> Result<Stale, StoreError>;
    /// Takes over jobs without a heartbeat for `idle`, those that are as they were seen, and writes the notes.
    /// Returns the jobs that it took.
    async fn take_over(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        idle: Duration,
        jobs: &[TakeOver],
    ) -> Result<Vec<Delivered>, StoreError>;
    /// Clears the suspects of this origin for a day: one of them was given up.
    async fn clear_suspects(&self, origin: &str) -> Result<(), StoreError>;
    /// Removes the records of these suspects.
    async fn forget_suspects(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<(), StoreError>;
    /// Returns jobs at once; the delivery is not counted.
    async fn hand_back(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        entries: &[(EntryId, u32)],
    ) -> Result<(), StoreError>;
    /// Deletes consumers of this queue that hold nothing and have been idle for `idle`, and this one if it
    /// holds nothing.
    async fn drop_consumers(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        idle: Duration,
    ) -> Result<(), StoreError>;
    /// Reads a journal entry. Without a result, a try begins and is marked. `another`: the try in progress
    /// has failed and the next one begins.
    async fn begin_step(&self, of: &JournalKey, step: &str, another: bool) -> Result<EntryBegin, StoreError>;
    /// Marks that the job is parked while the current try of an entry only waits, so that the next holder
    /// makes no call twice.
    async fn park_step(&self, of: &JournalKey, step: &str) -> Result<(), StoreError>;
    /// Stores the result of a journal entry, its fact (kind, body) and its blobs with their sizes, all once
    /// or not at all. May be repeated.
    async fn record_step(
        &self,
        of: &JournalKey,
        step: &str,
        result: &str,
        fact: (&'static str, &str),
        blobs: &[(BlobId, u64)],
    ) -> Result<EntryStored, StoreError>;
    /// The state of a pause that the job may have asked for, as written by the shard's owner.
    async fn paused(&self, run: RunId, pause: &str) -> Result<Paused, StoreError>;
    /// The state of a sub-workflow run that `caller` may have ordered.
    async fn called(&self, caller: RunId, run: RunId) -> Result<Called, StoreError>;
    /// Admits a model call in all of its buckets or in none. May be repeated.
    async fn take_limit(&self, take: TakeLimit<'_>) -> Result<LimitTaken, StoreError>;
    /// Reports the end of an admitted call; returns how often the provider has refused it, this time
    /// included.
    async fn give_limit(&self, give: GiveLimit<'_>) -> Result<u32, StoreError>;
    /// A number that differs after each change of the catalog; 0 before the first.
    async fn catalog_version(&self) -> Result<u64, StoreError>;
    /// The whole catalog: providers, profiles, library nodes …
    async fn load_catalog(&self) -> Result<Catalog, StoreError>;
    /// The package of an installed plugin, by the SHA-256 of its files.
    async fn package(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// What a plugin (`author/name`) has stored under a key, in hexadecimal digits.
    async fn plugin_value(&self, plugin: &str, key: &str) -> Result<Option<String>, StoreError>;
    /// Stores or removes a value of a plugin.
    async fn put_plugin_value(&self, put: PluginValue<'_>) -> Result<PluginValuePut, StoreError>;
    /// Writes a Call that the program of this worker runs; see [`Runs::put_entry`](super::Runs::put_entry).
    async fn put_call(&self, put: PutEntry<'_>) -> Result<EntryPut, StoreError>;
    /// The app with this id, else with this name; `None` when there is none or the name is ambiguous.
    async fn app_called(&self, wanted: &str) -> Result<Option<App>, StoreError>;
    /// Marks that a run has files, or is about to; `false` when the run no longer exists. After its removal
    /// [`Shards::files_left`](super::Shards::files_left) lists it.
    async fn note_files(&self, run: RunId) -> Result<bool, StoreError>;
    /// The owner of a run; `None` when the run no longer exists.
    async fn owner_of_run(&self, run: RunId) -> Result<Option<RunOwner>, StoreError>;
    /// Subscribes to hints; ends with the connection.
    async fn hints(&self) -> Result<Box<dyn Hints>, StoreError>;
    /// Ends the current wait of a [`JobReader`], if it waits. Optional: a store may do nothing.
    async fn wake(&self, reader: u64) -> Result<(), StoreError>;
    /// A graph document.
    async fn graph_document(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError>;
    /// The JSON text of a blob.
    async fn load_blob(&self, shard: ShardId, id: &BlobId) -> Result<Option<String>, StoreError>;
    /// Stores a blob that expires unless a fact or run accepts it.
    async fn store_blob(&self, shard: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError>;
}

/// A hint for workers. Nothing relies on hints: a worker that misses one finds out a little later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// A job of this execution may be cancelled.
    Stop(ExecutionId),
    /// Jobs of this shard were returned and can be taken.
    HandedBack(ShardId),
}

/// A subscription to hints.
#[async_trait]
pub trait Hints: Send {
    /// The next hint; `None` when the connection is closed.
    async fn next(&mut self) -> Option<Hint>;
}
