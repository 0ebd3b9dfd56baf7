//! [`Runs`] in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;

use super::queue::Queue;
use super::shard::{GraphDocument, Run, Shard};
use super::{Inner, MemoryStore, Reservation, calls, conversations, dead, pauses};
use crate::store::labels::{LABELS_FIELD, label_ids};
use crate::store::{
    Annotations, Answered, App, AppKey, AppLimits, AppRecords, AppState, Catalog, CatalogKind,
    ConversationChange, ConversationRef, Created, DeadFact, DeadId, DeadLetter, DueSchedule, Durable,
    Entered, Entering, EntryPut, EntryRemoved, Fired, Fleet, Following, KeyCost, KeyGrant, KeyNote,
    KnowledgeBases, ListConversations, ListDead, ListRuns, ListedConversation, Meta, NewKey, NewRun, Page,
    PauseAnswer, PutBack, PutEntry, Rated, Rating, Refusal, Removals, Reserved, Revoked, RunCommand, Runs,
    Sent, ServerReport, Settling, StoreError, TriggerChanges, TriggerState, UploadCharge, UploadCharged,
    WaitingCall, shard_of,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, EntryId, RunId, ShardId};
use tidemill_base::limits;
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::conversation::CONVERSATION_MESSAGES;
use tidemill_wire::entry::EventEntry;
use tidemill_wire::state::AtRest;
use tidemill_wire::state::messages::{HISTORY_PART, OBJECTS_FIELD, index_field};
use tidemill_workflow::messages::MAIN;

fn create(
    shard: &mut Shard,
    new: &NewRun,
    bounds: (u64, u64),
    (closed, now): (Option<AppState>, Timestamp),
) -> Created {
    let (inbox_max, queue_max) = bounds;
    if new.schedule.as_ref().is_some_and(|from| !shard.is_due(&from.trigger, from.due)) {
        return Created::Passed;
    }
    if new.called.as_ref().is_some_and(|call| !calls::waits(shard, call)) {
        return Created::Passed;
    }
    if shard.runs.contains_key(&new.id) {
        shard.moved_by(new.schedule.as_ref());
        calls::taken(shard, new.called.as_ref());
        return Created::Exists;
    }
    if let Some(state) = closed {
        return Created::Closed(state);
    }
    if shard.inbox.len() as u64 >= inbox_max {
        return Created::Busy;
    }
    let is_full = |name| shard.queues.get(name).is_some_and(|queue: &Queue| queue.len() as u64 >= queue_max);
    if new.queues.iter().any(is_full) {
        return Created::QueueFull;
    }
    if !shard.has_blobs(&new.blobs, now) {
        return Created::BlobMissing;
    }
    let (hash, document) = &new.graph;
    let graph =
        shard.graphs.entry(hash.clone()).or_insert_with(|| GraphDocument { text: document.clone(), runs: 0 });
    graph.runs += 1;
    let fields = new.fields.iter().map(|(name, text)| ((*name).to_string(), text.clone())).collect();
    let mut run = Run { fields, graph: hash.clone(), created_at: new.created_at, ..Run::default() };
    if let Some(kept) = new.takes_messages.as_ref().and_then(|id| shard.conversations.get(id))
        && let Some(index) = kept.fields.get(CONVERSATION_MESSAGES)
    {
        run.state.insert(index_field(MAIN), index.clone());
        run.lists.insert("messages:main".into(), kept.messages.clone());
        run.fields.insert(OBJECTS_FIELD.into(), "messages:main".into());
    }
    shard.runs.insert(new.id, run);
    shard.accept_blobs(new.id, &new.blobs);
    if new.has_files {
        shard.files.insert(new.id);
    }
    shard.moved_by(new.schedule.as_ref());
    calls::taken(shard, new.called.as_ref());
    shard.add_fact(now, new.id.to_string(), new.kind, &new.start);
    Created::Created
}

