//! A fake store of runs in memory, with only the parts that the API reads. No run is executed; tests add the events.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value as Json;
use tidemill_common::clock::{Clock, SystemClock, Timestamp};
use tidemill_common::ids::{BlobId, EntryId, RunId, ShardId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::following::Followed;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{
    Annotations, Answered, App, AppKey, AppLimits, AppRecords, AuditEntry, AuditKept, AuditLog, AuditPage,
    Catalog, CatalogKind, ConversationChange, ConversationRef, Created, DeadFact, DeadId, DeadLetter,
    DueSchedule, Durability, Durable, Entered, Entering, EntryPut, EntryRemoved, Fired, Fleet, Following,
    KeyCost, KeyGrant, KnowledgeBases, ListConversations, ListDead, ListRuns, ListedConversation, Meta,
    NewKey, NewRun, Notice, NoticePlace, NoticeTried, NoticesAhead, Page, PauseAnswer, PutBack, PutEntry,
    Rated, Rating, Refusal, Removals, Reserved, Revoked, RunCommand, Runs, Sent, ServerReport, Settling,
    StoreError, Trigger, TriggerChanges, TriggerState, Unconfirmed, UploadCharge, UploadCharged, WaitingCall,
    WaitingNotices, Webhooks, Written,
};
use tidemill_common::wire::entry::EventEntry;
use tidemill_common::wire::state::AtRest;
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct FakeStore {
    knowledge: Knowledge,
    inner: Mutex<Inner>,
    news: Notify,
    /// The hints for the followers of all runs; tests send them.
    pub(crate) followed: Arc<Followed>,
    /// The number of reads of events.
    pub(crate) reads: AtomicUsize,
}

/// The knowledge bases of the in-memory store.
struct Knowledge(MemoryStore);

impl Default for Knowledge {
    fn default() -> Self {
        Self(MemoryStore::new(Arc::new(SystemClock)))
    }
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) created: Vec<NewRun>,
    pub(crate) fields: HashMap<RunId, HashMap<String, String>>,
    pub(crate) events: HashMap<RunId, Vec<EventEntry>>,
    pub(crate) blobs: HashMap<BlobId, String>,
    pub(crate) sent: Vec<(RunId, String, String)>,
    pub(crate) is_busy: bool,
    /// No write is confirmed.
    pub(crate) is_unconfirmed: bool,
    /// What the API waited for.
    pub(crate) confirmed: Vec<(Written, Durability)>,
    pub(crate) dead: Vec<DeadLetter>,
    pub(crate) pauses: HashMap<RunId, HashMap<String, String>>,
    pub(crate) conversations: HashMap<String, (ShardId, HashMap<String, String>)>,
    command_keys: HashMap<(RunId, String), String>,
    graphs: HashMap<String, Arc<str>>,
    apps: HashMap<String, App>,
    pub(crate) triggers: HashMap<String, Trigger>,
    pub(crate) fired: HashMap<String, Fired>,
    keys: HashMap<String, String>,
    reserved: HashMap<String, (String, RunId)>,
    /// Entries to each conversation: app, user, run.
    entered: HashMap<String, Vec<(String, String, RunId)>>,
    pub(crate) turns: HashMap<String, Vec<String>>,
    pub(crate) unsettled: BTreeSet<RunId>,
    pub(crate) ledgers: HashMap<RunId, Vec<(String, String)>>,
    /// Index and messages of each list of a run.
    pub(crate) lists: HashMap<(RunId, String), (String, Vec<String>)>,
    pub(crate) histories: HashMap<RunId, Vec<String>>,
    pub(crate) runtimes: HashMap<RunId, Vec<(String, String)>>,
    pub(crate) calls: std::collections::BTreeMap<RunId, Vec<(RunId, String)>>,
}

