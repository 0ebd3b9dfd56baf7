//! What the processes ask of the place where runs live.
//!
//! Three narrow doors: [`Runs`] for whoever submits, asks and follows; [`Shards`] for whoever owns; [`Jobs`] for whoever
//! works. The first and the last lead to knowledge ([`KnowledgeBases`]). [`redis`] is the one that is used; [`memory`] is for
//! simulation. Both pass [`contract`]. Each method says what holds when it returns.

mod call;
mod catalog;
#[cfg(feature = "runtime")]
pub mod contract;
mod conversation;
mod dead;
#[cfg(feature = "runtime")]
pub mod following;
mod knowledge;
mod limit;
#[cfg(feature = "runtime")]
pub mod memory;
mod paused;
#[cfg(feature = "runtime")]
pub mod redis;
mod spent;
mod step;
mod trigger;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use call::{Called, Refusal, WaitingCall};
pub use catalog::{Catalog, CatalogEntry, CatalogKind, EntryPut, Expected, PutEntry};
pub use conversation::{
    ConversationChange, ConversationRef, ConversationsBy, Entered, Entering, FIELDS_LISTED,
    ListConversations, ListedConversation, Rated, Rating, Settling,
};
pub use dead::{Dead, DeadFact, DeadId, DeadLetter, ListDead, PutBack};
pub use following::Following;
pub use knowledge::{DocumentList, Generation, KnowledgeBases, Published};
pub use limit::{GiveLimit, LimitBound, LimitBounds, LimitBucket, LimitLeft, LimitTaken, TakeLimit};
pub use paused::Paused;
pub use spent::{KeySpent, MONEY_PLACES, day_of, key_id};
pub use step::{JournalOf, StepBegin, StepKept};
pub use trigger::{
    DueSchedule, Fired, FromSchedule, Trigger, TriggerChanges, TriggerKind, TriggerState, scheduled_run,
    shard_of,
};

use crate::clock::Timestamp;
use crate::ids::{BlobId, EntryId, ExecutionId, RunId, ShardId};
use crate::machine::run::RunStatus;
use crate::wire::commit::RunWrite;
use crate::wire::entry::EventEntry;
use crate::wire::event::EventRecord;
use crate::wire::state::AtRest;
use crate::wire::{VERSION, WireError};

/// What can go wrong with the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis cannot be reached, or did not answer in time. Whether the request was carried out is unknown.
    #[error("Redis at {address} does not answer while {doing}: {reason}")]
    Unreachable {
        /// Where.
        address: String,
        /// What was attempted.
        doing: &'static str,
        /// What the connection said.
        reason: String,
    },
    /// Redis answered that it did nothing, and another try may go through (loading, out of memory, busy).
    #[error("Redis refused to {doing} for now: {reason}")]
    Refused {
        /// What was attempted.
        doing: &'static str,
        /// What it said.
        reason: String,
    },
    /// Redis answered something that does not fit.
    #[error("Redis answered {doing} with what does not fit: {reason}")]
    Unexpected {
        /// What was attempted.
        doing: &'static str,
        /// What was wrong.
        reason: String,
    },
    /// The server cannot be used as it is set up.
    #[error("{0}")]
    Unusable(String),
    /// A newer version has written here; this process must leave it alone.
    #[error("{what} is written in version {version}; this process knows version {VERSION}, upgrade it")]
    Newer {
        /// What was found.
        what: String,
        /// Its version.
        version: u64,
    },
}

impl StoreError {
    /// True when waiting and trying again is the thing to do.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Refused { .. } => true,
            Self::Unexpected { .. } | Self::Unusable(_) | Self::Newer { .. } => false,
        }
    }
}

/// What the server at the other end is, and what that means.
#[derive(Debug, Clone, Default)]
pub struct ServerReport {
    /// Its version, such as `7.0.15`.
    pub version: String,
    /// Things that work but deserve a word, each a sentence (AOF off, for one).
    pub warnings: Vec<String>,
    /// What may be wrong or not: for somebody who asks, not for every start.
    pub hints: Vec<String>,
}

