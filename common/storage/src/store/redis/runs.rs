//! [`Runs`] over Redis.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use redis::Value;

use super::RedisStore;
use super::asked::complete;
use super::connection::{Arg, args};
use crate::store::redis::connection::replies::{array, entry, pairs, unexpected};
use crate::store::{
    Annotations, Answered, App, AppKey, AppLimits, AppRecords, AppState, Catalog, CatalogKind,
    ConversationChange, ConversationRef, Created, DeadFact, DeadId, DeadLetter, DueSchedule, Durable,
    Entered, Entering, EntryPut, Fired, Fleet, Following, KeyCost, KeyGrant, KeyNote, KnowledgeBases,
    ListConversations, ListDead, ListRuns, ListedConversation, Meta, NewKey, NewRun, Page, PauseAnswer,
    PutBack, PutEntry, Rated, Rating, Refusal, Removals, Reserved, Revoked, RunCommand, Runs, Sent,
    ServerReport, Settling, StoreError, TriggerChanges, TriggerState, UploadCharge, UploadCharged,
    WaitingCall, unreadable_events,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, EntryId, RunId, ShardId};
use tidemill_base::limits;
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::asked::whole_pause;
use tidemill_wire::entry::EventEntry;
use tidemill_wire::event::last_seq;
use tidemill_wire::state::AtRest;
use tidemill_wire::state::messages::{HISTORY_PART, MessagesAtRest, OBJECTS_FIELD, RUNTIME_PART};

/// The most graphs remembered as stored in Redis.
const KNOWN_GRAPHS_MAX: usize = 10_000;
/// Ledger entries that are read at once.
const LEDGER_PAGE: usize = 1000;

