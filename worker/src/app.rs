//! A worker as a library. `main`, `tidemill dev` and the tests start and stop a worker through it. One process can run
//! several workers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::config::{Config, variable};
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::dsl::SealingKey;
use tidemill_common::files::{self, Files, FilesError};
use tidemill_common::mistakes;
use tidemill_common::need::Need;
use tidemill_common::open_files;
use tidemill_common::registry::{ProfileTableError, ProfilesConfig};
use tidemill_common::serve::{self, ListenerSettings, PROBE_CONNECTIONS};
use tidemill_common::store::{Jobs, StoreError};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::attempt::noted_files::NotedFiles;
use crate::health::Health;
use crate::host;
use crate::host::Hosts;
use crate::host::calls::HostedCallError;
use crate::jobs::heartbeat::{Heartbeat, OwnStore};
use crate::jobs::shared::{Core, Settings};
use crate::jobs::{cancel, consume, heartbeat};
use crate::outside::Outside;
use crate::outside::calls::Calls;
use crate::outside::extensions::{ExtensionSettingError, Extensions};
use crate::outside::http::{Http, HttpSettingError};
use crate::outside::knowledge::{Datasets, KnowledgeSettingError};
use crate::outside::plugins::PluginHost;
use crate::outside::providers::limiter::CallPermits;
use crate::outside::providers::media::FileAccess;
use crate::outside::providers::profile::{ProviderCatalog, TableError};
use crate::outside::providers::{Providers, ProvidersConfig};
use crate::outside::tools::{ToolSettingError, Tools};
use crate::setup::survey;
use crate::{health, metrics};

/// Longest time to deliver finished results when the worker stops.
const FLUSH: Duration = Duration::from_secs(3);
/// Longest time for the last requests to the store.
const FAREWELL: Duration = Duration::from_secs(5);
/// Consumers of dead workers are deleted after this idle time.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Open files a worker needs besides its jobs and the connections it serves: connections to Redis and its own files.
const OWN_FILES: u64 = 128;
/// Open files per running job, roughly: a connection to a model or service, and the pipes of a program.
const FILES_OF_A_JOB: u64 = 2;

