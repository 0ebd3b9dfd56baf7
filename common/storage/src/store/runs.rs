//! The store as the API uses it: submit, command, answer, read and follow runs.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::labels::{LABELS_FIELD, label_ids};
use super::{
    Annotations, AppKey, AppLimits, AppRecords, AppState, AuditLog, Catalog, CatalogKind, ConversationChange,
    ConversationRef, DeadFact, DeadId, DeadLetter, DueSchedule, Durable, Entered, Entering, EntryPut,
    EntryRemoved, Fired, Fleet, Following, FromSchedule, KeyCost, KeyGrant, KnowledgeBases,
    ListConversations, ListDead, ListedConversation, Meta, NewKey, PutBack, PutEntry, Rated, Rating, Refusal,
    Removals, Revoked, ServerReport, Settling, StoreError, TriggerChanges, TriggerState, UploadCharge,
    UploadCharged, WaitingCall, Webhooks, unreadable_events,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, EntryId, RunId, ShardId};
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::entry::EventEntry;
use tidemill_wire::event::EventRecord;
use tidemill_wire::state::AtRest;

/// A run to create.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Chosen by the caller; it determines the shard.
    pub id: RunId,
    /// Hash and document of its graph. The document is stored unless the shard has it.
    pub graph: (String, Arc<str>),
    /// Fields of the run hash.
    pub fields: Vec<(&'static str, String)>,
    /// Kind of its first fact: `start`, or `import` for a run continued from a snapshot.
    pub kind: &'static str,
    /// Body of that fact.
    pub start: String,
    /// Queues that its nodes may use, without duplicates.
    pub queues: Vec<Arc<str>>,
    /// Names and sizes of the blobs in its inputs; they belong to the run from then on.
    pub blobs: Vec<(BlobId, u64)>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// The schedule that fired it. The run is on the schedule's shard.
    pub schedule: Option<FromSchedule>,
    /// The order of a sub-workflow run.
    pub called: Option<WaitingCall>,
    /// Files are stored for it already, so its removal must delete them.
    pub has_files: bool,
    /// The conversation whose message list it continues; the run starts with a copy.
    pub takes_messages: Option<String>,
}

impl NewRun {
    /// Its app, if it has one.
    pub fn app(&self) -> Option<&str> {
        self.field("app")
    }

    /// The ids of its labels.
    pub(super) fn labels(&self) -> Vec<String> {
        label_ids(self.field(LABELS_FIELD))
    }

    fn field(&self, wanted: &str) -> Option<&str> {
        self.fields.iter().find_map(|(name, value)| (*name == wanted).then_some(value.as_str()))
    }
}

/// The result of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The run exists and will start.
    Created,
    /// It existed before: the same submission, repeated.
    Exists,
    /// The schedule's time was handled by another process, or the sub-workflow run is no longer wanted;
    /// nothing was done.
    Passed,
    /// The shard's inbox is full; nothing was done.
    Busy,
    /// A queue that it needs is full; nothing was done.
    QueueFull,
    /// A blob of its inputs has expired; nothing was done.
    BlobMissing,
    /// Its app accepts no runs now; nothing was done.
    Closed(AppState),
}

/// A command to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCommand {
    /// The kind of its fact.
    pub kind: &'static str,
    /// The body of its fact.
    pub body: String,
    /// Makes a repetition harmless.
    pub key: Option<CommandKey>,
    /// Names and sizes of the blobs that it refers to; they belong to the run from then on.
    pub blobs: Vec<(BlobId, u64)>,
}

impl RunCommand {
    /// A command without a key and blobs.
    pub fn new(kind: &'static str, body: String) -> Self {
        Self { kind, body, key: None, blobs: Vec::new() }
    }
}

/// A command's key, chosen by the client and stored as long as the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandKey {
    pub key: String,
    /// SHA-256 of the request, to distinguish a repetition from another command.
    pub sha: String,
}

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Its fact is in the inbox.
    Accepted,
    /// It was accepted before under this key.
    Repeated,
    /// Another command has used the key; nothing was done.
    KeyTaken,
    /// A blob that it refers to has expired; nothing was done.
    BlobMissing,
    NotFound,
    /// The run has ended.
    Over(RunStatus),
}

