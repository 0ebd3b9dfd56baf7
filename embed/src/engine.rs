//! The engine: joins a scheduler's parts and a worker over one store in memory, starts them and stops them. It is the only
//! place that sees both, so neither knows that it is embedded.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Method;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tidemill_common::config::{Config, FilesConfig};
use tidemill_common::graph::Node;
use tidemill_common::ids::RunId;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::telemetry;
use tidemill_common::workflows::OnWorker;
use tidemill_scheduler::parts::{Parts, Stores};
use tidemill_scheduler::workflows::Workflows;
use tidemill_worker::Worker;
use tidemill_worker::host::Hosts;
use tokio::task::JoinHandle;

use crate::api::Api;
use crate::config::EngineConfig;
use crate::error::EmbedError;
use crate::forgetting::{self, Held, Most};
use crate::helper::{self, Helper};
use crate::inputs::Inputs;
use crate::lack::{self, Lack};
use crate::run::Run;
use crate::snapshot::check_snapshot;

/// The number of shards. Each has a loop; one process needs no more than its cores.
const SHARDS: u16 = 2;
/// Streams of an engine never end before their run, however long that waits for a person. This is a hundred years.
const STREAM_IDLE_SECONDS: u64 = 100 * 366 * 86_400;

/// An engine in this process. Its runs are lost with it. It can be used from many tasks at once.
///
/// When it is dropped without [`Engine::stop`], nodes that run are cancelled, and its threads end soon after.
pub struct Engine {
    /// `None` once it has been stopped.
    alive: Option<Alive>,
    api: Api,
    held: Arc<Held>,
    lacks: Vec<Lack>,
}

/// The parts that run.
struct Alive {
    /// `None` once it stops.
    worker: Option<Worker>,
    scheduler: Scheduler,
    forgetting: JoinHandle<()>,
    grace: Duration,
    /// The folder of files, if the settings name none. It is removed with this.
    _files: Option<TempDir>,
}

/// The parts of the scheduler. Their threads end when this is dropped, also in the middle of a start or a stop.
struct Scheduler(Option<Parts>);

impl Scheduler {
    async fn stop(mut self) {
        if let Some(parts) = self.0.take() {
            parts.stop().await;
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Some(parts) = &self.0 {
            parts.abandon();
        }
    }
}

impl Engine {
    /// Starts an engine on the current Tokio runtime, which must have the drivers for time and I/O.
    ///
    /// # Errors
    /// A setting that cannot be used, or a thread that the system refuses.
    pub async fn create(config: EngineConfig) -> Result<Self, EmbedError> {
        // The build has only this TLS provider. A second call fails, which does no harm.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let EngineConfig { mut settings, hosts, tidemill, ended_runs_max, conversations_max, clock } = config;
        let key = uuid::Uuid::new_v4().simple().to_string();
        let files = prepare(&mut settings, &key)?;
        let helper = match settings.code.helper.is_empty() || tidemill.is_some() {
            true => helper::find(tidemill.as_deref()).await?,
            false => Helper::At(settings.code.helper.clone().into()),
        };
        if let Helper::At(program) = &helper {
            settings.code.helper = program.display().to_string();
        }
        let (inbox_max, queue_max) = (settings.scheduler.inbox_max, settings.scheduler.queue_max);
        let memory = MemoryStore::bounded(clock, SHARDS, inbox_max, queue_max);
        let store = Arc::new(memory.clone());
        let stores = Stores { api: store.clone(), shards: store.clone(), leases: store.clone() };
        let workflows = workflows(&settings, &hosts);
        // Boxed, so that this future stays small: it is part of the caller's.
        let starting = Parts::start_with(&settings, stores, telemetry::start_metrics(), workflows);
        let parts = Box::pin(starting).await?;
        let state = parts.state.clone();
        let scheduler = Scheduler(Some(parts));
        let worker = Box::pin(tidemill_worker::start_alone(&settings, store, hosts)).await?;
        let lacks = lack::of(&worker.lacks(), &helper);
        for lack in &lacks {
            tracing::warn!("nodes cannot run in this engine: {lack}");
        }
        let api = Api::new(state, key);
        let held = Held::new();
        let most = Most { ended_runs: ended_runs_max, conversations: conversations_max };
        let forgetting = forgetting::start(held.clone(), memory, most);
        let grace = Duration::from_secs(settings.worker.grace_seconds);
        let alive = Alive { worker: Some(worker), scheduler, forgetting, grace, _files: files };
        Ok(Self { alive: Some(alive), api, held, lacks })
    }

    /// The node types that cannot run in this engine, for example code nodes without the `tidemill` program. Nodes of these
    /// types fail with the same reason; everything else runs.
    pub fn lacks(&self) -> &[Lack] {
        &self.lacks
    }

    /// Starts a run of the text of a workflow file (YAML or JSON). The run continues when the handle is dropped.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] for a file or inputs that do not fit.
    pub async fn run(&self, workflow: &str, inputs: Inputs) -> Result<Run, EmbedError> {
        let mut body = inputs.into_body();
        body.insert("workflow".into(), workflow.into());
        self.started(self.api.post("/api/v1/runs", &Json::Object(body)).await?)
    }

