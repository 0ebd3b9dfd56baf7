//! [`Runs`] over Redis. Each method is in the file of its family.

mod apps;
mod create;
mod lists;
mod namespace;
mod one_run;
mod reserved;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::RedisStore;
use crate::store::{
    Annotations, Answered, App, AppKey, AppLimits, AppRecords, Catalog, CatalogKind, ConversationChange,
    ConversationRef, Created, DeadFact, DeadId, DeadLetter, DueSchedule, Durable, Entered, Entering,
    EntryPut, EntryRemoved, Fired, Fleet, Following, KeyCost, KeyGrant, KnowledgeBases, ListConversations,
    ListDead, ListRuns, ListedConversation, Meta, NewKey, NewRun, Page, PauseAnswer, PutBack, PutEntry,
    Rated, Rating, Refusal, Removals, Reserved, Revoked, RunCommand, Runs, Sent, ServerReport, Settling,
    StoreError, TriggerChanges, TriggerState, UploadCharge, UploadCharged, WaitingCall,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, EntryId, RunId, ShardId};
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::entry::EventEntry;
use tidemill_wire::state::AtRest;
use tidemill_wire::state::messages::{HISTORY_PART, RUNTIME_PART};

#[async_trait]
impl Runs for RedisStore {
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
        crate::store::redis::connection::check::check(self).await
    }

    async fn meta(&self) -> Result<Meta, StoreError> {
        self.read_meta().await
    }

    async fn time(&self) -> Result<Timestamp, StoreError> {
        let (seconds, micros): (i64, i64) =
            self.connector.ask("reading the time", &redis::cmd("TIME")).await?;
        Ok(Timestamp::from_micros(seconds * 1_000_000 + micros))
    }

    async fn writable(&self) -> Result<(), StoreError> {
        let refused = self.refusals().await?;
        match refused.into_iter().next() {
            Some((is_whole, error)) if is_whole => Err(error),
            Some(_) | None => Ok(()),
        }
    }

    async fn create_run(&self, new: &NewRun) -> Result<Created, StoreError> {
        self.store_run(new).await
    }

    async fn run_fields(&self, run: RunId) -> Result<Option<HashMap<String, String>>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.run(run));
        let fields: HashMap<String, String> = self.connector.ask("reading a run", &command).await?;
        Ok((!fields.is_empty()).then_some(fields))
    }

    async fn run_at_rest(&self, run: RunId) -> Result<Option<AtRest>, StoreError> {
        self.at_rest(run).await
    }

    async fn list_index(&self, run: RunId, list: &str) -> Result<Option<String>, StoreError> {
        self.index_of(run, list).await
    }

    async fn list_messages(&self, run: RunId, list: &str, page: Page) -> Result<Vec<String>, StoreError> {
        self.page_of(run, &format!("messages:{list}"), page).await
    }

    async fn history(&self, run: RunId, page: Page) -> Result<Vec<String>, StoreError> {
        self.page_of(run, HISTORY_PART, page).await
    }

    async fn runtime(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        self.hash_of(self.keys.object(run, RUNTIME_PART)).await
    }

    async fn list_runs(&self, query: &ListRuns) -> Result<Vec<RunId>, StoreError> {
        self.runs_listed(query).await
    }

    async fn count_runs(&self, query: &ListRuns) -> Result<u64, StoreError> {
        self.runs_counted(query).await
    }

    async fn lists_runs_by_app(&self, app: &str, status: Option<RunStatus>) -> Result<bool, StoreError> {
        self.lists_by_app(app, status).await
    }

    async fn runs_gone(&self, query: &ListRuns, gone: &[RunId]) -> Result<(), StoreError> {
        self.take_off_list(query, gone).await
    }

    async fn send_command(&self, run: RunId, command: &RunCommand) -> Result<Sent, StoreError> {
        self.send(run, command).await
    }

    async fn pauses(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        self.whole_pauses(run).await
    }

    async fn ledger(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        self.whole_ledger(run).await
    }

    async fn answer_pause(
        &self,
        run: RunId,
        pause: &str,
        answer: &PauseAnswer,
    ) -> Result<Answered, StoreError> {
        self.answer(run, pause, answer).await
    }

    async fn conversation(&self, shard: ShardId, id: &str) -> Result<HashMap<String, String>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.conversation(shard, id));
        self.connector.ask("reading a conversation", &command).await
    }

    async fn enter_conversation(&self, it: &Entering) -> Result<Entered, StoreError> {
        self.enter(it).await
    }

    async fn turns(&self, shard: ShardId, id: &str, count: usize) -> Result<Vec<String>, StoreError> {
        self.last_turns(shard, id, count).await
    }

    async fn is_unsettled(&self, run: RunId) -> Result<bool, StoreError> {
        self.has_unsettled(run).await
    }

    async fn settle_turn(&self, it: &Settling) -> Result<bool, StoreError> {
        self.settle(it).await
    }

    async fn keys(&self) -> Result<Vec<AppKey>, StoreError> {
        self.all_keys().await
    }

    async fn key_cost(&self, key: &str, day: Option<&str>) -> Result<KeyCost, StoreError> {
        self.all_costs(key, day).await
    }

    async fn key_budgets(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.hash_of(self.keys.key_budgets()).await
    }

    async fn put_key_budget(&self, key: &str, budget: Option<&str>) -> Result<(), StoreError> {
        self.put_budget(key, budget).await
    }

    async fn waiting_calls(&self, shards: &[ShardId], most: usize) -> Result<Vec<WaitingCall>, StoreError> {
        self.some_calls(shards, most).await
    }

    async fn call_order(&self, caller: RunId, run: RunId) -> Result<Option<String>, StoreError> {
        self.order_of(caller, run).await
    }

    async fn calls_of(&self, caller: RunId) -> Result<(Vec<(RunId, String)>, u64), StoreError> {
        self.some_calls_of(caller).await
    }

    async fn refuse_call(&self, call: &WaitingCall, why: &Refusal) -> Result<bool, StoreError> {
        self.refuse(call, why).await
    }

    async fn unsettled(&self, shards: &[ShardId]) -> Result<Vec<RunId>, StoreError> {
        self.some_unsettled(shards).await
    }

    async fn nothing_to_settle(&self, run: RunId) -> Result<(), StoreError> {
        self.forget_unsettled(run).await
    }

    async fn conversations(
        &self,
        query: &ListConversations,
    ) -> Result<Option<Vec<ListedConversation>>, StoreError> {
        self.list_conversations(query).await
    }

    async fn change_conversation(&self, change: &ConversationChange) -> Result<bool, StoreError> {
        self.change(change).await
    }

    async fn drop_conversation(&self, it: &ConversationRef) -> Result<bool, StoreError> {
        self.remove(it, false).await
    }

    async fn rate_message(&self, it: &Rating) -> Result<Rated, StoreError> {
        self.rate(it).await
    }

    async fn ratings(
        &self,
        shard: ShardId,
        id: &str,
        messages: &[String],
    ) -> Result<Vec<Option<String>>, StoreError> {
        self.rated(shard, id, messages).await
    }

    async fn charge_upload(&self, it: &UploadCharge) -> Result<UploadCharged, StoreError> {
        self.charge(it, i64::try_from(it.bytes).unwrap_or(i64::MAX)).await
    }

    async fn refund_upload(&self, it: &UploadCharge) -> Result<(), StoreError> {
        let unlimited = UploadCharge { app_max: 0, user_max: 0, ..it.clone() };
        self.charge(&unlimited, i64::try_from(it.bytes).map_or(i64::MIN, |bytes| -bytes)).await?;
        Ok(())
    }

    async fn note_run_files(&self, run: RunId) -> Result<bool, StoreError> {
        self.note_files_of(run).await
    }

    async fn note_early_files(&self, run: RunId, at: Timestamp) -> Result<(), StoreError> {
        self.note_early(run, at).await
    }

    async fn form_secret(&self, fresh: &str) -> Result<String, StoreError> {
        self.settle_once("reading the secret of form tokens", "form_secret", fresh).await
    }

    async fn seal_salt(&self, fresh: &str) -> Result<String, StoreError> {
        self.settle_once("reading the salt of seals", "seal_salt", fresh).await
    }

    async fn entries(&self, run: RunId, after: EntryId, count: usize) -> Result<Vec<EventEntry>, StoreError> {
        self.some_entries(run, after, count).await
    }

    fn follow(&self, run: RunId) -> Following {
        self.ticks.follow(&self.connector, &self.keys, run)
    }

    async fn graph(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError> {
        self.get_graph(shard, hash).await
    }

    async fn blob(&self, shard: ShardId, id: &BlobId) -> Result<Option<String>, StoreError> {
        self.get_blob(shard, id).await
    }

    async fn put_blob(&self, shard: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError> {
        self.set_blob(shard, id, text).await
    }

    async fn put_app(
        &self,
        app: &App,
        key_hash: Option<&str>,
        triggers: &TriggerChanges,
    ) -> Result<(), StoreError> {
        self.write_app(app, key_hash, triggers).await
    }

    async fn trigger(&self, id: &str) -> Result<Option<TriggerState>, StoreError> {
        self.find_trigger(id).await
    }

    async fn triggers(&self) -> Result<Vec<TriggerState>, StoreError> {
        self.list_triggers().await
    }

    async fn due_schedules(&self, shards: &[ShardId]) -> Result<(Timestamp, Vec<DueSchedule>), StoreError> {
        self.look_for_due(shards).await
    }

    async fn move_schedule(
        &self,
        trigger: &str,
        from: Timestamp,
        to: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.move_due(trigger, from, to).await
    }

    async fn note_fired(&self, trigger: &str, fired: &Fired) -> Result<(), StoreError> {
        self.note(trigger, fired).await
    }

    async fn app(&self, id: &str) -> Result<Option<App>, StoreError> {
        self.read_app(id).await
    }

    async fn grant_of_key(&self, key_hash: &str) -> Result<Option<KeyGrant>, StoreError> {
        self.opened_by(key_hash).await
    }

    async fn add_key(&self, new: &NewKey) -> Result<(), StoreError> {
        self.another_key(new).await
    }

    async fn expire_key(&self, id: &str, at: Timestamp) -> Result<bool, StoreError> {
        self.expire(id, at).await
    }

    async fn note_key_used(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        self.used(id, at).await
    }

    async fn revoke_key(&self, id: &str) -> Result<Revoked, StoreError> {
        self.revoke(id).await
    }

    async fn ended_of(&self, ids: &[String]) -> Result<Vec<String>, StoreError> {
        self.which_have_ended(ids).await
    }

    async fn apps(&self) -> Result<Vec<String>, StoreError> {
        self.ids_of_apps().await
    }

    async fn catalog(&self) -> Result<Catalog, StoreError> {
        self.read_catalog().await
    }

    async fn put_entry(&self, put: PutEntry<'_>) -> Result<EntryPut, StoreError> {
        self.put(put).await
    }

    async fn remove_entry(
        &self,
        kind: CatalogKind,
        id: &str,
        heir: &str,
        version: Option<u64>,
    ) -> Result<EntryRemoved, StoreError> {
        Self::remove_entry(self, kind, id, heir, version).await
    }

    async fn put_package(&self, hash: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.write_package(hash, bytes).await
    }

    async fn keep_package(&self, hash: &str) -> Result<bool, StoreError> {
        self.persist_package(hash).await
    }

    async fn remove_package(&self, hash: &str) -> Result<(), StoreError> {
        self.delete_package(hash).await
    }

    async fn plugin_storages(&self) -> Result<Vec<String>, StoreError> {
        self.storages_of_plugins().await
    }

    async fn remove_plugin_values(&self, plugin: &str) -> Result<(), StoreError> {
        self.remove_values_of_plugin(plugin).await
    }

    async fn dead_letters(&self, query: &ListDead) -> Result<Vec<DeadLetter>, StoreError> {
        self.list_dead(query).await
    }

    async fn dead_letter(&self, id: DeadId) -> Result<Option<DeadLetter>, StoreError> {
        self.find_dead(id).await
    }

    async fn drop_dead_letter(&self, id: DeadId) -> Result<bool, StoreError> {
        self.drop_dead(id).await
    }

    async fn put_back(&self, fact: DeadFact<'_>) -> Result<PutBack, StoreError> {
        self.put_fact_back(fact).await
    }

    async fn reserve(&self, key_hash: &str, request: &str, run: RunId) -> Result<Reserved, StoreError> {
        self.reserve_for(key_hash, request, run).await
    }
}