/// The answer to a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseAnswer {
    /// Makes a repetition harmless. Stored in the record as `key`.
    pub key: Option<String>,
    /// The stored record: JSON.
    pub record: String,
    /// The body of its fact.
    pub fact: String,
}

/// The result of an answer to a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// It is stored and its fact is in the inbox.
    Accepted,
    /// It was accepted before under this key.
    Repeated,
    /// Another answer came first.
    AlreadyAnswered,
    /// No such run, or it has no such pause.
    NotFound,
    /// The pause has expired.
    Expired,
    /// The pause was cancelled.
    Cancelled,
    /// The run has ended.
    Over(RunStatus),
}

/// A page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The index of its first entry, from 0.
    pub from: usize,
    /// Maximum number of entries.
    pub count: usize,
}

/// The runs to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct ListRuns {
    /// Only this status. With an `app` runs of every status are listed.
    pub status: Option<RunStatus>,
    /// Only those created before this time (exclusive).
    pub before: Option<Timestamp>,
    /// Only those created at this time or later.
    pub since: Option<Timestamp>,
    /// Only those on these shards; `None` for all.
    pub shards: Option<Vec<ShardId>>,
    /// Only those of this app. Ask [`Runs::lists_runs_by_app`] first.
    pub app: Option<String>,
    /// Only those with the label of this [id](super::label_id), of all apps and of every status.
    pub label: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// A registered app.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct App {
    pub id: String,
    pub name: String,
    /// Dify's name of its mode.
    pub mode: String,
    /// Hash of the published version.
    pub version: String,
    /// Document of the published version.
    pub document: String,
    /// Unix milliseconds.
    pub created_at_ms: i64,
    /// Triggers of the published version: node and trigger id, in the order of the file.
    pub triggers: Vec<(String, String)>,
    /// The setting of its annotation reply that a client made, as JSON. Registering a version leaves it as it is.
    pub annotation_reply: Option<String>,
    /// Registering a version leaves it as it is.
    pub state: AppState,
}

/// The result of reserving an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// Reserved: continue with this run id.
    Ours,
    /// The same request came before, with this run.
    Same(RunId),
    /// Another request has used the key.
    Other,
}