    /// Continues a run from a snapshot, of this engine, another one, or a fleet.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] for a document that is no snapshot.
    pub async fn resume(&self, snapshot: &Json) -> Result<Run, EmbedError> {
        self.resume_bytes(snapshot.to_string().as_bytes()).await
    }

    /// As [`Self::resume`], from the text of a snapshot. Large numbers keep all their digits.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] for a document that is no snapshot.
    pub async fn resume_bytes(&self, snapshot: &[u8]) -> Result<Run, EmbedError> {
        check_snapshot(snapshot)?;
        let answer = self.api.bytes(Method::POST, "/api/v1/runs/import", snapshot.to_vec()).await?;
        self.started(read(&answer)?)
    }

    /// A run of this engine by its id.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] with `not_found` when the engine has no such run, or no longer.
    pub async fn find(&self, id: &str) -> Result<Run, EmbedError> {
        let unknown = || EmbedError::Refused {
            code: "not_found".into(),
            message: format!("this engine has no run {id:?}"),
            diagnostics: Vec::new(),
        };
        let run = self.handle(id, None).ok_or_else(unknown)?;
        run.show().await.map(|_| run)
    }

    /// Stores a file for runs of this user; returns it as [`Inputs::file`](crate::Inputs::file) and inputs take it.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] for a file that is too large.
    pub async fn upload(&self, name: &str, content: Vec<u8>, user: &str) -> Result<Json, EmbedError> {
        let query: String = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("name", name)
            .append_pair("user", user)
            .finish();
        let answer = self.api.upload(&format!("/api/v1/files?{query}"), content).await?;
        Ok(json!({"transfer_method": "local_file", "upload_file_id": read(&answer)?["id"]}))
    }

    /// Any other request of the native API (docs/api.md), for example to publish an app that a workflow calls.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] with the code of the API.
    pub async fn request(&self, method: Method, path: &str, body: &Json) -> Result<Json, EmbedError> {
        let sent = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answer = self.api.bytes(method, path, sent).await?;
        if answer.is_empty() { Ok(Json::Null) } else { read(&answer) }
    }

    /// The API of this engine, for its host to serve over HTTP. Requests need the [key](Self::admin_key).
    pub fn router(&self) -> Router {
        self.api.router()
    }

    /// The admin key of [`Self::router`]. It is new for each engine.
    pub fn admin_key(&self) -> &str {
        self.api.key()
    }

    fn started(&self, answer: Json) -> Result<Run, EmbedError> {
        let conversation = answer["conversation_id"].as_str().map(Into::into);
        let run = answer["id"].as_str().and_then(|id| self.handle(id, conversation));
        run.ok_or_else(|| EmbedError::Unreadable(answer.to_string()))
    }

    fn handle(&self, id: &str, conversation: Option<String>) -> Option<Run> {
        let hold = self.held.hold(id.parse::<RunId>().ok()?);
        Some(Run::new(self.api.clone(), id.to_owned(), conversation, hold))
    }

    /// Stops: running nodes may end within `worker.grace_seconds`; runs that have not ended are lost. When the future is
    /// dropped, everything stops at once.
    pub async fn stop(mut self) {
        let Some(mut alive) = self.alive.take() else { return };
        alive.forgetting.abort();
        if let Some(worker) = alive.worker.take() {
            worker.stop(alive.grace).await;
        }
        alive.scheduler.stop().await;
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The worker cancels its jobs when it is dropped, and the threads of the scheduler's parts end.
        if let Some(alive) = self.alive.take() {
            alive.forgetting.abort();
        }
    }
}

/// Changes settings that make no sense in one process. Returns the folder of files if the settings name none.
fn prepare(settings: &mut Config, key: &str) -> Result<Option<TempDir>, EmbedError> {
    settings.scheduler.admin_key = key.into();
    if settings.scheduler.secret_key.is_empty() {
        // It seals the secrets of workflows in this engine's memory. A snapshot with secrets needs a key of the settings.
        let random = || uuid::Uuid::new_v4().simple().to_string();
        settings.scheduler.secret_key = format!("{}{}", random(), random()).into();
    }
    settings.scheduler.stream_idle_seconds = STREAM_IDLE_SECONDS;
    settings.worker.listen = String::new();
    if settings.files != FilesConfig::default() {
        return Ok(None);
    }
    let folder = tempfile::Builder::new().prefix("tidemill-").tempdir().map_err(EmbedError::Folder)?;
    settings.files.url = folder.path().display().to_string().into();
    Ok(Some(folder))
}

/// The cache of workflows. Nodes that the host executes are not evaluated by the engine, and those of a queue that this
/// process does not serve run in its first one: there is no other worker.
fn workflows(settings: &Config, hosts: &Hosts) -> Workflows {
    let own = settings.worker.queues.iter().map(String::as_str);
    let queues = own.chain(hosts.queues()).map(Into::into).collect();
    let known = Workflows::new(settings, settings.scheduler.sealing_key()).with_queues(queues);
    let hosts = (!hosts.is_empty()).then(|| hosts.clone());
    known.with_on_worker(hosts.map(|hosts| Arc::new(move |node: &Node| hosts.takes(node)) as OnWorker))
}

fn read(answer: &[u8]) -> Result<Json, EmbedError> {
    serde_json::from_slice(answer).map_err(|error| EmbedError::Unreadable(error.to_string()))
}