impl RedisStore {
    /// A field of the namespace that is written once: stores `fresh` unless it exists.
    pub(super) async fn settle_once(
        &self,
        doing: &'static str,
        field: &str,
        fresh: &str,
    ) -> Result<String, StoreError> {
        let mut read = redis::cmd("HGET");
        read.arg(self.keys.meta()).arg(field);
        // A full Redis refuses even a write that changes nothing, so read first.
        if let Some(known) = self.connector.ask::<Option<String>>(doing, &read).await? {
            return Ok(known);
        }
        let mut pipe = redis::pipe();
        pipe.cmd("HSETNX").arg(self.keys.meta()).arg(field).arg(fresh).ignore();
        pipe.add_command(read);
        let (settled,): (String,) = self.connector.ask_all(doing, &pipe).await?;
        Ok(settled)
    }
}

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
        const DOING: &str = "reading the namespace's settings";
        let key = self.keys.meta();
        let mut read = redis::cmd("HMGET");
        read.arg(&key).arg("v").arg("shards").arg("shards_first");
        // A full Redis refuses even a write that changes nothing, so write only when something is missing.
        let known: (Option<u64>, Option<u16>, Option<u16>) = self.connector.ask(DOING, &read).await?;
        let (version, shards, shards_first) = match known {
            (Some(version), Some(shards), Some(first)) => (version, shards, first),
            (version, _, _) => {
                let shards = self.limits.shards;
                let mut pipe = redis::pipe();
                pipe.cmd("HSETNX").arg(&key).arg("v").arg(version.unwrap_or(1)).ignore();
                pipe.cmd("HSETNX").arg(&key).arg("shards").arg(shards).ignore();
                pipe.cmd("HSETNX").arg(&key).arg("shards_first").arg(shards).ignore();
                pipe.add_command(read);
                let (settings,): ((u64, u16, u16),) = self.connector.ask_all(DOING, &pipe).await?;
                settings
            }
        };
        let Some(version) = u32::try_from(version).ok().filter(|it| *it <= tidemill_wire::VERSION) else {
            return Err(self.refused_version(version).await);
        };
        if shards == 0 || shards > ShardId::COUNT_MAX {
            return Err(unexpected(DOING, format!("{key} says shards {shards}")));
        }
        Ok(Meta { version, shards, shards_first })
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
        let shard = new.id.shard();
        let known = (shard, new.graph.0.clone());
        let assumed = self.known_graphs().contains(&known);
        let mut word = self.create(new, assumed).await?;
        if word == "NOGRAPH" {
            // The graph was swept with its last run since we stored it.
            self.known_graphs().remove(&known);
            word = self.create(new, false).await?;
        }
        match word.as_str() {
            "CREATED" => {
                {
                    let mut graphs = self.known_graphs();
                    if graphs.len() >= KNOWN_GRAPHS_MAX {
                        // The worst effect is one document sent again.
                        graphs.clear();
                    }
                    graphs.insert(known);
                }
                // Only for lists of queues, so its failure must not fail the run.
                drop(self.note_queues(&new.queues).await);
                Ok(Created::Created)
            }
            "EXISTS" => Ok(Created::Exists),
            "PASSED" => Ok(Created::Passed),
            "BUSY" => Ok(Created::Busy),
            "QUEUE" => Ok(Created::QueueFull),
            "NOBLOB" => Ok(Created::BlobMissing),
            "off" | "removing" => Ok(Created::Closed(AppState::named(&word))),
            other => Err(unexpected("creating a run", other)),
        }
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
        let (keys, [before, since]) = (self.keys_of_list(query).await?, bounds_of(query));
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::Pipeline::with_capacity(keys.len());
        for key in keys {
            pipe.cmd("ZREVRANGEBYSCORE").arg(key).arg(&before).arg(&since).arg("WITHSCORES");
            pipe.arg("LIMIT").arg(0).arg(query.limit);
        }
        let shards: Vec<Vec<(String, f64)>> = self.connector.ask_all("listing runs", &pipe).await?;
        let mut runs: Vec<(f64, RunId)> =
            shards.into_iter().flatten().filter_map(|(id, score)| Some((score, id.parse().ok()?))).collect();
        runs.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        runs.truncate(query.limit);
        Ok(runs.into_iter().map(|(_, id)| id).collect())
    }

    async fn count_runs(&self, query: &ListRuns) -> Result<u64, StoreError> {
        let (keys, [before, since]) = (self.keys_of_list(query).await?, bounds_of(query));
        let mut pipe = redis::Pipeline::with_capacity(keys.len());
        for key in keys {
            pipe.cmd("ZCOUNT").arg(key).arg(&since).arg(&before);
        }
        if pipe.is_empty() {
            return Ok(0);
        }
        let counts: Vec<u64> = self.connector.ask_all("counting runs", &pipe).await?;
        Ok(counts.into_iter().sum())
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
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.pauses(run));
        let fields: HashMap<String, String> = self.connector.ask("reading pauses", &command).await?;
        let whole = |(id, text): (String, String)| {
            let text = whole_pause(run, &id, &text);
            (id, text)
        };
        Ok(fields.into_iter().map(whole).collect())
    }

    async fn ledger(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        let (key, mut all, mut cursor) = (self.keys.ledger(run), HashMap::new(), 0_u64);
        loop {
            // In pages: a long run has many calls, and the shard has other work.
            let mut command = redis::cmd("HSCAN");
            command.arg(&key).arg(cursor).arg("COUNT").arg(LEDGER_PAGE);
            let (next, fields): (u64, Vec<(String, String)>) =
                self.connector.ask("reading the ledger of a run", &command).await?;
            all.extend(fields);
            if next == 0 {
                return Ok(all.into_iter().collect());
            }
            cursor = next;
        }
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
        const DOING: &str = "reading events";
        let mut command = redis::cmd("XRANGE");
        command.arg(self.keys.events(run)).arg(format!("({after}")).arg("+").arg("COUNT").arg(count);
        let value: Value = self.connector.ask(DOING, &command).await?;
        let entries = array(value).ok_or_else(|| unexpected(DOING, "not a list"))?;
        let read = entries.into_iter().filter_map(entry).map(|(id, fields)| EventEntry::read(id, fields));
        let mut entries: Vec<EventEntry> = read.collect::<Result<_, _>>().map_err(unreadable_events)?;
        complete(&self.connector, &self.keys, run, &mut entries).await?;
        Ok(entries)
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
        let meta = Runs::meta(self).await?;
        self.set_due(triggers, meta).await?;
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("HSET").arg(self.keys.app(&app.id));
        for (field, value) in [
            ("name", app.name.as_str()),
            ("mode", &app.mode),
            ("version", &app.version),
            ("document", &app.document),
            ("created_at", &app.created_at_ms.to_string()),
            ("triggers", &serde_json::to_string(&app.triggers).unwrap_or_default()),
        ] {
            pipe.arg(field).arg(value);
        }
        pipe.ignore();
        pipe.cmd("SADD").arg(self.keys.apps()).arg(&app.id).ignore();
        if let Some(hash) = key_hash {
            let at = Timestamp::from_millis(app.created_at_ms);
            self.write_key(&mut pipe, &KeyGrant::of(&app.id), hash, &KeyNote::made(hash, at, true));
        }
        self.change_triggers(triggers, &mut pipe);
        self.connector.ask_all::<()>("registering an app", &pipe).await?;
        self.settle_due(triggers, meta).await
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
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.app(id));
        let mut fields: HashMap<String, String> = self.connector.ask("reading an app", &command).await?;
        if fields.is_empty() {
            return Ok(None);
        }
        let mut take = |name: &str| fields.remove(name).unwrap_or_default();
        Ok(Some(App {
            id: id.to_string(),
            name: take("name"),
            mode: take("mode"),
            version: take("version"),
            document: take("document"),
            created_at_ms: take("created_at").parse().unwrap_or(0),
            triggers: serde_json::from_str(&take("triggers")).unwrap_or_default(),
            state: AppState::named(&take("state")),
            annotation_reply: fields.remove("annotation_reply"),
        }))
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
        let mut command = redis::cmd("SMEMBERS");
        command.arg(self.keys.apps());
        let mut ids: Vec<String> = self.connector.ask("listing apps", &command).await?;
        ids.sort();
        Ok(ids)
    }

    async fn catalog(&self) -> Result<Catalog, StoreError> {
        self.read_catalog().await
    }

    async fn put_entry(&self, put: PutEntry<'_>) -> Result<EntryPut, StoreError> {
        self.put(put).await
    }

    async fn remove_entry(&self, kind: CatalogKind, id: &str, heir: &str) -> Result<bool, StoreError> {
        Self::remove_entry(self, kind, id, heir).await
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
        const DOING: &str = "reserving an idempotency key";
        let key = self.idempotency_key(key_hash).await?;
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(&key).arg(format!("{run} {request}")).arg("NX").arg("EX");
        pipe.arg(limits::IDEMPOTENCY_SECONDS).ignore();
        pipe.cmd("GET").arg(&key);
        let (held,): (Option<String>,) = self.connector.ask_all(DOING, &pipe).await?;
        let held = held.ok_or_else(|| unexpected(DOING, "the key vanished"))?;
        match held.split_once(' ') {
            Some((id, same)) if same == request => {
                let id: RunId = id.parse().map_err(|_| unexpected(DOING, "not a run id"))?;
                Ok(if id == run { Reserved::Ours } else { Reserved::Same(id) })
            }
            _ => Ok(Reserved::Other),
        }
    }
}