impl Inner {
    pub(super) fn graph_text(&self, shard: ShardId, hash: &str) -> Option<Arc<str>> {
        self.lock().shard(shard).graphs.get(hash).map(|graph| graph.text.clone())
    }
    pub(super) fn blob_text(&self, shard: ShardId, id: &BlobId) -> Option<String> {
        let now = self.now();
        self.lock().shard(shard).blob(id, now).map(str::to_string)
    }
    pub(super) fn keep_blob(&self, shard: ShardId, id: &BlobId, text: &str) {
        let now = self.now();
        self.lock().shard(shard).put_blob(id, text, now);
    }
    /// All runs that a query lists, newest first.
    fn runs_in(&self, query: &ListRuns) -> Vec<RunId> {
        let space = self.lock();
        let is_of_every_status = query.app.is_some() || query.label.is_some();
        let has_label = |run: &Run, label: &String| {
            label_ids(run.fields.get(LABELS_FIELD).map(String::as_str)).contains(label)
        };
        let wanted = |id: &RunId, run: &Run| {
            (is_of_every_status || query.status.is_none_or(|status| run.status() == Some(status)))
                && query.before.is_none_or(|before| run.created_at < before)
                && query.since.is_none_or(|since| run.created_at >= since)
                && query.shards.as_ref().is_none_or(|shards| shards.contains(&id.shard()))
                && query.label.as_ref().is_none_or(|label| has_label(run, label))
                && (query.label.is_some()
                    || query.app.as_ref().is_none_or(|app| run.fields.get("app") == Some(app)))
        };
        let runs = space.shards.values().flat_map(|shard| &shard.runs);
        let mut found: Vec<(Timestamp, RunId)> =
            runs.filter(|(id, run)| wanted(id, run)).map(|(id, run)| (run.created_at, *id)).collect();
        found.sort_by(|a, b| b.cmp(a));
        found.into_iter().map(|(_, id)| id).collect()
    }
    fn page_of(&self, run: RunId, part: &str, page: Page) -> Vec<String> {
        let mut space = self.lock();
        let entries = space.shard(run.shard()).runs.get(&run).and_then(|run| run.lists.get(part));
        entries.into_iter().flatten().skip(page.from).take(page.count).cloned().collect()
    }
    pub(super) fn at_rest(&self, run: RunId) -> Option<AtRest> {
        self.lock().shard(run.shard()).runs.get(&run).map(|known| known.at_rest(run))
    }
}

#[async_trait]
impl Runs for MemoryStore {
    fn knowledge(&self) -> &dyn KnowledgeBases {
        self
    }

    fn annotations(&self) -> &dyn Annotations {
        self
    }

    fn app_limits(&self) -> &dyn AppLimits {
        self
    }

    fn app_records(&self) -> &dyn AppRecords {
        self
    }

    fn removals(&self) -> &dyn Removals {
        self
    }

    fn fleet(&self) -> &dyn Fleet {
        self
    }

    fn durable(&self) -> &dyn Durable {
        self
    }

    async fn check(&self) -> Result<ServerReport, StoreError> {
        Ok(ServerReport { version: "memory".into(), ..ServerReport::default() })
    }

    async fn meta(&self) -> Result<Meta, StoreError> {
        Ok(self.inner.meta())
    }

    async fn time(&self) -> Result<Timestamp, StoreError> {
        Ok(self.inner.now())
    }

    async fn writable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn create_run(&self, new: &NewRun) -> Result<Created, StoreError> {
        let now = self.inner.now();
        let bounds = (self.inner.inbox_max, self.inner.queue_max);
        let mut space = self.inner.lock();
        let closed = new.app().and_then(|app| space.closed_apps.get(app).copied());
        let created = create(space.shard(new.id.shard()), new, bounds, (closed, now));
        if created == Created::Created {
            space.queue_names.extend(new.queues.iter().map(|name| name.to_string()));
        }
        drop(space);
        self.inner.facts_came.notify_waiters();
        Ok(created)
    }

    async fn run_fields(&self, run: RunId) -> Result<Option<HashMap<String, String>>, StoreError> {
        Ok(self.inner.lock().shard(run.shard()).runs.get(&run).map(|run| run.fields.clone()))
    }

