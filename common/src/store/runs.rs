//! What is asked by whoever submits runs, commands and answers them, asks and follows.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::{
    AppKey, Catalog, CatalogKind, ConversationChange, ConversationRef, DeadFact, DeadId, DeadLetter,
    DueSchedule, Entered, Entering, EntryPut, Fired, Following, FromSchedule, KeySpent, KnowledgeBases,
    ListConversations, ListDead, ListedConversation, Meta, PutBack, PutEntry, Rated, Rating, Refusal,
    Revoked, ServerReport, Settling, StoreError, TriggerChanges, TriggerState, WaitingCall,
    unreadable_events,
};
use crate::clock::Timestamp;
use crate::ids::{BlobId, EntryId, RunId, ShardId};
use crate::machine::run::RunStatus;
use crate::wire::entry::EventEntry;
use crate::wire::event::EventRecord;
use crate::wire::state::AtRest;

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
    /// The salt of the namespace under which secrets are sealed: `fresh` at the first call, the same ever after.
    async fn seal_salt(&self, fresh: &str) -> Result<String, StoreError>;
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
    /// The app that a key opens; none by a key that was taken back.
    async fn app_of_key(&self, key_hash: &str) -> Result<Option<String>, StoreError>;
    /// Makes another key of an app.
    async fn add_key(&self, app: &str, key_hash: &str, at: Timestamp) -> Result<(), StoreError>;
    /// Takes a key back, by its id: from then on it opens nothing, for every process.
    async fn revoke_key(&self, id: &str) -> Result<Revoked, StoreError>;
    /// Which of these keys were taken back.
    async fn revoked_of(&self, ids: &[String]) -> Result<Vec<String>, StoreError>;
    /// The keys that were given out, by their ids; also those that were taken back.
    async fn keys(&self) -> Result<Vec<AppKey>, StoreError>;
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