impl RedisStore {
    /// The key of an idempotency key. Its shard stays the same when the namespace gets more shards.
    pub(super) async fn idempotency_key(&self, key_hash: &str) -> Result<String, StoreError> {
        let first = Runs::meta(self).await?.shards_first.max(1);
        let number = u64::from_str_radix(key_hash.get(..8).unwrap_or("0"), 16).unwrap_or(0);
        let shard = ShardId(u16::try_from(number % u64::from(first)).unwrap_or(0));
        Ok(self.keys.idempotency(shard, key_hash))
    }

    /// Writes a probe to each server, and returns what was refused. The flag says that the store cannot be used at all: one
    /// server of a cluster that takes no writes stops its own shards only, unless it has the namespace's keys.
    ///
    /// # Errors
    /// The number of shards of a cluster cannot be read.
    pub async fn refusals(&self) -> Result<Vec<(bool, StoreError)>, StoreError> {
        const DOING: &str = "writing a probe";
        let mut pipe = redis::pipe();
        let mut probe = |key: String| {
            pipe.cmd("SET").arg(key).arg(1).arg("EX").arg(60);
        };
        probe(self.keys.probe());
        let shards = if self.connector.is_cluster() { Runs::meta(self).await?.shards } else { 0 };
        (0..shards).map(ShardId).for_each(|shard| probe(self.keys.probe_of(shard)));
        let bare = self.connector.without_shards(shards).await?;
        bare.iter().for_each(|shard| probe(self.keys.probe_of(*shard)));
        let mut answers = self.connector.ask_each(DOING, &pipe).await.into_iter();
        let of_namespace = answers.next().and_then(Result::err).map(|error| (true, error));
        let of_shards: Vec<Result<Value, StoreError>> = answers.by_ref().take(usize::from(shards)).collect();
        let all_fail = !of_shards.is_empty() && of_shards.iter().all(Result::is_err);
        let of_shards = of_shards.into_iter().filter_map(Result::err).map(|error| (all_fail, error));
        let of_others = answers.filter_map(Result::err).map(|error| (false, error));
        Ok(of_namespace.into_iter().chain(of_shards).chain(of_others).collect())
    }

    /// The keys of the list that a query reads, one for each shard that it wants.
    async fn keys_of_list(&self, query: &ListRuns) -> Result<Vec<String>, StoreError> {
        let meta = Runs::meta(self).await?;
        let wanted = |shard: &ShardId| query.shards.as_ref().is_none_or(|shards| shards.contains(shard));
        let key = |shard| self.key_of_list(query, shard);
        Ok((0..meta.shards).map(ShardId).filter(wanted).map(key).collect())
    }

    /// The key of the list that a query reads on a shard.
    pub(super) fn key_of_list(&self, query: &ListRuns, shard: ShardId) -> String {
        let of_label = query.label.as_deref().map(|label| self.keys.runs_of_label(shard, label));
        let of_app = || self.keys.runs_of_app(shard, query.app.as_deref());
        let of_status = || query.status.map(|status| self.keys.runs_of(shard, status));
        of_label.or_else(of_app).or_else(of_status).unwrap_or_else(|| self.keys.runs(shard))
    }