    async fn run_at_rest(&self, run: RunId) -> Result<Option<AtRest>, StoreError> {
        Ok(self.inner.at_rest(run))
    }

    async fn list_index(&self, run: RunId, list: &str) -> Result<Option<String>, StoreError> {
        let mut space = self.inner.lock();
        let known = space.shard(run.shard()).runs.get(&run);
        Ok(known.and_then(|run| run.state.get(&index_field(list)).cloned()))
    }

    async fn list_messages(&self, run: RunId, list: &str, page: Page) -> Result<Vec<String>, StoreError> {
        Ok(self.inner.page_of(run, &format!("messages:{list}"), page))
    }

    async fn history(&self, run: RunId, page: Page) -> Result<Vec<String>, StoreError> {
        Ok(self.inner.page_of(run, HISTORY_PART, page))
    }

    async fn runtime(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        let mut space = self.inner.lock();
        let known = space.shard(run.shard()).runs.get(&run);
        Ok(known.map_or_else(Vec::new, |run| run.runtime.clone().into_iter().collect()))
    }

    async fn list_runs(&self, query: &ListRuns) -> Result<Vec<RunId>, StoreError> {
        self.inner.answers(query.shards.iter().flatten().copied())?;
        if query.app.is_none() && query.label.is_none() {
            self.inner.lists_of_all.fetch_add(1, Ordering::Relaxed);
        }
        let mut found = self.inner.runs_in(query);
        found.truncate(query.limit);
        Ok(found)
    }

    async fn count_runs(&self, query: &ListRuns) -> Result<u64, StoreError> {
        Ok(self.inner.runs_in(query).len() as u64)
    }

    async fn lists_runs_by_app(&self, _: &str, _: Option<RunStatus>) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn runs_gone(&self, _: &ListRuns, _: &[RunId]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn send_command(&self, run: RunId, command: &RunCommand) -> Result<Sent, StoreError> {
        let now = self.inner.now();
        let sent = pauses::send(self.inner.lock().shard(run.shard()), run, command, now);
        self.inner.facts_came.notify_waiters();
        Ok(sent)
    }

    async fn pauses(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        let mut space = self.inner.lock();
        let known = space.shard(run.shard()).runs.get(&run);
        Ok(known.map_or_else(Vec::new, |known| known.pauses(run)))
    }

    async fn ledger(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        let mut space = self.inner.lock();
        let known = space.shard(run.shard()).runs.get(&run);
        Ok(known.map_or_else(Vec::new, |run| run.ledger.clone().into_iter().collect()))
    }

    async fn answer_pause(
        &self,
        run: RunId,
        pause: &str,
        answer: &PauseAnswer,
    ) -> Result<Answered, StoreError> {
        let now = self.inner.now();
        let answered = pauses::answer(self.inner.lock().shard(run.shard()), run, pause, answer, now);
        self.inner.facts_came.notify_waiters();
        answered
    }

    async fn conversation(&self, shard: ShardId, id: &str) -> Result<HashMap<String, String>, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let kept = space.shard(shard).conversations.get(id).filter(|it| it.until.is_none_or(|u| u > now));
        Ok(kept.map(|kept| kept.fields.clone()).unwrap_or_default())
    }

    async fn enter_conversation(&self, it: &Entering) -> Result<Entered, StoreError> {
        let now = self.inner.now();
        Ok(conversations::enter(self.inner.lock().shard(it.run.shard()), it, now))
    }