impl FakeStore {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
    /// Adds an entry of events to a run; the number of the first is `seq`.
    pub(crate) fn add_events(&self, run: RunId, entry: &str, seq: u64, events: &[(&str, Json)]) {
        let fields = events.iter().enumerate().map(|(at, (kind, data))| {
            let mut data = data.clone();
            data["seq"] = (seq + at as u64).into();
            data["ts"] = 1_700_000_000_000_i64.into();
            ((*kind).to_string(), data.to_string())
        });
        let entry = EventEntry::read(entry.parse().unwrap(), fields).unwrap();
        self.lock().events.entry(run).or_default().push(entry);
        self.news.notify_waiters();
    }
    pub(crate) fn set(&self, run: RunId, fields: &[(&str, &str)]) {
        let mut inner = self.lock();
        let of_run = inner.fields.get_mut(&run).unwrap();
        of_run.extend(fields.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())));
    }
}

#[async_trait]
impl Durable for FakeStore {
    async fn gives(&self, durability: Durability) -> Result<(), Unconfirmed> {
        match durability {
            Durability::Memory | Durability::Replicated => Ok(()),
            Durability::Fsync => Err(Unconfirmed::Unsupported("set `appendfsync always`".into())),
        }
    }
    async fn confirm(&self, written: Written, level: Durability, _: Duration) -> Result<(), Unconfirmed> {
        let mut inner = self.lock();
        inner.confirmed.push((written, level));
        if inner.is_unconfirmed { Err(Unconfirmed::NoReplica) } else { Ok(()) }
    }
}

#[async_trait]
impl AuditLog for FakeStore {
    async fn note_audit(&self, entry: &AuditEntry, kept: AuditKept) -> Result<(), StoreError> {
        self.knowledge.0.note_audit(entry, kept).await
    }
    async fn audit(&self, page: &AuditPage) -> Result<Vec<(EntryId, AuditEntry)>, StoreError> {
        self.knowledge.0.audit(page).await
    }
}

#[async_trait]
impl Webhooks for FakeStore {
    async fn put_webhook(&self, app: &str, webhook: Option<&str>) -> Result<(), StoreError> {
        self.knowledge.0.put_webhook(app, webhook).await
    }
    async fn webhook(&self, app: &str) -> Result<Option<String>, StoreError> {
        self.knowledge.0.webhook(app).await
    }
    async fn webhooks(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.knowledge.0.webhooks().await
    }
    async fn webhooks_version(&self) -> Result<u64, StoreError> {
        self.knowledge.0.webhooks_version().await
    }
    async fn places_with_notices(&self, shards: &[ShardId]) -> Result<Vec<NoticePlace>, StoreError> {
        self.knowledge.0.places_with_notices(shards).await
    }
    async fn notices_ahead(&self, places: &[NoticePlace]) -> Result<Vec<NoticesAhead>, StoreError> {
        self.knowledge.0.notices_ahead(places).await
    }
    async fn due_notices(
        &self,
        place: &NoticePlace,
        now: Timestamp,
        most: usize,
    ) -> Result<Vec<Notice>, StoreError> {
        self.knowledge.0.due_notices(place, now, most).await
    }
    async fn latest_notices(&self, place: &NoticePlace, most: usize) -> Result<Vec<Notice>, StoreError> {
        self.knowledge.0.latest_notices(place, most).await
    }
    async fn drop_notices(&self, app: &str) -> Result<(), StoreError> {
        self.knowledge.0.drop_notices(app).await
    }
    async fn settle_notice(&self, notice: &Notice, tried: &NoticeTried) -> Result<bool, StoreError> {
        self.knowledge.0.settle_notice(notice, tried).await
    }
    async fn notices_of(
        &self,
        app: &str,
        most: usize,
    ) -> Result<(Vec<WaitingNotices>, Vec<String>), StoreError> {
        self.knowledge.0.notices_of(app, most).await
    }
}