    async fn create(&self, new: &NewRun, graph_known: bool) -> Result<String, StoreError> {
        let (keys, shard, (hash, document)) = (&self.keys, new.id.shard(), &new.graph);
        let mut script_keys = vec![
            keys.run(new.id),
            keys.inbox(shard),
            keys.runs(shard),
            keys.runs_of(shard, RunStatus::Scheduled),
            keys.graph(shard, hash),
            keys.graphs(shard),
            keys.blobs(new.id),
            if new.called.is_some() { keys.calling(shard) } else { keys.schedules(shard) },
            keys.files(shard),
            keys.runs_of_app(shard, new.app()).unwrap_or_else(|| keys.runs(shard)),
            new.app().map_or_else(|| keys.runs(shard), |app| keys.closed(shard, app)),
        ];
        script_keys.extend(new.queues.iter().map(|queue| keys.jobs(shard, queue)));
        let labels = new.labels();
        if !labels.is_empty() {
            script_keys.push(keys.labels(shard));
            script_keys.extend(labels.iter().map(|label| keys.runs_of_label(shard, label)));
        }
        script_keys.extend(new.blobs.iter().map(|(id, _)| keys.blob(shard, id)));
        if let Some(conversation) = &new.takes_messages {
            script_keys.extend([
                keys.conversation(shard, conversation),
                keys.messages(shard, conversation),
                keys.object(new.id, "messages:main"),
                keys.state(new.id),
            ]);
        }
        let (member, score, next) = match (&new.schedule, &new.called) {
            (Some(from), _) => {
                let next = from.next.map(|next| next.millis().to_string());
                (from.trigger.clone(), from.due.millis().to_string(), next.unwrap_or_default())
            }
            (None, Some(call)) => {
                (WaitingCall::member(call.run, call.caller), call.since.to_string(), String::new())
            }
            (None, None) => Default::default(),
        };
        let document: &str = if graph_known { "" } else { document };
        let mut list = Vec::from(args![
            self.limits.inbox_max,
            new.id.to_string(),
            new.created_at.micros(),
            hash,
            document,
            &new.start,
            new.kind,
            self.limits.queue_max,
            new.queues.len(),
            new.fields.len(),
            member,
            score,
            next,
            match (new.has_files, &new.takes_messages) {
                (true, None) => "files",
                (false, Some(_)) => "messages",
                (true, Some(_)) => "both",
                (false, None) => "",
            },
            labels.join(" "),
        ]);
        for (field, value) in &new.fields {
            list.extend([Arg::from(*field), Arg::from(value)]);
        }
        for (id, size) in &new.blobs {
            list.extend([Arg::from(id.as_str()), Arg::from(*size)]);
        }
        self.connector.run("creating a run", &self.scripts.create_run, &script_keys, &list).await
    }

    /// Reads all parts of a run in one script, so that they are of one moment.
    pub(super) async fn at_rest(&self, run: RunId) -> Result<Option<AtRest>, StoreError> {
        const DOING: &str = "loading a run";
        let k = &self.keys;
        let keys = [k.run(run), k.state(run), k.held(run), k.events(run), k.collected(run), k.pauses(run)];
        let (fields, state, held, last, collected, pauses): (Value, Value, Vec<String>, Value, Value, Value) =
            self.connector.run(DOING, &self.scripts.load_run, &keys, &[]).await?;
        let hash = |value, what: &str| {
            pairs(value).ok_or_else(|| unexpected(DOING, format!("{what} is not a hash")))
        };
        let fields: HashMap<String, String> = hash(fields, "the run")?.into_iter().collect();
        if fields.is_empty() {
            return Ok(None);
        }
        let state = hash(state, "the state")?;
        let last = array(last).and_then(|mut entries| entry(entries.pop()?));
        let seq = last.and_then(|(_, fields)| last_seq(&fields)).unwrap_or(0);
        let collected = hash(collected, "the results of closed frames")?;
        let mut pauses = hash(pauses, "the list of pauses")?;
        pauses.iter_mut().for_each(|(id, text)| *text = whole_pause(run, id, text));
        let messages = match fields.get(OBJECTS_FIELD) {
            // Read after the rest: messages written in between are beyond the index and ignored.
            Some(field) => self.messages_at_rest(run, field).await?,
            None => MessagesAtRest::default(),
        };
        Ok(Some(AtRest { run: fields, state, held, seq, collected, pauses, messages }))
    }
}

/// The newest and the oldest time of a query, as Redis takes them.
fn bounds_of(query: &ListRuns) -> [String; 2] {
    let before = query.before.map_or_else(|| "+inf".to_owned(), |at| format!("({}", at.micros()));
    let since = query.since.map_or_else(|| "-inf".to_owned(), |at| at.micros().to_string());
    [before, since]
}
