//! A fake store for tests: it keeps queues in memory, records every request, and gives scripted answers and errors.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use tidemill_common::clock::{SystemClock, Timestamp};
use tidemill_common::config::Config;
use tidemill_common::dsl::SealingKey;
use tidemill_common::files::Folder;
use tidemill_common::ids::{BlobId, Delivery, EntryId, ExecutionId, FramePath, RunId, ShardId};
use tidemill_common::registry::draft;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{
    Accepted, App, Called, Catalog, CatalogEntry, CatalogKind, Completion, Delivered, EntryBegin, EntryPut,
    EntryStored, Fleet, GiveLimit, Hint, Hints, JobReader, Jobs, JournalKey, KnowledgeBases, LimitTaken,
    Meta, Note, Paused, PluginValue, PluginValuePut, PutEntry, RunOwner, Stale, StaleJob, StoreError,
    TakeLimit, TakeOver,
};
use tidemill_common::wire::fact::report::JobName;
use tidemill_common::wire::suspect::Suspect;
use tokio::sync::{Notify, mpsc};

use crate::attempt::journal::Journal;
use crate::jobs::handle::JobHandle;
use crate::jobs::in_flight::{JobPlace, Stream};
use crate::jobs::shared::Core;
use crate::jobs::suspects::HANDED_BACK;
use crate::outside::Outside;
use crate::outside::calls::Calls;
use crate::outside::extensions::Extensions;
use crate::outside::http::Http;
use crate::outside::knowledge::Datasets;
use crate::outside::plugins::PluginHost;
use crate::outside::providers::{Providers, ProvidersConfig};
use crate::outside::tools::Tools;

/// A blob whose content never arrives.
pub(crate) const NEVER: &str = "never";
/// A blob that makes the worker panic.
pub(crate) const BOOM: &str = "boom";

/// The id of the only reader.
const READER: u64 = 17;

/// The recorded requests and scripted answers.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) shards: u16,
    pub(crate) queued: VecDeque<Delivered>,
    pub(crate) abandoned: VecDeque<Delivered>,
    /// Jobs that other workers returned to the queue.
    pub(crate) returned: VecDeque<Delivered>,
    /// Records of jobs that were lost before.
    pub(crate) suspects: HashMap<EntryId, Suspect>,
    /// Origins of suspects that were cleared.
    pub(crate) cleared: Vec<String>,
    /// Jobs this worker holds according to the store.
    pub(crate) pending: Vec<Delivered>,
    /// Streams, count and block time of every read.
    pub(crate) reads: Vec<(Vec<Stream>, usize, Duration)>,
    pub(crate) read_errors: usize,
    pub(crate) looks: usize,
    pub(crate) facts: Vec<(&'static str, Json)>,
    pub(crate) batches: Vec<Vec<Completion>>,
    /// Kinds of the received facts and results, in order.
    pub(crate) arrived: Vec<&'static str>,
    /// Answers to the next completions; once empty, every completion is stored.
    pub(crate) answers: VecDeque<Result<Accepted, StoreError>>,
    pub(crate) lost: HashSet<EntryId>,
    pub(crate) asked: Vec<EntryId>,
    pub(crate) handed_back: Vec<(EntryId, u32)>,
    pub(crate) stored: Vec<BlobId>,
    pub(crate) blobs: HashMap<String, String>,
    pub(crate) dropped_consumers: usize,
    pub(crate) retired: bool,
    pub(crate) catalog: Catalog,
    /// Requests for the catalog's version, and reads of the catalog.
    pub(crate) catalog_asked: (usize, usize),
    /// True when the store answers neither of them.
    pub(crate) catalog_silent: bool,
    /// Results of journal entries by field.
    pub(crate) journal: HashMap<String, String>,
    /// Journal entries that a worker has begun and not ended.
    pub(crate) begun: Vec<String>,
    /// States of sub-workflow runs.
    pub(crate) called: HashMap<RunId, Called>,
    /// How often a state of a sub-workflow run was read.
    pub(crate) looked: usize,
    /// Apps by their ids.
    pub(crate) apps: HashMap<String, App>,
    /// States of pauses.
    pub(crate) paused: HashMap<String, Paused>,
}

pub(crate) struct FakeJobs {
    state: Arc<Mutex<State>>,
    queued: Arc<Notify>,
    /// The number of pending loads of blobs that never arrive; it falls when their future is dropped.
    pub(crate) hanging: Arc<AtomicUsize>,
    /// The number of such loads so far.
    pub(crate) hung: AtomicUsize,
    hints: Mutex<Option<mpsc::UnboundedReceiver<Hint>>>,
    hint: mpsc::UnboundedSender<Hint>,
    document: Arc<str>,
    pub(crate) hash: String,
    knowledge: MemoryStore,
}