/// The namespace's own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Shards for new runs.
    pub shards: u16,
    /// Shards at first: where idempotency keys live.
    pub shards_first: u16,
}

/// A run to create.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id, chosen by the caller; its shard follows.
    pub id: RunId,
    /// Hash and document of its graph; the document is stored beside the run unless it is there.
    pub graph: (String, Arc<str>),
    /// Fields of the run hash.
    pub fields: Vec<(&'static str, String)>,
    /// Kind of the fact that begins it: `start`, or `import` for one that goes on from a snapshot.
    pub kind: &'static str,
    /// Body of that fact.
    pub start: String,
    /// Queues that its nodes may use, each once.
    pub queues: Vec<Arc<str>>,
    /// Names and sizes of the blobs that its inputs refer to; they belong to the run from then on.
    pub blobs: Vec<(BlobId, u64)>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// The time of a schedule that it belongs to; its shard is the schedule's.
    pub schedule: Option<FromSchedule>,
    /// The order that it is made of, when another run calls it.
    pub called: Option<WaitingCall>,
    /// Files were kept for it already: whoever removes it finds them.
    pub has_files: bool,
    /// The conversation whose list of messages it goes on with: it begins with a copy of what there is then.
    pub takes_messages: Option<String>,
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The run is there and will start.
    Created,
    /// It was there before: the same submission, repeated.
    Exists,
    /// The time of its schedule was dealt with by another, or nobody wants the called run any more; nothing was done.
    Passed,
    /// The shard's inbox is over its bound; nothing was done.
    Busy,
    /// A queue that it needs has too many jobs; nothing was done.
    QueueFull,
    /// A blob of its inputs is gone; nothing was done.
    BlobMissing,
}

/// A command to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCommand {
    /// The kind of its fact.
    pub kind: &'static str,
    /// The body of its fact.
    pub body: String,
    /// So that repeating it makes no second command.
    pub key: Option<CommandKey>,
    /// Names and sizes of the blobs that it refers to; they belong to the run from then on.
    pub blobs: Vec<(BlobId, u64)>,
}

impl RunCommand {
    /// A command without a key and without blobs.
    pub fn new(kind: &'static str, body: String) -> Self {
        Self { kind, body, key: None, blobs: Vec::new() }
    }
}

/// The key of a command, chosen by whoever sends it; known as long as its run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandKey {
    /// The key.
    pub key: String,
    /// SHA-256 of what is asked, to tell a repetition from another command.
    pub sha: String,
}

/// What became of a command to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Its fact is in the inbox.
    Accepted,
    /// It was accepted before, under this key.
    Repeated,
    /// Another command has the key; nothing was done.
    KeyTaken,
    /// A blob that it refers to is gone; nothing was done.
    BlobMissing,
    /// No such run.
    NotFound,
    /// The run is over.
    Over(RunStatus),
}

/// The answer to a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseAnswer {
    /// So that repeating it is no second answer. Stands in the record as `key`.
    pub key: Option<String>,
    /// What is kept of it: JSON.
    pub record: String,
    /// The body of its fact.
    pub fact: String,
}

/// What became of the answer to a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// It is kept, and its fact is in the inbox.
    Accepted,
    /// It was accepted before, under this key.
    Repeated,
    /// Another answer came before.
    AlreadyAnswered,
    /// No such run, or it has no such pause.
    NotFound,
    /// The pause's time is over.
    Expired,
    /// The pause was withdrawn.
    Cancelled,
    /// The run is over.
    Over(RunStatus),
}

/// A piece of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The place of its first entry, from 0.
    pub from: usize,
    /// At most so many.
    pub count: usize,
}