    async fn turns(&self, shard: ShardId, id: &str, count: usize) -> Result<Vec<String>, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let kept = space.shard(shard).conversations.get(id).filter(|it| it.until.is_none_or(|u| u > now));
        let kept = kept.map(|kept| kept.turns.as_slice());
        let kept = kept.unwrap_or_default();
        Ok(kept[kept.len().saturating_sub(count)..].to_vec())
    }

    async fn is_unsettled(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.inner.lock().shard(run.shard()).unsettled.contains(&run))
    }

    async fn settle_turn(&self, it: &Settling) -> Result<bool, StoreError> {
        let now = self.inner.now();
        Ok(conversations::settle(self.inner.lock().shard(it.run.shard()), it, now))
    }

    async fn keys(&self) -> Result<Vec<AppKey>, StoreError> {
        Ok(self.inner.lock().keys.all())
    }

    async fn key_cost(&self, key: &str, day: Option<&str>) -> Result<KeyCost, StoreError> {
        let of = (key.to_string(), day.map(str::to_string));
        let mut sum = KeyCost::default();
        self.inner
            .lock()
            .shards
            .values()
            .filter_map(|shard| shard.key_costs.get(&of))
            .for_each(|part| sum.merge(part));
        Ok(sum)
    }

    async fn key_budgets(&self) -> Result<Vec<(String, String)>, StoreError> {
        Ok(self.inner.lock().budgets.clone().into_iter().collect())
    }

    async fn put_key_budget(&self, key: &str, budget: Option<&str>) -> Result<(), StoreError> {
        let budgets = &mut self.inner.lock().budgets;
        match budget {
            Some(budget) => budgets.insert(key.to_string(), budget.to_string()),
            None => budgets.remove(key),
        };
        Ok(())
    }

    async fn waiting_calls(&self, shards: &[ShardId], most: usize) -> Result<Vec<WaitingCall>, StoreError> {
        let mut space = self.inner.lock();
        Ok(shards.iter().flat_map(|shard| calls::waiting(space.shard(*shard), most)).collect())
    }

    async fn call_order(&self, caller: RunId, run: RunId) -> Result<Option<String>, StoreError> {
        let mut space = self.inner.lock();
        let of = space.shard(caller.shard()).runs.get(&caller);
        Ok(of.and_then(|caller| caller.calls.get(&run)).cloned())
    }

    async fn calls_of(&self, caller: RunId) -> Result<(Vec<(RunId, String)>, u64), StoreError> {
        let mut space = self.inner.lock();
        let of = space.shard(caller.shard()).runs.get(&caller).map(|caller| caller.calls.clone());
        let calls: Vec<_> = of.into_iter().flatten().collect();
        let count = calls.len() as u64;
        Ok((calls, count))
    }

    async fn refuse_call(&self, call: &WaitingCall, why: &Refusal) -> Result<bool, StoreError> {
        let now = self.inner.now();
        let is_refused = calls::refuse(self.inner.lock().shard(call.caller.shard()), call, why, now);
        self.inner.facts_came.notify_waiters();
        Ok(is_refused)
    }

    async fn unsettled(&self, shards: &[ShardId]) -> Result<Vec<RunId>, StoreError> {
        let mut space = self.inner.lock();
        Ok(shards.iter().flat_map(|shard| space.shard(*shard).unsettled.clone()).collect())
    }

    async fn nothing_to_settle(&self, run: RunId) -> Result<(), StoreError> {
        self.inner.lock().shard(run.shard()).unsettled.remove(&run);
        Ok(())
    }

    async fn conversations(
        &self,
        query: &ListConversations,
    ) -> Result<Option<Vec<ListedConversation>>, StoreError> {
        let now = self.inner.now();
        Ok(conversations::list(&self.inner.lock(), query, now))
    }

    async fn change_conversation(&self, change: &ConversationChange) -> Result<bool, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        Ok(conversations::change(space.shard(change.conversation.shard), change, now))
    }

    async fn drop_conversation(&self, it: &ConversationRef) -> Result<bool, StoreError> {
        let now = self.inner.now();
        Ok(conversations::drop_it(self.inner.lock().shard(it.shard), it, now))
    }

    async fn rate_message(&self, it: &Rating) -> Result<Rated, StoreError> {
        let now = self.inner.now();
        Ok(conversations::rate(self.inner.lock().shard(it.conversation.shard), it, now))
    }

    async fn ratings(
        &self,
        shard: ShardId,
        id: &str,
        messages: &[String],
    ) -> Result<Vec<Option<String>>, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let kept = space.shard(shard).conversations.get(id).filter(|it| it.until.is_none_or(|u| u > now));
        let of = |message| kept.and_then(|kept| kept.ratings.get(message)).cloned();
        Ok(messages.iter().map(of).collect())
    }

    async fn charge_upload(&self, it: &UploadCharge) -> Result<UploadCharged, StoreError> {
        Ok(self.inner.lock().charge(it))
    }

    async fn refund_upload(&self, it: &UploadCharge) -> Result<(), StoreError> {
        self.inner.lock().refund(it);
        Ok(())
    }

    async fn note_run_files(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.inner.lock().note_files(run))
    }

    async fn note_early_files(&self, run: RunId, at: Timestamp) -> Result<(), StoreError> {
        let mut space = self.inner.lock();
        let shard = space.shard(run.shard());
        shard.files_early.insert(run, at.millis());
        shard.files_left.remove(&run);
        Ok(())
    }

    async fn form_secret(&self, fresh: &str) -> Result<String, StoreError> {
        Ok(self.inner.lock().form_secret.get_or_insert_with(|| fresh.to_string()).clone())
    }

    async fn seal_salt(&self, fresh: &str) -> Result<String, StoreError> {
        Ok(self.inner.lock().seal_salt.get_or_insert_with(|| fresh.to_string()).clone())
    }

    async fn entries(&self, run: RunId, after: EntryId, count: usize) -> Result<Vec<EventEntry>, StoreError> {
        let mut space = self.inner.lock();
        let known = space.shard(run.shard()).runs.get(&run);
        known.map_or(Ok(Vec::new()), |known| known.entries(run, after, count))
    }

    fn follow(&self, run: RunId) -> Following {
        // One notifier for all runs: followers look more often than needed, which is allowed.
        let _ = run;
        Following::new(self.inner.events_came.clone(), None)
    }

    async fn graph(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.inner.graph_text(shard, hash))
    }

    async fn blob(&self, shard: ShardId, id: &BlobId) -> Result<Option<String>, StoreError> {
        Ok(self.inner.blob_text(shard, id))
    }

    async fn put_blob(&self, shard: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError> {
        self.inner.keep_blob(shard, id, text);
        Ok(())
    }

    async fn put_app(
        &self,
        app: &App,
        key_hash: Option<&str>,
        triggers: &TriggerChanges,
    ) -> Result<(), StoreError> {
        let mut space = self.inner.lock();
        space.change_triggers(triggers, self.inner.meta());
        let known = space.apps.get(&app.id);
        let annotation_reply = known.and_then(|known| known.annotation_reply.clone());
        let state = known.map(|known| known.state).unwrap_or_default();
        space.apps.insert(app.id.clone(), App { annotation_reply, state, ..app.clone() });
        if let Some(hash) = key_hash {
            let at = Timestamp::from_millis(app.created_at_ms);
            space.keys.add(&app.id, hash, KeyNote::made(hash, at, true));
        }
        Ok(())
    }

    async fn trigger(&self, id: &str) -> Result<Option<TriggerState>, StoreError> {
        Ok(self.inner.lock().trigger(id, self.inner.meta()))
    }

    async fn triggers(&self) -> Result<Vec<TriggerState>, StoreError> {
        Ok(self.inner.lock().all_triggers(self.inner.meta()))
    }

    async fn due_schedules(&self, shards: &[ShardId]) -> Result<(Timestamp, Vec<DueSchedule>), StoreError> {
        let now = self.inner.now();
        Ok((now, self.inner.lock().due(shards, now)))
    }

    async fn move_schedule(
        &self,
        trigger: &str,
        from: Timestamp,
        to: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let mut space = self.inner.lock();
        let shard = space.shard(shard_of(trigger, self.inner.meta()));
        let is_due = shard.is_due(trigger, from);
        if is_due {
            shard.move_schedule(trigger, to);
        }
        Ok(is_due)
    }

    async fn note_fired(&self, trigger: &str, fired: &Fired) -> Result<(), StoreError> {
        self.inner.lock().note_fired(trigger, fired);
        Ok(())
    }

    async fn app(&self, id: &str) -> Result<Option<App>, StoreError> {
        Ok(self.inner.lock().apps.get(id).cloned())
    }

    async fn grant_of_key(&self, key_hash: &str) -> Result<Option<KeyGrant>, StoreError> {
        Ok(self.inner.lock().keys.opened_by(key_hash))
    }

    async fn add_key(&self, new: &NewKey) -> Result<(), StoreError> {
        self.inner.lock().keys.add(&new.grant.app, &new.hash, KeyNote::of_new(new));
        Ok(())
    }

    async fn expire_key(&self, id: &str, at: Timestamp) -> Result<bool, StoreError> {
        Ok(self.inner.lock().keys.expire(id, at))
    }

    async fn note_key_used(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        self.inner.lock().keys.use_at(id, at);
        Ok(())
    }

    async fn revoke_key(&self, id: &str) -> Result<Revoked, StoreError> {
        let now = self.inner.now();
        Ok(self.inner.lock().keys.revoke(id, now))
    }

    async fn ended_of(&self, ids: &[String]) -> Result<Vec<String>, StoreError> {
        let now = self.inner.now();
        Ok(self.inner.lock().keys.ended_of(ids, now))
    }

    async fn apps(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.inner.lock().apps.keys().cloned().collect())
    }

    async fn catalog(&self) -> Result<Catalog, StoreError> {
        Ok(self.inner.lock().catalog.all())
    }

    async fn put_entry(&self, put: PutEntry<'_>) -> Result<EntryPut, StoreError> {
        let now = self.inner.now();
        Ok(self.inner.lock().catalog.put(put, now))
    }

    async fn remove_entry(
        &self,
        kind: CatalogKind,
        id: &str,
        heir: &str,
        version: Option<u64>,
    ) -> Result<EntryRemoved, StoreError> {
        let now = self.inner.now();
        Ok(self.inner.lock().catalog.remove((kind, id), heir, version, now))
    }

    async fn put_package(&self, hash: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.inner.lock().packages.insert(hash.to_string(), bytes.to_vec());
        Ok(())
    }

    async fn keep_package(&self, hash: &str) -> Result<bool, StoreError> {
        Ok(self.inner.lock().packages.contains_key(hash))
    }

    async fn remove_package(&self, hash: &str) -> Result<(), StoreError> {
        self.inner.lock().packages.remove(hash);
        Ok(())
    }

    async fn plugin_storages(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.inner.lock().plugin_values.keys().cloned().collect())
    }

    async fn remove_plugin_values(&self, plugin: &str) -> Result<(), StoreError> {
        self.inner.lock().plugin_values.remove(plugin);
        Ok(())
    }

    async fn dead_letters(&self, query: &ListDead) -> Result<Vec<DeadLetter>, StoreError> {
        Ok(dead::list(&self.inner.lock(), query))
    }

    async fn dead_letter(&self, id: DeadId) -> Result<Option<DeadLetter>, StoreError> {
        Ok(dead::find(self.inner.lock().shard(id.shard), id))
    }

    async fn drop_dead_letter(&self, id: DeadId) -> Result<bool, StoreError> {
        Ok(self.inner.lock().shard(id.shard).dead.remove(id.entry).is_some())
    }

    async fn put_back(&self, fact: DeadFact<'_>) -> Result<PutBack, StoreError> {
        let now = self.inner.now();
        let put = dead::put_back(self.inner.lock().shard(fact.id.shard), fact, now);
        self.inner.facts_came.notify_waiters();
        Ok(put)
    }

    async fn reserve(&self, key_hash: &str, request: &str, run: RunId) -> Result<Reserved, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        space.reserved.retain(|_, reserved| reserved.until > now);
        if let Some(known) = space.reserved.get(key_hash) {
            return Ok(match known {
                known if known.request != request => Reserved::Other,
                known if known.run == run => Reserved::Ours,
                known => Reserved::Same(known.run),
            });
        }
        let until = now.plus(Duration::from_secs(limits::IDEMPOTENCY_SECONDS));
        space.reserved.insert(key_hash.to_string(), Reservation { run, request: request.to_string(), until });
        Ok(Reserved::Ours)
    }
}