pub(crate) fn unreachable() -> StoreError {
    StoreError::Unreachable { address: "here".into(), doing: "testing", reason: "as told".into() }
}

const WORKFLOW: &str = r##"
graph:
  nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: t
      data:
        type: template-transform
        title: T
        template: "Hello {{ name }}"
        variables: [{variable: name, value_selector: [start, name]}]
    - {id: end, data: {type: end, title: End, outputs: [{variable: out, value_selector: [t, output]}]}}
  edges:
    - {source: start, target: t}
    - {source: t, target: end}
"##;

impl FakeJobs {
    pub(crate) fn new() -> Arc<Self> {
        let imported = tidemill_common::graph::builder::import(WORKFLOW.as_bytes());
        assert!(imported.graph.is_some(), "{:?}", imported.diagnostics);
        let document = imported.document.expect("a document");
        let (hint, hints) = mpsc::unbounded_channel();
        Arc::new(Self {
            state: Arc::new(Mutex::new(State { shards: 1, ..State::default() })),
            queued: Arc::default(),
            hanging: Arc::default(),
            hung: AtomicUsize::default(),
            hints: Mutex::new(Some(hints)),
            hint,
            document: document.canonical().into(),
            hash: document.hash().to_string(),
            knowledge: MemoryStore::new(Arc::new(SystemClock)),
        })
    }
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Adds a job to the queue.
    pub(crate) fn push(&self, job: Delivered) {
        self.state().queued.push_back(job);
        self.queued.notify_one();
    }
    pub(crate) fn cancel(&self, execution: ExecutionId) {
        self.hint.send(Hint::Stop(execution)).expect("a listener exists");
    }
    /// Acts as another worker that returns a job to the queue.
    pub(crate) fn give_back(&self, job: Delivered) {
        self.state().returned.push_back(job);
        self.hint.send(Hint::HandedBack(ShardId(0))).expect("a listener exists");
    }
    /// A job of node `t` with this input.
    pub(crate) fn job(&self, entry: u64, name: Json) -> Delivered {
        let body = json!({
            "node": "t", "type": "template-transform", "execution": execution(entry), "attempt": 1,
            "graph": self.hash, "inputs": {"start": {"name": name}},
        });
        delivered(entry, body.to_string())
    }
    /// A job that runs until it is stopped.
    pub(crate) fn hanging_job(&self, entry: u64) -> Delivered {
        self.job(entry, json!({"$tm": "blob", "id": NEVER, "type": "string", "size": 9}))
    }
    /// Stores a catalog entry, as a scheduler does; `key` seals its secrets.
    pub(crate) fn keep(&self, kind: CatalogKind, id: &str, object: Json, key: &SealingKey) {
        let mut state = self.state();
        let catalog = &mut state.catalog;
        let object = object.as_object().cloned().expect("an object");
        let earlier = catalog.find(kind, id).cloned();
        let draft =
            draft(kind, id, object, (earlier.as_ref(), catalog), Some(key)).expect("nothing is wrong");
        catalog.version += 1;
        let at = Timestamp::from_millis(0);
        let (created_at, updated_at, version) = (at, at, catalog.version);
        let entry = CatalogEntry { id: id.into(), version, created_at, updated_at, fields: draft.fields };
        let entries = catalog.of_mut(kind);
        entries.retain(|entry| entry.id != id);
        entries.push(entry);
        if kind == CatalogKind::Profile && catalog.default_profile.is_none() {
            catalog.default_profile = Some(id.into());
        }
    }
    /// All results received so far, including repeated ones.
    pub(crate) fn results(&self) -> Vec<Completion> {
        self.state().batches.concat()
    }
}

pub(crate) fn run_id() -> RunId {
    RunId::new(1_754_339_718_571, 7, ShardId(0))
}

pub(crate) fn execution(entry: u64) -> ExecutionId {
    ExecutionId::derive(&run_id(), &format!("it#{entry}").as_str().into(), &"t".into())
}

pub(crate) fn delivered(entry: u64, body: String) -> Delivered {
    Delivered {
        shard: ShardId(0),
        queue: "default".into(),
        entry: EntryId::new(entry, 0),
        number: 1,
        run: run_id().to_string(),
        body,
    }
}

pub(crate) fn config(permits: usize) -> Config {
    let mut config = Config::default();
    config.worker.permits = permits;
    config.worker.listen = String::new();
    config
}