/// The store as the API uses it.
#[async_trait]
pub trait Runs: AuditLog + Webhooks {
    /// The store of knowledge bases.
    fn knowledge(&self) -> &dyn KnowledgeBases;
    /// The store of annotations.
    fn annotations(&self) -> &dyn Annotations;
    /// The store of limits of apps and keys.
    fn app_limits(&self) -> &dyn AppLimits;
    /// The store of versions, users and ratings of apps.
    fn app_records(&self) -> &dyn AppRecords;
    /// The states of apps, and what removes apps and users.
    fn removals(&self) -> &dyn Removals;
    /// The live workers and the queues.
    fn fleet(&self) -> &dyn Fleet;
    /// What waits until writes are durable.
    fn durable(&self) -> &dyn Durable;
    /// Checks the server; an error when it cannot hold runs safely.
    async fn check(&self) -> Result<ServerReport, StoreError>;
    /// The namespace's settings; the first call writes defaults.
    async fn meta(&self) -> Result<Meta, StoreError>;
    /// The store's time.
    async fn time(&self) -> Result<Timestamp, StoreError>;
    /// Succeeds when the store accepts writes.
    async fn writable(&self) -> Result<(), StoreError>;
    /// Creates a run with its first fact, or nothing. May be repeated.
    async fn create_run(&self, new: &NewRun) -> Result<Created, StoreError>;
    /// Fields of the run hash; `None` when the run does not exist.
    async fn run_fields(&self, run: RunId) -> Result<Option<HashMap<String, String>>, StoreError>;
    /// All stored parts of a run.
    async fn run_at_rest(&self, run: RunId) -> Result<Option<AtRest>, StoreError>;
    /// The index of a run's message list; `None` when there is no such list.
    async fn list_index(&self, run: RunId, list: &str) -> Result<Option<String>, StoreError>;
    /// Messages of a run's list, oldest first; there may be more than the index knows.
    async fn list_messages(&self, run: RunId, list: &str, page: Page) -> Result<Vec<String>, StoreError>;
    /// Records of a run's history, oldest first.
    async fn history(&self, run: RunId, page: Page) -> Result<Vec<String>, StoreError>;
    /// The `rt` fields of a run, each with its JSON.
    async fn runtime(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError>;
    /// Run ids, newest first.
    async fn list_runs(&self, query: &ListRuns) -> Result<Vec<RunId>, StoreError>;
    /// Returns true when the runs of an app are best found in its own list. That is not so while a namespace of an earlier
    /// version is upgraded, and when fewer runs of all apps have the status.
    async fn lists_runs_by_app(&self, app: &str, status: Option<RunStatus>) -> Result<bool, StoreError>;
    /// Counts the runs that a query lists, without its limit.
    async fn count_runs(&self, query: &ListRuns) -> Result<u64, StoreError>;
    /// Takes runs off the list that a query reads, of an app or a label, that were listed there and no longer exist.
    async fn runs_gone(&self, query: &ListRuns, gone: &[RunId]) -> Result<(), StoreError>;
    /// Appends a command's fact to the inbox unless the run has ended; once per key.
    async fn send_command(&self, run: RunId, command: &RunCommand) -> Result<Sent, StoreError>;
    /// Fields of a run's pauses hash: `<pause id>` and its JSON, `<pause id>:answer` and its answer's.
    async fn pauses(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError>;
    /// Fields of a run's ledger: call key, and the cost of the model call as JSON.
    async fn ledger(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError>;
    /// Stores the first answer to a pending pause and appends its fact to the inbox, or does nothing.
    async fn answer_pause(
        &self,
        run: RunId,
        pause: &str,
        answer: &PauseAnswer,
    ) -> Result<Answered, StoreError>;
    /// Fields of a conversation's hash; empty when there is none.
    async fn conversation(&self, shard: ShardId, id: &str) -> Result<HashMap<String, String>, StoreError>;
    /// Makes a run the newest of a conversation, and creates the conversation if needed. May be repeated.
    async fn enter_conversation(&self, it: &Entering) -> Result<Entered, StoreError>;
    /// The last turns of a conversation, at most `count`, oldest first: JSON texts.
    async fn turns(&self, shard: ShardId, id: &str, count: usize) -> Result<Vec<String>, StoreError>;
    /// Whether the turn of an ended run is not stored yet.
    async fn is_unsettled(&self, run: RunId) -> Result<bool, StoreError>;
    /// Stores the turn; `false` when it is stored already or the conversation is gone.
    async fn settle_turn(&self, it: &Settling) -> Result<bool, StoreError>;
    /// Ended runs of these shards with unsettled turns: some of each shard, in no order.
    async fn unsettled(&self, shards: &[ShardId]) -> Result<Vec<RunId>, StoreError>;
    /// Records that a run has no turn to settle.
    async fn nothing_to_settle(&self, run: RunId) -> Result<(), StoreError>;
    /// A user's conversations with an app; `None` when the one to continue after is not in the list.
    async fn conversations(
        &self,
        query: &ListConversations,
    ) -> Result<Option<Vec<ListedConversation>>, StoreError>;
    /// Changes a conversation of this app and user; `false` when it does not exist.
    async fn change_conversation(&self, change: &ConversationChange) -> Result<bool, StoreError>;
    /// Removes a conversation with all its parts; `false` when this app and user have none. What its running
    /// runs write to it later is removed when they end.
    async fn drop_conversation(&self, it: &ConversationRef) -> Result<bool, StoreError>;
    /// Stores or removes a user's rating of a message.
    async fn rate_message(&self, it: &Rating) -> Result<Rated, StoreError>;
    /// The ratings of these messages of a conversation, in order.
    async fn ratings(
        &self,
        shard: ShardId,
        id: &str,
        messages: &[String],
    ) -> Result<Vec<Option<String>>, StoreError>;
    /// Ordered sub-workflow runs of these shards: at most `most` of each, the oldest order first.
    async fn waiting_calls(&self, shards: &[ShardId], most: usize) -> Result<Vec<WaitingCall>, StoreError>;
    /// The order of a sub-workflow run as JSON; `None` when it was never ordered.
    async fn call_order(&self, caller: RunId, run: RunId) -> Result<Option<String>, StoreError>;
    /// Some sub-workflow runs of a run with their orders, and the total number.
    async fn calls_of(&self, caller: RunId) -> Result<(Vec<(RunId, String)>, u64), StoreError>;
    /// Refuses a waiting order and informs the caller; `false` when it no longer waits.
    async fn refuse_call(&self, call: &WaitingCall, why: &Refusal) -> Result<bool, StoreError>;
    /// Counts an upload for its app and its user, or refuses it.
    async fn charge_upload(&self, it: &UploadCharge) -> Result<UploadCharged, StoreError>;
    /// Takes a counted upload out again, which could not be kept.
    async fn refund_upload(&self, it: &UploadCharge) -> Result<(), StoreError>;
    /// Notes that a run has files, before the first of them is stored; `false` when the run does not exist.
    async fn note_run_files(&self, run: RunId) -> Result<bool, StoreError>;
    /// Notes, before the files of a request are stored, that this run will have them. If it does not exist some time later,
    /// [`Shards::settle_early_files`](super::Shards::settle_early_files) lets them be removed.
    async fn note_early_files(&self, run: RunId, at: Timestamp) -> Result<(), StoreError>;
    /// The namespace's secret for form tokens: the first call stores `fresh`, later calls return it.
    async fn form_secret(&self, fresh: &str) -> Result<String, StoreError>;
    /// The namespace's salt for sealing secrets: the first call stores `fresh`, later calls return it.
    async fn seal_salt(&self, fresh: &str) -> Result<String, StoreError>;
    /// At most `count` entries of a run's events after an entry, oldest first.
    async fn entries(&self, run: RunId, after: EntryId, count: usize) -> Result<Vec<EventEntry>, StoreError>;
    /// The events of [`Self::entries`].
    async fn events(&self, run: RunId, after: EntryId, count: usize) -> Result<Vec<EventRecord>, StoreError> {
        let mut events = Vec::new();
        for entry in self.entries(run, after, count).await? {
            events.extend(entry.records().map_err(unreadable_events)?);
        }
        Ok(events)
    }
    /// Notifies when the run may have new events, often with the events. Only a hint: the caller must also
    /// look once a second. Call it before the first read, so that no event is missed.
    fn follow(&self, run: RunId) -> Following;
    /// A graph document.
    async fn graph(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError>;
    /// The JSON text of a blob.
    async fn blob(&self, shard: ShardId, id: &BlobId) -> Result<Option<String>, StoreError>;
    /// Stores a blob that expires unless a fact or run accepts it. May be repeated with the same text, which is never empty.
    async fn put_blob(&self, shard: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError>;
    /// Registers an app or a new version of it, the changes of its triggers, and the hash of an API key: all
    /// of it or nothing.
    async fn put_app(
        &self,
        app: &App,
        key_hash: Option<&str>,
        triggers: &TriggerChanges,
    ) -> Result<(), StoreError>;
    /// A trigger by its id.
    async fn trigger(&self, id: &str) -> Result<Option<TriggerState>, StoreError>;
    /// All triggers, sorted by id.
    async fn triggers(&self) -> Result<Vec<TriggerState>, StoreError>;
    /// Due schedules of these shards by the store's clock: some of each, the earliest first; and that clock's
    /// time.
    async fn due_schedules(&self, shards: &[ShardId]) -> Result<(Timestamp, Vec<DueSchedule>), StoreError>;
    /// Moves a schedule that is due at `from` to another time, or to none; `false` when it is not due then.
    async fn move_schedule(
        &self,
        trigger: &str,
        from: Timestamp,
        to: Option<Timestamp>,
    ) -> Result<bool, StoreError>;
    /// Records the last result of an existing trigger: a run without an error, or only an error.
    async fn note_fired(&self, trigger: &str, fired: &Fired) -> Result<(), StoreError>;
    /// An app by id.
    async fn app(&self, id: &str) -> Result<Option<App>, StoreError>;
    /// What a key opens; `None` for a revoked key. One that has expired is returned as it is.
    async fn grant_of_key(&self, key_hash: &str) -> Result<Option<KeyGrant>, StoreError>;
    /// Adds a key to an app.
    async fn add_key(&self, new: &NewKey) -> Result<(), StoreError>;
    /// Sets when a key expires, unless it does so earlier. False when there is no valid key with this id, an older version
    /// made it and its SHA-256 is not known, or another request changed it at the same time.
    async fn expire_key(&self, id: &str, at: Timestamp) -> Result<bool, StoreError>;
    /// Notes when a key was used.
    async fn note_key_used(&self, id: &str, at: Timestamp) -> Result<(), StoreError>;
    /// Revokes a key by its id; all processes reject it from then on.
    async fn revoke_key(&self, id: &str) -> Result<Revoked, StoreError>;
    /// The ones of these keys that were revoked, or have expired.
    async fn ended_of(&self, ids: &[String]) -> Result<Vec<String>, StoreError>;
    /// All issued keys, revoked ones too, sorted by id.
    async fn keys(&self) -> Result<Vec<AppKey>, StoreError>;
    /// The spending of a key over all shards; on one day (UTC, `2026-01-31`) if given.
    async fn key_cost(&self, key: &str, day: Option<&str>) -> Result<KeyCost, StoreError>;
    /// The budgets of keys: id and JSON.
    async fn key_budgets(&self) -> Result<Vec<(String, String)>, StoreError>;
    /// Sets or removes the budget of a key.
    async fn put_key_budget(&self, key: &str, budget: Option<&str>) -> Result<(), StoreError>;
    /// Ids of all apps.
    async fn apps(&self) -> Result<Vec<String>, StoreError>;
    /// The whole catalog: providers, profiles, library nodes …
    async fn catalog(&self) -> Result<Catalog, StoreError>;
    /// Writes a complete catalog entry if the condition holds.
    async fn put_entry(&self, put: PutEntry<'_>) -> Result<EntryPut, StoreError>;
    /// Removes a catalog entry, if it has this version; `None`: any. When it was the default profile, `heir`
    /// becomes the default, or the first by id when `heir` does not exist.
    async fn remove_entry(
        &self,
        kind: CatalogKind,
        id: &str,
        heir: &str,
        version: Option<u64>,
    ) -> Result<EntryRemoved, StoreError>;
    /// Stores the package of a plugin under the SHA-256 of its files, for [`tidemill_base::limits::PACKAGE_UNKEPT_SECONDS`]
    /// until [`Runs::keep_package`]. One that is there stays as it is.
    async fn put_package(&self, hash: &str, bytes: &[u8]) -> Result<(), StoreError>;
    /// Keeps the package of a plugin that an entry names now. False if there is none.
    async fn keep_package(&self, hash: &str) -> Result<bool, StoreError>;
    /// Removes the package of a plugin. A missing one is no error.
    async fn remove_package(&self, hash: &str) -> Result<(), StoreError>;
    /// The plugins (`author/name`) that have stored values. Those of some may be removed already.
    async fn plugin_storages(&self) -> Result<Vec<String>, StoreError>;
    /// Removes all that a plugin (`author/name`) has stored.
    async fn remove_plugin_values(&self, plugin: &str) -> Result<(), StoreError>;
    /// Dead letters of all shards, newest first.
    async fn dead_letters(&self, query: &ListDead) -> Result<Vec<DeadLetter>, StoreError>;
    /// One dead letter.
    async fn dead_letter(&self, id: DeadId) -> Result<Option<DeadLetter>, StoreError>;
    /// Deletes one; `false` when it does not exist.
    async fn drop_dead_letter(&self, id: DeadId) -> Result<bool, StoreError>;
    /// Puts a dead fact into the inbox of its run, if the run exists and has not ended, and deletes the dead
    /// letter.
    async fn put_back(&self, fact: DeadFact<'_>) -> Result<PutBack, StoreError>;
    /// Reserves an idempotency key for a run; `request` is the hash of the request.
    async fn reserve(&self, key_hash: &str, request: &str, run: RunId) -> Result<Reserved, StoreError>;
}