/// Which runs to list: newest first.
#[derive(Debug, Clone, Default)]
pub struct ListRuns {
    /// Only this status.
    pub status: Option<RunStatus>,
    /// Only such as were created before this moment (exclusive).
    pub before: Option<Timestamp>,
    /// Only such as were created at this moment or later.
    pub since: Option<Timestamp>,
    /// Only those on these shards; absent: on all.
    pub shards: Option<Vec<ShardId>>,
    /// At most so many.
    pub limit: usize,
}

/// A registered app.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct App {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Dify's name of its mode.
    pub mode: String,
    /// Hash of the published version.
    pub version: String,
    /// The published version's document.
    pub document: String,
    /// Unix milliseconds.
    pub created_at_ms: i64,
    /// Triggers of the published version: node and the trigger's id, in the order of the file.
    pub triggers: Vec<(String, String)>,
}

/// Answer to the reservation of an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// It is ours: go on with our run id.
    Ours,
    /// The same request came before, under this run.
    Same(RunId),
    /// Another request has it.
    Other,
}

/// The error for an entry of events that is none.
pub(crate) fn unreadable_events(error: WireError) -> StoreError {
    StoreError::Unexpected { doing: "reading events", reason: error.to_string() }
}

/// For whoever submits, asks and follows.
#[async_trait]
pub trait Runs: Send + Sync {
    /// What is kept of knowledge bases.
    fn knowledge(&self) -> &dyn KnowledgeBases;
    /// Looks at the server: refuses one that cannot hold runs safely.
    async fn check(&self) -> Result<ServerReport, StoreError>;
    /// The namespace's settings, written with defaults at the first call.
    async fn meta(&self) -> Result<Meta, StoreError>;
    /// The store's time.
    async fn time(&self) -> Result<Timestamp, StoreError>;
    /// True when the store takes writes.
    async fn writable(&self) -> Result<(), StoreError>;
    /// Creates a run with its start fact, or nothing. May be repeated.
    async fn create_run(&self, new: &NewRun) -> Result<Created, StoreError>;
    /// Fields of the run hash; none when there is no such run.
    async fn run_fields(&self, run: RunId) -> Result<Option<HashMap<String, String>>, StoreError>;
    /// Everything at rest of a run.
    async fn run_at_rest(&self, run: RunId) -> Result<Option<AtRest>, StoreError>;
    /// The index of a list of messages of a run; none when there is no such list.
    async fn list_index(&self, run: RunId, list: &str) -> Result<Option<String>, StoreError>;
    /// Messages of a list of a run, in the order in which they were added; perhaps more than the index knows of.
    async fn list_messages(&self, run: RunId, list: &str, page: Page) -> Result<Vec<String>, StoreError>;
    /// Records of the history of a run, oldest first.
    async fn history(&self, run: RunId, page: Page) -> Result<Vec<String>, StoreError>;
    /// Fields of `rt` of a run, each with its JSON.
    async fn runtime(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError>;
    /// Ids of runs, newest first, over all shards but where the query names some.
    async fn list_runs(&self, query: &ListRuns) -> Result<Vec<RunId>, StoreError>;
    /// Puts a command's fact into the inbox of a run that is not over; under a key, once.
    async fn send_command(&self, run: RunId, command: &RunCommand) -> Result<Sent, StoreError>;
    /// Fields of the pauses hash of a run: `<pause id>` and its JSON, `<pause id>:answer` and that of its answer.
    async fn pauses(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError>;
    /// Fields of the ledger of a run: what each model call cost, JSON under the call's key.
    async fn ledger(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError>;
    /// Keeps the first answer to a pause that is pending, and puts its fact into the inbox; or does nothing.
    async fn answer_pause(
        &self,
        run: RunId,
        pause: &str,
        answer: &PauseAnswer,
    ) -> Result<Answered, StoreError>;
    /// Fields of a conversation's hash; none when nothing was kept.
    async fn conversation(&self, shard: ShardId, id: &str) -> Result<HashMap<String, String>, StoreError>;
    /// Makes a run the newest of a conversation, which begins with it if there is none. May be repeated.
    async fn enter_conversation(&self, it: &Entering) -> Result<Entered, StoreError>;
    /// The last turns of a conversation, at most `count`, oldest first: JSON texts.
    async fn turns(&self, shard: ShardId, id: &str, count: usize) -> Result<Vec<String>, StoreError>;
    /// Whether what was said in a run, which is over, has yet to become a turn of its conversation.
    async fn is_unsettled(&self, run: RunId) -> Result<bool, StoreError>;
    /// Makes it one; false when it was before, or the conversation is gone.
    async fn settle_turn(&self, it: &Settling) -> Result<bool, StoreError>;
    /// Runs of these shards that are over and whose turns have yet to be settled, any ones, some of each shard.
    async fn unsettled(&self, shards: &[ShardId]) -> Result<Vec<RunId>, StoreError>;
    /// There is nothing to settle of a run.
    async fn nothing_to_settle(&self, run: RunId) -> Result<(), StoreError>;
    /// Conversations that a user has with an app. None when the one that they are to come behind is not among them.
    async fn conversations(
        &self,
        query: &ListConversations,
    ) -> Result<Option<Vec<ListedConversation>>, StoreError>;
    /// Changes a conversation that is there, and of its app and user; false when there is none.
    async fn change_conversation(&self, change: &ConversationChange) -> Result<bool, StoreError>;
    /// Removes a conversation with all that belongs to it; false when there is none of this app and user. What runs of it
    /// that are under way write to it goes when they end.
    async fn drop_conversation(&self, it: &ConversationRef) -> Result<bool, StoreError>;
    /// Keeps what a user says of a message, or takes it back.
    async fn rate_message(&self, it: &Rating) -> Result<Rated, StoreError>;
    /// What was said of these messages of a conversation, in their order.
    async fn ratings(
        &self,
        shard: ShardId,
        id: &str,
        messages: &[String],
    ) -> Result<Vec<Option<String>>, StoreError>;
    /// Called runs of these shards that are to be made, some of each, the oldest order first.
    async fn waiting_calls(&self, shards: &[ShardId]) -> Result<Vec<WaitingCall>, StoreError>;
    /// The order of a called run, JSON; none when it was never ordered.
    async fn call_order(&self, caller: RunId, run: RunId) -> Result<Option<String>, StoreError>;
    /// Some of the runs that a run has called, each with its order, and how many there are.
    async fn calls_of(&self, caller: RunId) -> Result<(Vec<(RunId, String)>, u64), StoreError>;
    /// Gives up an order that waits, and tells its caller; false when it waits no more.
    async fn refuse_call(&self, call: &WaitingCall, why: &Refusal) -> Result<bool, StoreError>;
    /// The secret of the namespace by which form tokens are made: `fresh` at the first call, the same ever after.
    async fn form_secret(&self, fresh: &str) -> Result<String, StoreError>;
    /// At most `count` entries of a run's events behind an entry, oldest first.
    async fn entries(&self, run: RunId, after: EntryId, count: usize) -> Result<Vec<EventEntry>, StoreError>;
    /// The events of [`Self::entries`].
    async fn events(&self, run: RunId, after: EntryId, count: usize) -> Result<Vec<EventRecord>, StoreError> {
        let mut events = Vec::new();
        for entry in self.entries(run, after, count).await? {
            events.extend(entry.records().map_err(unreadable_events)?);
        }
        Ok(events)
    }
    /// Tells when the run may have new events, and often which. Hints only: look once a second in any case. Take it
    /// before the first look, so that nothing falls between the two.
    fn follow(&self, run: RunId) -> Following;
    /// A graph document.
    async fn graph(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError>;
    /// The JSON text of a blob.
    async fn blob(&self, shard: ShardId, id: &BlobId) -> Result<Option<String>, StoreError>;
    /// Stores a blob that expires unless something accepts it.
    async fn put_blob(&self, shard: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError>;
    /// Registers an app, or a new version of it with what that makes of its triggers, and the hash of a key that opens it:
    /// all of it or nothing.
    async fn put_app(
        &self,
        app: &App,
        key_hash: Option<&str>,
        triggers: &TriggerChanges,
    ) -> Result<(), StoreError>;
    /// A trigger by its id.
    async fn trigger(&self, id: &str) -> Result<Option<TriggerState>, StoreError>;
    /// All triggers, by their ids.
    async fn triggers(&self) -> Result<Vec<TriggerState>, StoreError>;
    /// Schedules of these shards whose time has come by the store's clock, some of each, the earliest first; and that
    /// clock's time.
    async fn due_schedules(&self, shards: &[ShardId]) -> Result<(Timestamp, Vec<DueSchedule>), StoreError>;
    /// Gives a schedule that is due at `from` another time, or none; false when it is not.
    async fn move_schedule(
        &self,
        trigger: &str,
        from: Timestamp,
        to: Option<Timestamp>,
    ) -> Result<bool, StoreError>;
    /// Notes what became of a trigger, if there is one: a run without an error, or an error alone.
    async fn note_fired(&self, trigger: &str, fired: &Fired) -> Result<(), StoreError>;
    /// An app by id.
    async fn app(&self, id: &str) -> Result<Option<App>, StoreError>;
    /// The app that a key opens.
    async fn app_of_key(&self, key_hash: &str) -> Result<Option<String>, StoreError>;
    /// The keys that were given out: id and app.
    async fn keys(&self) -> Result<Vec<(String, String)>, StoreError>;
    /// What a key has spent, over all shards; on one day (UTC, `2026-01-31`) when that is asked.
    async fn key_spent(&self, key: &str, day: Option<&str>) -> Result<KeySpent, StoreError>;
    /// The budgets of keys: id, and JSON.
    async fn key_budgets(&self) -> Result<Vec<(String, String)>, StoreError>;
    /// Gives a key a budget, or takes it away.
    async fn put_key_budget(&self, key: &str, budget: Option<&str>) -> Result<(), StoreError>;
    /// Ids of all apps.
    async fn apps(&self) -> Result<Vec<String>, StoreError>;
    /// All that is kept for all workers: providers, profiles, library nodes …
    async fn catalog(&self) -> Result<Catalog, StoreError>;
    /// Keeps one of them whole, if what is there is what was expected.
    async fn put_entry(&self, put: PutEntry<'_>) -> Result<EntryPut, StoreError>;
    /// Forgets one; false when it was not there. Of the default profile `heir` becomes the default, or the first by its id
    /// when there is no such one.
    async fn remove_entry(&self, kind: CatalogKind, id: &str, heir: &str) -> Result<bool, StoreError>;
    /// What was given up on, newest first, over all shards.
    async fn dead_letters(&self, query: &ListDead) -> Result<Vec<DeadLetter>, StoreError>;
    /// One of them.
    async fn dead_letter(&self, id: DeadId) -> Result<Option<DeadLetter>, StoreError>;
    /// Forgets one; false when it was not there.
    async fn drop_dead_letter(&self, id: DeadId) -> Result<bool, StoreError>;
    /// Puts a dead fact into the inbox of its run, if that is there and not over, and forgets the letter.
    async fn put_back(&self, fact: DeadFact<'_>) -> Result<PutBack, StoreError>;
    /// Reserves an idempotency key for a run; `request` is the hash of what is asked.
    async fn reserve(&self, key_hash: &str, request: &str, run: RunId) -> Result<Reserved, StoreError>;
}

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
    /// [`Shards::files_left`] tells it.
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

/// All three doors, and what two of them lead to.
pub trait Store: Runs + Shards + Jobs + KnowledgeBases {}
impl<T: Runs + Shards + Jobs + KnowledgeBases> Store for T {}

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