pub(crate) fn core(jobs: &Arc<FakeJobs>, permits: usize) -> Arc<Core> {
    let providers = Providers::new(&ProvidersConfig::default(), &|_| None).expect("no profiles");
    let config = config(permits);
    let http = Arc::new(Http::new(&config.http).expect("the defaults are right"));
    let files = Arc::new(Folder::at(&config.files.url).expect("the default is right"));
    let tools = Tools::new(&config.tools, &config.http).expect("the defaults are right");
    let plugins = Arc::new(PluginHost::new(&config, jobs.clone(), http.clone(), None, "w"));
    let knowledge = Datasets::new(&config.knowledge, &config.http).expect("the defaults are right");
    Arc::new(Core::new(
        &config,
        jobs.clone(),
        "w".into(),
        config.scheduler.sealing_key(),
        Outside {
            providers,
            http,
            files,
            tools,
            plugins,
            knowledge,
            calls: Calls::empty(),
            extensions: Extensions::default(),
        },
    ))
}

/// The journal of a held job; earlier entries are known to it.
pub(crate) fn journal(jobs: &Arc<FakeJobs>) -> Journal {
    journal_of_delivery(jobs, 1)
}

/// As [`journal`], of a job that is delivered for this time.
pub(crate) fn journal_of_delivery(jobs: &Arc<FakeJobs>, number: u32) -> Journal {
    let entry = EntryId::new(5, 0);
    let name = JobName {
        lost_at: None,
        frame: FramePath::root(),
        node: "t".into(),
        attempt: 1,
        entry,
        holder: Delivery { consumer: "w".into(), number },
    };
    let place = JobPlace { shard: ShardId(0), queue: "default".into(), entry };
    let started_at = Timestamp::from_micros(5);
    let handle = JobHandle { core: core(jobs, 1), place, number, run: run_id(), app: None, name, started_at };
    Journal::new(&handle, execution(5))
}

/// The charges of journal entries: key, provider and model, and tokens.
pub(crate) fn charges(jobs: &FakeJobs) -> Vec<(String, String, u64)> {
    let charge = |(_, fact): &(&str, Json)| {
        let charge = fact.get("charge")?;
        let text = |key: &str| charge[key].as_str().unwrap_or_default().to_owned();
        let who = format!("{}:{}", text("provider"), text("model"));
        Some((text("key"), who, charge["usage"]["total_tokens"].as_u64().unwrap_or(0)))
    };
    jobs.state().facts.iter().filter_map(charge).collect()
}

/// Waits for a condition; with a paused clock this takes no real time.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..120_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("two minutes later still not: {what}");
}

struct Hanging(Arc<AtomicUsize>);
impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct FakeReader {
    state: Arc<Mutex<State>>,
    queued: Arc<Notify>,
}

#[async_trait]
impl JobReader for FakeReader {
    fn id(&self) -> u64 {
        READER
    }
    async fn read(
        &mut self,
        streams: &[Stream],
        count: usize,
        block: Duration,
    ) -> Result<Vec<Delivered>, StoreError> {
        let take = || {
            let mut state = self.state.lock().unwrap();
            if state.read_errors > 0 {
                state.read_errors -= 1;
                return Err(unreachable());
            }
            let mut taken: Vec<Delivered> = Vec::new();
            let waiting = std::mem::take(&mut state.queued);
            for job in waiting {
                let of_stream = taken.iter().filter(|t| t.shard == job.shard && t.queue == job.queue).count();
                let wanted = streams.iter().any(|(shard, queue)| *shard == job.shard && *queue == job.queue);
                if wanted && of_stream < count { taken.push(job) } else { state.queued.push_back(job) }
            }
            state.pending.extend(taken.iter().cloned());
            Ok(taken)
        };
        self.state.lock().unwrap().reads.push((streams.to_vec(), count, block));
        let at_once = take()?;
        if !at_once.is_empty() || block.is_zero() {
            return Ok(at_once);
        }
        drop(tokio::time::timeout(block, self.queued.notified()).await);
        take()
    }
}

struct FakeHints(mpsc::UnboundedReceiver<Hint>);

#[async_trait]
impl Hints for FakeHints {
    async fn next(&mut self) -> Option<Hint> {
        self.0.recv().await
    }
}