/// Reasons why a worker does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A table `[providers.NAME]` holds a bad value.
    #[error(transparent)]
    Profile(#[from] TableError),
    /// A table `[providers.NAME]` has the wrong form.
    #[error("[providers.{name}]: {reason}")]
    Providers { name: String, reason: String },
    /// A table `[profiles.ID]` cannot be used.
    #[error(transparent)]
    Profiles(#[from] ProfileTableError),
    /// A setting of `[http]` cannot be used.
    #[error(transparent)]
    Http(#[from] HttpSettingError),
    /// A Call of the program around the worker cannot be registered.
    #[error(transparent)]
    Calls(#[from] HostedCallError),
    /// A setting of `[tools]` cannot be used.
    #[error(transparent)]
    Tools(#[from] ToolSettingError),
    /// A setting of an API extension cannot be used.
    #[error(transparent)]
    Extensions(#[from] ExtensionSettingError),
    /// A setting of `[knowledge]` cannot be used.
    #[error(transparent)]
    Knowledge(#[from] KnowledgeSettingError),
    /// `files.url` cannot be used.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The address for health and metrics cannot be bound.
    #[error("cannot listen on worker.listen {listen}: {source}")]
    Listen { listen: String, source: std::io::Error },
    /// The system refuses the heartbeat thread.
    #[error("cannot start the heartbeat thread: {0}")]
    Thread(std::io::Error),
}

/// A running worker. Dropping it without [`Worker::stop`] acts like a killed process: no result is sent and no job is
/// returned to its queue.
pub struct Worker {
    core: Arc<Core>,
    health: Option<Health>,
    heartbeat: Option<Heartbeat>,
    consume: JoinHandle<()>,
    cancel: JoinHandle<()>,
    survey: JoinHandle<()>,
    plugins: JoinHandle<()>,
}

/// Starts a worker on the current Tokio runtime.
///
/// # Errors
/// Settings that cannot be used, an address that is in use, or a store that does not answer.
pub async fn start(config: &Config, jobs: Arc<dyn Jobs>) -> Result<Worker, StartError> {
    start_with(config, jobs, None).await
}

/// As [`start`], with a separate store for the heartbeat. It is created on the heartbeat thread, so its connections do
/// not wait for a busy read loop.
///
/// # Errors
/// As [`start`].
pub async fn start_with(
    config: &Config,
    jobs: Arc<dyn Jobs>,
    heartbeat_store: Option<OwnStore>,
) -> Result<Worker, StartError> {
    start_hosting(config, jobs, heartbeat_store, Hosts::default()).await
}

/// As [`start_with`], with executors of the host program. It also serves the queues that `hosts` names.
///
/// # Errors
/// As [`start`].
pub async fn start_hosting(
    config: &Config,
    jobs: Arc<dyn Jobs>,
    heartbeat_store: Option<OwnStore>,
    hosts: Hosts,
) -> Result<Worker, StartError> {
    begin(config, jobs, heartbeat_store, hosts, true).await
}

/// Starts the only worker of a store, with executors of the host program. Its record lacks the fingerprint of the secret
/// key, which takes some time to make and is there to be compared with those of other workers.
///
/// # Errors
/// As [`start`].
pub async fn start_alone(config: &Config, jobs: Arc<dyn Jobs>, hosts: Hosts) -> Result<Worker, StartError> {
    begin(config, jobs, None, hosts, false).await
}

async fn begin(
    config: &Config,
    jobs: Arc<dyn Jobs>,
    heartbeat_store: Option<OwnStore>,
    hosts: Hosts,
    is_in_fleet: bool,
) -> Result<Worker, StartError> {
    metrics::describe();
    serve::describe();
    let listener_settings = listener_settings(config);
    let listener = listen(&config.worker.listen).await?;
    let http = Arc::new(Http::new(&config.http)?);
    let files: Arc<dyn Files> = Arc::new(NotedFiles::new(files::open(&config.files)?, jobs.clone()));
    let file_access = FileAccess { http: http.clone(), files: files.clone() };
    let knowledge = Datasets::new(&config.knowledge, &config.http)?.kept_in(jobs.clone());
    let key = config.scheduler.sealing_key();
    let consumer = consumer_name();
    let plugins = Arc::new(PluginHost::new(config, jobs.clone(), http.clone(), key.clone(), &consumer));
    let tools = Tools::new(&config.tools, &config.http)?.with_apps_in(jobs.clone());
    let tools = tools.with_plugins(plugins.clone());
    let outside = Outside {
        providers: providers(config)?
            .with_files(file_access)
            .with_call_permits(CallPermits(jobs.clone()))
            .with_catalog(catalog(config, &jobs, key.clone())?),
        http,
        files,
        tools,
        plugins,
        knowledge,
        calls: calls(config, &jobs, key.clone())?.hosting(hosts.call_executors()),
        extensions: Extensions::new(config, &variable)?,
    };
    // Fail early when the store cannot be used.
    jobs.namespace().await?;
    host::calls::register(&*jobs, &hosts.manifests(), key.as_ref()).await?;
    let mut core = Core::new(config, jobs, consumer.into(), key, outside).hosting(hosts);
    core.setup.shows_key = is_in_fleet;
    let core = Arc::new(core);
    core.outside.plugins.connect(&core);
    let config = Arc::new(config.clone());
    survey::survey(&core, &config).await;
    heartbeat::beat(&core, &*core.jobs).await?;
    metrics::PERMITS.set(core.settings.permits as f64);
    let heartbeat = heartbeat::start(core.clone(), heartbeat_store).map_err(StartError::Thread)?;
    let health = match listener {
        Some(listener) => Some(
            health::serve(listener, core.clone(), listener_settings)
                .map_err(|source| StartError::Listen { listen: config.worker.listen.clone(), source })?,
        ),
        None => None,
    };
    let code = core.code.state();
    if code.sound {
        tracing::info!("{}", code.text);
    } else {
        tracing::warn!("{}", code.text);
    }
    for missing in core.setup.about().missing {
        // The line above has the reason of a sandbox that refuses all code.
        if matches!(missing.need, Need::Code { .. }) && !code.text.contains(&missing.reason) {
            tracing::warn!("this worker lacks {}: {}", missing.need, missing.reason);
        }
    }
    let Settings { queues, permits, .. } = &core.settings;
    let health_at = health.as_ref().map(|health| health.addr.to_string());
    tracing::info!(consumer = %core.consumer, ?queues, permits, health = health_at, "worker started");
    Ok(Worker {
        health,
        heartbeat: Some(heartbeat),
        cancel: tokio::spawn(cancel::listen(core.clone())),
        survey: tokio::spawn(survey::keep(core.clone(), config)),
        plugins: tokio::spawn(keep_plugins(core.clone())),
        consume: tokio::spawn(consume::run(core.clone())),
        core,
    })
}

impl Worker {
    /// The address of health and metrics; `None` when they are not served.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.health.as_ref().map(|health| health.addr)
    }
    /// The consumer name under which this worker holds jobs.
    pub fn consumer(&self) -> &str {
        &self.core.consumer
    }
    /// The number of jobs this worker holds.
    pub fn jobs_held(&self) -> usize {
        self.core.in_flight.len()
    }
    /// The needs of nodes that this worker cannot meet, with the reasons.
    pub fn lacks(&self) -> Vec<(Need, String)> {
        let missing = self.core.setup.about().missing;
        missing.into_iter().map(|missing| (missing.need, missing.reason)).collect()
    }
    /// Returns when the read loop has ended. It ends only on a stop or a panic.
    pub async fn ended(&mut self) {
        // A join error is a panic of the read loop; the log has its message.
        if !self.consume.is_finished() {
            drop((&mut self.consume).await);
        }
    }

    /// Takes no more jobs, waits up to `grace` for running jobs, and returns the rest to their queues.
    pub async fn stop(mut self, grace: Duration) {
        let core = self.core.clone();
        tracing::info!(held = core.in_flight.len(), "worker stops");
        core.liveness.stop();
        core.stopping.send_replace(true);
        // The read loop frees its permits and its connection; then the store stops serving that connection.
        self.ended().await;
        if tokio::time::timeout(grace, all_ended(&core)).await.is_err() {
            crash::pass(CrashPoint::HandBackBegun);
            hand_back(&core, core.in_flight.take(false)).await;
            // The remaining jobs have ended; their results are being sent.
            drop(tokio::time::timeout(FLUSH, all_ended(&core)).await);
        }
        let senders = core.reporter.close();
        let undelivered = core.in_flight.take(true);
        for mut sender in senders {
            if tokio::time::timeout(FLUSH, &mut sender).await.is_err() {
                sender.abort();
            }
        }
        hand_back(&core, undelivered).await;
        self.plugins.abort();
        core.outside.plugins.stop().await;
        self.heartbeat = None;
        crash::pass(CrashPoint::FarewellBegun);
        if tokio::time::timeout(FAREWELL, farewell(&core)).await.is_err() {
            tracing::warn!("the store does not answer; what this worker held is taken over after its lease");
        }
        tracing::info!("worker stopped");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.consume.abort();
        self.cancel.abort();
        self.survey.abort();
        self.plugins.abort();
        if let Some(health) = &self.health {
            health.task.abort();
        }
        self.core.in_flight.close();
        for sender in self.core.reporter.close() {
            sender.abort();
        }
    }
}

/// Prepares installed plugins until the worker ends.
async fn keep_plugins(core: Arc<Core>) {
    core.outside.plugins.keep().await;
}

/// Waits until every permit is free, so no job is held.
async fn all_ended(core: &Core) {
    let all = u32::try_from(core.settings.permits).unwrap_or(u32::MAX);
    drop(Semaphore::acquire_many(&core.permits, all).await);
}

type Unfinished =
    std::collections::HashMap<crate::jobs::in_flight::Stream, Vec<(tidemill_common::ids::EntryId, u32)>>;

async fn hand_back(core: &Core, unfinished: Unfinished) {
    for ((shard, queue), entries) in unfinished {
        metrics::HANDED_BACK.count_many(entries.len() as u64);
        tracing::info!(%shard, %queue, jobs = entries.len(), "unfinished jobs are returned to their queue");
        let sent = core.jobs.hand_back(shard, &queue, &core.consumer, &entries);
        match tokio::time::timeout(FAREWELL, sent).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "jobs cannot be returned to their queue; their leases run out")
            }
            Err(_) => tracing::warn!("the store does not answer; leases run out"),
        }
    }
}

/// Returns jobs that were delivered but never seen here, and removes this worker from the store's lists.
async fn farewell(core: &Core) {
    let result: Result<(), StoreError> = async {
        let shards = core.jobs.namespace().await?.shards;
        for queue in &core.settings.queues {
            for shard in (0..shards).map(tidemill_common::ids::ShardId) {
                let held = core.jobs.held(shard, queue, &core.consumer).await?;
                let entries: Vec<_> = held.iter().map(|job| (job.entry, job.number)).collect();
                if !entries.is_empty() {
                    core.jobs.hand_back(shard, queue, &core.consumer, &entries).await?;
                }
                core.jobs.drop_consumers(shard, queue, &core.consumer, FORGET_AFTER).await?;
            }
        }
        core.jobs.retire_worker(&core.consumer).await
    }
    .await;
    if let Err(error) = result {
        tracing::warn!(%error, "the worker cannot be removed from the store's lists");
    }
}

/// The limits of the listener. Also raises the limit of open files, even without a listener, because jobs need files
/// too.
fn listener_settings(config: &Config) -> ListenerSettings {
    let (worker, setting) = (&config.worker, "worker.connections_max");
    let jobs = (worker.permits as u64).saturating_mul(FILES_OF_A_JOB);
    let own = jobs.saturating_add(OWN_FILES + PROBE_CONNECTIONS as u64);
    let settings = "worker.connections_max, worker.permits";
    let connections =
        open_files::prepare(&open_files::Need { own, connections: worker.connections_max, settings });
    ListenerSettings { name: "health", setting, limits: worker.limits(connections) }
}

async fn listen(listen: &str) -> Result<Option<TcpListener>, StartError> {
    if listen.is_empty() {
        return Ok(None);
    }
    let bound = serve::listen(listen).await;
    bound.map(Some).map_err(|source| StartError::Listen { listen: listen.into(), source })
}

fn providers(config: &Config) -> Result<Providers, StartError> {
    let mut tables = std::collections::BTreeMap::new();
    for (name, table) in config.providers.iter() {
        let read = table
            .clone()
            .try_into()
            .map_err(|error| StartError::Providers { name: name.clone(), reason: mistakes::field(&error) })?;
        tables.insert(name.clone(), read);
    }
    Ok(Providers::new(&ProvidersConfig(tables), &variable)?)
}

/// The cached providers and profiles from Redis, with the profiles of the settings first.
fn catalog(
    config: &Config,
    jobs: &Arc<dyn Jobs>,
    key: Option<SealingKey>,
) -> Result<ProviderCatalog, StartError> {
    let refresh = Duration::from_millis(config.worker.providers_refresh_ms);
    let providers: Vec<&str> = config.providers.keys().map(String::as_str).collect();
    let json = |(id, table)| (id, serde_json::to_value(table).unwrap_or_default());
    let tables = config.profiles.iter().map(json);
    let settings = ProfilesConfig::read(tables, &config.worker.default_profile, &providers)?;
    let catalog = ProviderCatalog::new(jobs.clone(), key, variable, refresh);
    Ok(catalog.after(settings))
}

/// The registered calls, cached from Redis.
fn calls(config: &Config, jobs: &Arc<dyn Jobs>, key: Option<SealingKey>) -> Result<Calls, HttpSettingError> {
    let refresh = Duration::from_millis(config.worker.providers_refresh_ms);
    let calls = Calls::new(jobs.clone(), key, variable, refresh);
    calls.with_client(&config.calls, &config.http)
}

/// A consumer name that is never reused: deleting a consumer also deletes its pending jobs.
fn consumer_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect();
    let random = Uuid::new_v4().simple().to_string();
    format!("w-{}-{}-{}", if host.is_empty() { "host" } else { &host }, std::process::id(), &random[..8])
}