#[async_trait]
impl Runs for FakeStore {
    fn knowledge(&self) -> &dyn KnowledgeBases {
        &self.knowledge.0
    }
    fn annotations(&self) -> &dyn Annotations {
        &self.knowledge.0
    }
    fn app_limits(&self) -> &dyn AppLimits {
        &self.knowledge.0
    }
    fn app_records(&self) -> &dyn AppRecords {
        &self.knowledge.0
    }
    fn removals(&self) -> &dyn Removals {
        &self.knowledge.0
    }
    fn fleet(&self) -> &dyn Fleet {
        &self.knowledge.0
    }
    fn durable(&self) -> &dyn Durable {
        self
    }
    async fn check(&self) -> Result<ServerReport, StoreError> {
        Ok(ServerReport::default())
    }
    async fn meta(&self) -> Result<Meta, StoreError> {
        Ok(Meta { version: 1, shards: 2, shards_first: 2 })
    }
    async fn time(&self) -> Result<Timestamp, StoreError> {
        Ok(SystemClock.now())
    }
    async fn writable(&self) -> Result<(), StoreError> {
        Ok(())
    }
    async fn create_run(&self, new: &NewRun) -> Result<Created, StoreError> {
        let mut inner = self.lock();
        if inner.is_busy {
            return Ok(Created::Busy);
        }
        if inner.fields.contains_key(&new.id) {
            return Ok(Created::Exists);
        }
        if new.blobs.iter().any(|(id, _)| !inner.blobs.contains_key(id)) {
            return Ok(Created::BlobMissing);
        }
        let fields = new.fields.iter().map(|(k, v)| ((*k).to_string(), v.clone())).collect();
        inner.fields.insert(new.id, fields);
        inner.graphs.insert(new.graph.0.clone(), new.graph.1.clone());
        inner.created.push(new.clone());
        Ok(Created::Created)
    }
    async fn enter_conversation(&self, it: &Entering) -> Result<Entered, StoreError> {
        let mut inner = self.lock();
        let of = &it.conversation;
        let kept = inner.entered.entry(of.id.clone()).or_default();
        let is_theirs = kept.first().is_none_or(|(app, user, _)| *app == of.app && *user == of.user);
        if !is_theirs || (kept.is_empty() && it.must_exist) {
            return Ok(Entered::Unknown);
        }
        if kept.last().is_none_or(|(_, _, run)| *run != it.run) {
            kept.push((of.app.clone(), of.user.clone(), it.run));
        }
        let previous = kept.len().checked_sub(2).map(|at| kept[at].2);
        Ok(Entered::Entered { dialogue: kept.len() as u64, previous, unsettled: Vec::new() })
    }
    async fn turns(&self, _: ShardId, id: &str, _: usize) -> Result<Vec<String>, StoreError> {
        Ok(self.lock().turns.get(id).cloned().unwrap_or_default())
    }
    async fn is_unsettled(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.lock().unsettled.contains(&run))
    }
    async fn settle_turn(&self, it: &Settling) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        let is_first = inner.unsettled.remove(&it.run);
        if is_first {
            inner.turns.entry(it.conversation.id.clone()).or_default().push(it.turn.clone());
        }
        Ok(is_first)
    }
    async fn conversations(
        &self,
        _: &ListConversations,
    ) -> Result<Option<Vec<ListedConversation>>, StoreError> {
        Ok(Some(Vec::new()))
    }
    async fn change_conversation(&self, _: &ConversationChange) -> Result<bool, StoreError> {
        Ok(false)
    }
    async fn drop_conversation(&self, _: &ConversationRef) -> Result<bool, StoreError> {
        Ok(false)
    }
    async fn rate_message(&self, _: &Rating) -> Result<Rated, StoreError> {
        Ok(Rated::Unknown)
    }
    async fn ratings(
        &self,
        _: ShardId,
        _: &str,
        messages: &[String],
    ) -> Result<Vec<Option<String>>, StoreError> {
        Ok(vec![None; messages.len()])
    }
    async fn unsettled(&self, _: &[ShardId]) -> Result<Vec<RunId>, StoreError> {
        Ok(self.lock().unsettled.iter().copied().collect())
    }
    async fn nothing_to_settle(&self, run: RunId) -> Result<(), StoreError> {
        self.lock().unsettled.remove(&run);
        Ok(())
    }
    async fn keys(&self) -> Result<Vec<AppKey>, StoreError> {
        Ok(Vec::new())
    }
    async fn add_key(&self, new: &NewKey) -> Result<(), StoreError> {
        self.lock().keys.insert(new.hash.clone(), new.grant.app.clone());
        Ok(())
    }
    async fn expire_key(&self, _: &str, _: Timestamp) -> Result<bool, StoreError> {
        Ok(false)
    }
    async fn note_key_used(&self, _: &str, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }
    async fn revoke_key(&self, _: &str) -> Result<Revoked, StoreError> {
        Ok(Revoked::Unknown)
    }
    async fn ended_of(&self, _: &[String]) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
    async fn key_cost(&self, _: &str, _: Option<&str>) -> Result<KeyCost, StoreError> {
        Ok(KeyCost::default())
    }
    async fn key_budgets(&self) -> Result<Vec<(String, String)>, StoreError> {
        Ok(Vec::new())
    }
    async fn put_package(&self, _: &str, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    async fn keep_package(&self, _: &str) -> Result<bool, StoreError> {
        Ok(true)
    }
    async fn remove_package(&self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }
    async fn plugin_storages(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
    async fn remove_plugin_values(&self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }
    async fn put_key_budget(&self, _: &str, _: Option<&str>) -> Result<(), StoreError> {
        Ok(())
    }
    async fn waiting_calls(&self, _: &[ShardId], _: usize) -> Result<Vec<WaitingCall>, StoreError> {
        Ok(Vec::new())
    }
    async fn call_order(&self, _: RunId, _: RunId) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
    async fn ledger(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        Ok(self.lock().ledgers.get(&run).cloned().unwrap_or_default())
    }
    async fn calls_of(&self, caller: RunId) -> Result<(Vec<(RunId, String)>, u64), StoreError> {
        let calls = self.lock().calls.get(&caller).cloned().unwrap_or_default();
        let count = calls.len() as u64;
        Ok((calls, count))
    }
    async fn refuse_call(&self, _: &WaitingCall, _: &Refusal) -> Result<bool, StoreError> {
        Ok(false)
    }
    async fn run_fields(&self, run: RunId) -> Result<Option<HashMap<String, String>>, StoreError> {
        Ok(self.lock().fields.get(&run).cloned())
    }
    async fn run_at_rest(&self, run: RunId) -> Result<Option<AtRest>, StoreError> {
        let fields = self.lock().fields.get(&run).cloned();
        let pauses = self.lock().pauses.get(&run).cloned().unwrap_or_default().into_iter().collect();
        Ok(fields.map(|run| AtRest { run, pauses, ..AtRest::default() }))
    }
    async fn list_index(&self, run: RunId, list: &str) -> Result<Option<String>, StoreError> {
        Ok(self.lock().lists.get(&(run, list.to_string())).map(|(index, _)| index.clone()))
    }
    async fn list_messages(&self, run: RunId, list: &str, page: Page) -> Result<Vec<String>, StoreError> {
        let inner = self.lock();
        let messages = inner.lists.get(&(run, list.to_string())).map(|(_, messages)| messages);
        Ok(messages.into_iter().flatten().skip(page.from).take(page.count).cloned().collect())
    }
    async fn history(&self, run: RunId, page: Page) -> Result<Vec<String>, StoreError> {
        let inner = self.lock();
        let records = inner.histories.get(&run);
        Ok(records.into_iter().flatten().skip(page.from).take(page.count).cloned().collect())
    }
    async fn runtime(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        Ok(self.lock().runtimes.get(&run).cloned().unwrap_or_default())
    }
    async fn list_runs(&self, query: &ListRuns) -> Result<Vec<RunId>, StoreError> {
        let inner = self.lock();
        let newest: BTreeSet<_> = inner.created.iter().map(|new| (new.created_at, new.id)).collect();
        let is_wanted = |(at, _): &(Timestamp, RunId)| query.before.is_none_or(|before| *at < before);
        Ok(newest.into_iter().rev().filter(is_wanted).map(|(_, id)| id).take(query.limit).collect())
    }
    async fn lists_runs_by_app(&self, _: &str, _: Option<RunStatus>) -> Result<bool, StoreError> {
        Ok(false)
    }
    async fn count_runs(&self, _: &ListRuns) -> Result<u64, StoreError> {
        Ok(self.lock().created.len() as u64)
    }
    async fn runs_gone(&self, _: &ListRuns, _: &[RunId]) -> Result<(), StoreError> {
        Ok(())
    }
    async fn send_command(&self, run: RunId, command: &RunCommand) -> Result<Sent, StoreError> {
        let mut inner = self.lock();
        let Some(fields) = inner.fields.get(&run) else { return Ok(Sent::NotFound) };
        let status = RunStatus::from_name(&fields["status"]).unwrap();
        if let Some(key) = &command.key
            && let Some(sha) = inner.command_keys.get(&(run, key.key.clone()))
        {
            return Ok(if *sha == key.sha { Sent::Repeated } else { Sent::KeyTaken });
        }
        if status.is_over() {
            return Ok(Sent::Over(status));
        }
        if let Some(key) = &command.key {
            inner.command_keys.insert((run, key.key.clone()), key.sha.clone());
        }
        inner.sent.push((run, command.kind.into(), command.body.clone()));
        Ok(Sent::Accepted)
    }
    async fn pauses(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        Ok(self.lock().pauses.get(&run).cloned().unwrap_or_default().into_iter().collect())
    }
    async fn answer_pause(
        &self,
        run: RunId,
        pause: &str,
        answer: &PauseAnswer,
    ) -> Result<Answered, StoreError> {
        let mut inner = self.lock();
        let Some(of_run) = inner.pauses.get_mut(&run) else { return Ok(Answered::NotFound) };
        let Some(asked) = of_run.get(pause) else { return Ok(Answered::NotFound) };
        let asked: Json = serde_json::from_str(asked).unwrap();
        if let Some(earlier) = of_run.get(&format!("{pause}:answer")) {
            let earlier: Json = serde_json::from_str(earlier).unwrap();
            let is_same = answer.key.is_some() && earlier["key"].as_str() == answer.key.as_deref();
            return Ok(match (is_same, earlier["cancel"] == true) {
                (true, _) => Answered::Repeated,
                (false, true) => Answered::Cancelled,
                (false, false) => Answered::AlreadyAnswered,
            });
        }
        match asked["status"].as_str() {
            Some("expired") => return Ok(Answered::Expired),
            Some("cancelled") => return Ok(Answered::Cancelled),
            _ => {}
        }
        of_run.insert(format!("{pause}:answer"), answer.record.clone());
        inner.sent.push((run, "answer".into(), answer.fact.clone()));
        Ok(Answered::Accepted)
    }
    async fn conversation(&self, shard: ShardId, id: &str) -> Result<HashMap<String, String>, StoreError> {
        let kept = self.lock().conversations.get(id).cloned();
        Ok(kept.filter(|(of, _)| *of == shard).map(|(_, fields)| fields).unwrap_or_default())
    }
    async fn charge_upload(&self, _it: &UploadCharge) -> Result<UploadCharged, StoreError> {
        Ok(UploadCharged::Taken)
    }
    async fn refund_upload(&self, _it: &UploadCharge) -> Result<(), StoreError> {
        Ok(())
    }
    async fn note_run_files(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.lock().fields.contains_key(&run))
    }
    async fn note_early_files(&self, _run: RunId, _at: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }
    async fn form_secret(&self, _fresh: &str) -> Result<String, StoreError> {
        Ok("secret".into())
    }
    async fn seal_salt(&self, fresh: &str) -> Result<String, StoreError> {
        Ok(fresh.into())
    }
    fn follow(&self, _run: RunId) -> Following {
        // No hint comes unless a test sends one; followers look once a second anyway.
        Following::new(self.followed.clone(), None)
    }
    async fn entries(&self, run: RunId, after: EntryId, count: usize) -> Result<Vec<EventEntry>, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let inner = self.lock();
        let entries = inner.events.get(&run).into_iter().flatten();
        Ok(entries.filter(|entry| entry.id > after).take(count).cloned().collect())
    }
    async fn graph(&self, _shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.lock().graphs.get(hash).cloned())
    }
    async fn blob(&self, _shard: ShardId, id: &BlobId) -> Result<Option<String>, StoreError> {
        Ok(self.lock().blobs.get(id).cloned())
    }
    async fn put_blob(&self, _shard: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError> {
        self.lock().blobs.insert(id.clone(), text.into());
        Ok(())
    }
    async fn put_app(
        &self,
        app: &App,
        key_hash: Option<&str>,
        triggers: &TriggerChanges,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let put = triggers.put.iter().map(|(trigger, _)| (trigger.id.clone(), trigger.clone()));
        inner.triggers.extend(put);
        inner.apps.insert(app.id.clone(), app.clone());
        if let Some(hash) = key_hash {
            inner.keys.insert(hash.into(), app.id.clone());
        }
        Ok(())
    }
    async fn trigger(&self, id: &str) -> Result<Option<TriggerState>, StoreError> {
        let inner = self.lock();
        let fired = inner.fired.get(id).cloned().unwrap_or_default();
        Ok(inner.triggers.get(id).map(|trigger| TriggerState { trigger: trigger.clone(), fired, due: None }))
    }
    async fn triggers(&self) -> Result<Vec<TriggerState>, StoreError> {
        let state =
            |trigger: &Trigger| TriggerState { trigger: trigger.clone(), fired: Fired::default(), due: None };
        Ok(self.lock().triggers.values().map(state).collect())
    }
    async fn due_schedules(&self, _shards: &[ShardId]) -> Result<(Timestamp, Vec<DueSchedule>), StoreError> {
        Ok((self.time().await?, Vec::new()))
    }
    async fn move_schedule(
        &self,
        _trigger: &str,
        _from: Timestamp,
        _to: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        Ok(false)
    }
    async fn note_fired(&self, trigger: &str, fired: &Fired) -> Result<(), StoreError> {
        self.lock().fired.insert(trigger.into(), fired.clone());
        Ok(())
    }
    async fn app(&self, id: &str) -> Result<Option<App>, StoreError> {
        Ok(self.lock().apps.get(id).cloned())
    }
    async fn grant_of_key(&self, key_hash: &str) -> Result<Option<KeyGrant>, StoreError> {
        Ok(self.lock().keys.get(key_hash).map(|app| KeyGrant::of(app)))
    }
    async fn apps(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.lock().apps.keys().cloned().collect())
    }
    async fn catalog(&self) -> Result<Catalog, StoreError> {
        Ok(Catalog::default())
    }
    async fn put_entry(&self, _: PutEntry<'_>) -> Result<EntryPut, StoreError> {
        Ok(EntryPut::Stored(1))
    }
    async fn remove_entry(
        &self,
        _: CatalogKind,
        _: &str,
        _: &str,
        _: Option<u64>,
    ) -> Result<EntryRemoved, StoreError> {
        Ok(EntryRemoved::Gone)
    }
    async fn dead_letters(&self, query: &ListDead) -> Result<Vec<DeadLetter>, StoreError> {
        let mut letters = self.lock().dead.clone();
        letters.retain(|letter| query.before.is_none_or(|before| letter.id < before));
        letters.sort_by_key(|letter| std::cmp::Reverse(letter.id));
        letters.truncate(query.limit);
        Ok(letters)
    }
    async fn dead_letter(&self, id: DeadId) -> Result<Option<DeadLetter>, StoreError> {
        Ok(self.lock().dead.iter().find(|letter| letter.id == id).cloned())
    }
    async fn drop_dead_letter(&self, id: DeadId) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        let before = inner.dead.len();
        inner.dead.retain(|letter| letter.id != id);
        Ok(inner.dead.len() < before)
    }
    async fn put_back(&self, fact: DeadFact<'_>) -> Result<PutBack, StoreError> {
        let mut inner = self.lock();
        let Some(fields) = inner.fields.get(&fact.run) else { return Ok(PutBack::NoRun) };
        let status = RunStatus::from_name(&fields["status"]).unwrap();
        if status.is_over() {
            return Ok(PutBack::Over(status));
        }
        inner.sent.push((fact.run, fact.kind.into(), fact.body.into()));
        inner.dead.retain(|letter| letter.id != fact.id);
        Ok(PutBack::Done)
    }
    async fn reserve(&self, key_hash: &str, request: &str, run: RunId) -> Result<Reserved, StoreError> {
        let mut inner = self.lock();
        Ok(match inner.reserved.get(key_hash) {
            Some((known, earlier)) if known == request => Reserved::Same(*earlier),
            Some(_) => Reserved::Other,
            None => {
                inner.reserved.insert(key_hash.into(), (request.into(), run));
                Reserved::Ours
            }
        })
    }
}