#[async_trait]
impl Jobs for FakeJobs {
    fn knowledge(&self) -> &dyn KnowledgeBases {
        &self.knowledge
    }
    async fn accepts_writes(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn fleet(&self) -> &dyn Fleet {
        &self.knowledge
    }
    async fn namespace(&self) -> Result<Meta, StoreError> {
        let shards = self.state().shards;
        Ok(Meta { version: 1, shards, shards_first: shards })
    }
    async fn announce_worker(&self, _: &str, _: Duration) -> Result<usize, StoreError> {
        Ok(1)
    }
    async fn retire_worker(&self, _: &str) -> Result<(), StoreError> {
        self.state().retired = true;
        Ok(())
    }
    async fn job_reader(&self, _: &str) -> Result<Box<dyn JobReader>, StoreError> {
        Ok(Box::new(FakeReader { state: self.state.clone(), queued: self.queued.clone() }))
    }
    async fn held(&self, shard: ShardId, queue: &str, _: &str) -> Result<Vec<Delivered>, StoreError> {
        let state = self.state();
        let here = state.pending.iter().filter(|job| job.shard == shard && &*job.queue == queue);
        Ok(here.cloned().collect())
    }
    async fn report(&self, _: ShardId, facts: &[(RunId, &'static str, String)]) -> Result<(), StoreError> {
        let mut state = self.state();
        for (_, kind, body) in facts {
            state.arrived.push(kind);
            state.facts.push((kind, serde_json::from_str(body).unwrap()));
        }
        Ok(())
    }
    async fn complete(
        &self,
        _: ShardId,
        _: &str,
        _: &str,
        results: &[Completion],
    ) -> Result<Vec<Accepted>, StoreError> {
        let mut state = self.state();
        state.batches.push(results.to_vec());
        let answer = state.answers.pop_front().unwrap_or(Ok(Accepted::Stored))?;
        if answer == Accepted::Stored {
            for it in results {
                state.pending.retain(|job| job.entry != it.entry);
                state.arrived.push(it.kind);
            }
        }
        Ok(vec![answer; results.len()])
    }
    async fn heartbeat(
        &self,
        _: ShardId,
        _: &str,
        _: &str,
        entries: &[EntryId],
    ) -> Result<Vec<EntryId>, StoreError> {
        let mut state = self.state();
        state.asked.extend(entries);
        Ok(entries.iter().filter(|entry| state.lost.contains(entry)).copied().collect())
    }
    async fn are_held(&self, streams: &[Stream]) -> Result<Vec<bool>, StoreError> {
        Ok(vec![true; streams.len()])
    }
    async fn stale(&self, _: &[Stream], idle: Duration) -> Result<Stale, StoreError> {
        let mut state = self.state();
        let only_returned = idle >= HANDED_BACK;
        state.looks += usize::from(!only_returned);
        let stale = |job: &Delivered, holder: &str, idle| StaleJob {
            shard: job.shard,
            queue: job.queue.clone(),
            entry: job.entry,
            holder: holder.into(),
            idle,
            // The tests name the number with which the job is delivered.
            number: job.number - 1,
            suspect: state.suspects.get(&job.entry).cloned(),
        };
        let mut jobs: Vec<_> = state.returned.iter().map(|job| stale(job, "", Duration::MAX)).collect();
        if !only_returned {
            jobs.extend(state.abandoned.iter().map(|job| stale(job, "dead", idle * 2)));
        }
        Ok(Stale { jobs, cleared: state.cleared.iter().cloned().collect() })
    }
    async fn take_over(
        &self,
        _: ShardId,
        _: &str,
        _: &str,
        _: Duration,
        jobs: &[TakeOver],
    ) -> Result<Vec<Delivered>, StoreError> {
        let mut state = self.state();
        let mut taken = Vec::new();
        for it in jobs {
            if let Note::Write(suspect) = &it.note {
                state.suspects.insert(it.entry, suspect.clone());
            }
            let Some(number) = it.new_number else { continue };
            let State { abandoned, returned, .. } = &mut *state;
            for lost in [abandoned, returned] {
                let found = lost.iter().position(|job| job.entry == it.entry);
                taken.extend(found.and_then(|at| lost.remove(at)).map(|job| Delivered { number, ..job }));
            }
        }
        Ok(taken)
    }
    async fn clear_suspects(&self, origin: &str) -> Result<(), StoreError> {
        self.state().cleared.push(origin.into());
        Ok(())
    }
    async fn forget_suspects(&self, _: ShardId, _: &str, entries: &[EntryId]) -> Result<(), StoreError> {
        self.state().suspects.retain(|entry, _| !entries.contains(entry));
        Ok(())
    }
    async fn hand_back(
        &self,
        _: ShardId,
        _: &str,
        _: &str,
        entries: &[(EntryId, u32)],
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        state.handed_back.extend(entries);
        state.pending.retain(|job| !entries.iter().any(|(entry, _)| *entry == job.entry));
        Ok(())
    }
    async fn drop_consumers(&self, _: ShardId, _: &str, _: &str, _: Duration) -> Result<(), StoreError> {
        self.state().dropped_consumers += 1;
        Ok(())
    }
    async fn hints(&self) -> Result<Box<dyn Hints>, StoreError> {
        let receiver = self.hints.lock().unwrap().take();
        receiver.map(|it| Box::new(FakeHints(it)) as Box<dyn Hints>).ok_or_else(unreachable)
    }
    async fn begin_step(&self, of: &JournalKey, step: &str, _: bool) -> Result<EntryBegin, StoreError> {
        let state = self.state();
        if state.lost.contains(&of.entry) {
            return Ok(EntryBegin::NotYours);
        }
        let known = state.journal.get(&of.field(step)).cloned();
        let possible_duplicate = state.begun.iter().any(|begun| begun == step);
        let begin = || EntryBegin::Begin { attempt: 1, possible_duplicate, was_begun: possible_duplicate };
        Ok(known.map_or_else(begin, |result| EntryBegin::Known { result, possible_duplicate }))
    }
    async fn park_step(&self, _: &JournalKey, _: &str) -> Result<(), StoreError> {
        Ok(())
    }
    async fn paused(&self, _: RunId, pause: &str) -> Result<Paused, StoreError> {
        Ok(self.state().paused.get(pause).cloned().unwrap_or(Paused::Unknown))
    }
    async fn called(&self, _: RunId, run: RunId) -> Result<Called, StoreError> {
        let mut state = self.state();
        state.looked += 1;
        Ok(state.called.get(&run).cloned().unwrap_or(Called::Unknown))
    }
    async fn record_step(
        &self,
        of: &JournalKey,
        step: &str,
        result: &str,
        (kind, fact): (&'static str, &str),
        _: &[(BlobId, u64)],
    ) -> Result<EntryStored, StoreError> {
        let mut state = self.state();
        if state.lost.contains(&of.entry) {
            return Ok(EntryStored::NotYours);
        }
        state.journal.insert(of.field(step), result.into());
        state.arrived.push(kind);
        state.facts.push((kind, serde_json::from_str(fact).unwrap()));
        Ok(EntryStored::Stored)
    }
    async fn take_limit(&self, _: TakeLimit<'_>) -> Result<LimitTaken, StoreError> {
        Ok(LimitTaken::Taken)
    }
    async fn give_limit(&self, _: GiveLimit<'_>) -> Result<u32, StoreError> {
        Ok(0)
    }
    async fn catalog_version(&self) -> Result<u64, StoreError> {
        let mut state = self.state();
        state.catalog_asked.0 += 1;
        if state.catalog_silent { Err(unreachable()) } else { Ok(state.catalog.version) }
    }
    async fn load_catalog(&self) -> Result<Catalog, StoreError> {
        let mut state = self.state();
        state.catalog_asked.1 += 1;
        if state.catalog_silent { Err(unreachable()) } else { Ok(state.catalog.clone()) }
    }
    async fn put_call(&self, _: PutEntry<'_>) -> Result<EntryPut, StoreError> {
        Ok(EntryPut::Full)
    }
    async fn app_called(&self, wanted: &str) -> Result<Option<App>, StoreError> {
        Ok(self.state().apps.get(wanted).cloned())
    }
    async fn note_files(&self, _: RunId) -> Result<bool, StoreError> {
        Ok(true)
    }
    async fn owner_of_run(&self, _run: RunId) -> Result<Option<RunOwner>, StoreError> {
        Ok(None)
    }

    async fn wake(&self, reader: u64) -> Result<(), StoreError> {
        assert_eq!(reader, READER);
        self.queued.notify_waiters();
        Ok(())
    }
    async fn graph_document(&self, _: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError> {
        Ok((hash == self.hash).then(|| self.document.clone()))
    }
    async fn package(&self, _: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }
    async fn plugin_value(&self, _: &str, _: &str) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
    async fn put_plugin_value(&self, _: PluginValue<'_>) -> Result<PluginValuePut, StoreError> {
        Ok(PluginValuePut::Stored)
    }
    async fn load_blob(&self, _: ShardId, id: &BlobId) -> Result<Option<String>, StoreError> {
        if id.as_str() == NEVER {
            self.hanging.fetch_add(1, Ordering::SeqCst);
            self.hung.fetch_add(1, Ordering::SeqCst);
            let _hanging = Hanging(self.hanging.clone());
            std::future::pending::<()>().await;
        }
        assert_ne!(id.as_str(), BOOM, "as told");
        Ok(self.state().blobs.get(id.as_str()).cloned())
    }
    async fn store_blob(&self, _: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError> {
        let mut state = self.state();
        state.stored.push(id.clone());
        state.blobs.insert(id.as_str().into(), text.into());
        Ok(())
    }
}
