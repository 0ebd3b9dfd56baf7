//! Starts the parts of a scheduler in the right order, and stops them.
//!
//! There are three threads: the API's runtime (the caller's), one for the loops of the shards and one for their leases.
//! Each has its own store, because a connection belongs to the runtime that opened it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidemill_common::config::Config;
use tidemill_common::files::{self, FilesError};
use tidemill_common::serve;
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{Runs, Shards, StoreError};
use tidemill_common::telemetry;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::api::ApiState;
use crate::background::budgets::Meter;
use crate::background::subruns::SubrunStarter;
use crate::background::triggers::schedules::Schedules;
use crate::background::turns::TurnSettler;
use crate::background::uploads;
use crate::listeners::Listeners;
use crate::sealing::Sealing;
use crate::shards::keeper::ShardKeeper;
use crate::shards::lease::Lease;
use crate::shards::liveness::Liveness;
use crate::shards::repair::Findings;
use crate::stopping::{Schedule, Stage};
use crate::workflows::Workflows;

/// The reason why a scheduler cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be used or does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The setting `files.url` is wrong.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The scheduler cannot listen on an address.
    #[error("cannot listen on {address} ({setting}): {source}")]
    Listen {
        /// The setting that names the address.
        setting: &'static str,
        address: String,
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A running scheduler.
pub struct Scheduler {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    stage: watch::Sender<Stage>,
    lease: Arc<Lease>,
    api: JoinHandle<()>,
    shards: thread::JoinHandle<()>,
    leases: thread::JoinHandle<()>,
    schedule: Schedule,
}

/// Starts a scheduler: checks Redis, listens on its addresses, takes shards.
///
/// # Errors
/// See [`StartError`].
pub async fn start(config: &Config) -> Result<Scheduler, StartError> {
    let store = RedisStore::new(&config.redis, config.store_limits())?;
    let report = store.check().await?;
    for warning in &report.warnings {
        tracing::warn!(redis = report.version, "{warning}");
    }
    store.meta().await?;
    store.probe_subscription().await;
    let metrics = telemetry::start_metrics();
    // Only after the recorder has started: earlier descriptions are lost.
    crate::metrics::describe();
    serve::describe();

    let listeners = Listeners::open(config).await?;
    let (bound, metrics_address) = (listeners.api.1, listeners.metrics.as_ref().map(|(_, address)| *address));

    let id: Arc<str> = new_id().into();
    let liveness = Arc::new(Liveness::default());
    let (stop, stopped) = watch::channel(false);
    let (stage, stages) = watch::channel(Stage::Serving);
    let lease =
        Arc::new(Lease::new(id.clone(), config.scheduler.shard_lease_ms, config.scheduler.shard_renew_ms));
    let key = config.scheduler.sealing_key();
    let workflows = Arc::new(Workflows::new(config, key.clone()));
    let sealing = Sealing::new(key.clone());
    begin_sealing(&sealing, &store, &id, Duration::from_millis(config.scheduler.shard_lease_ms)).await;
    let ordered = Arc::new(Notify::new());
    let keeper = ShardKeeper {
        id: id.clone(),
        store: RedisStore::new(&config.redis, config.store_limits())?,
        config: config.scheduler.clone(),
        files: files::open(&config.files)?,
        workflows: workflows.clone(),
        liveness: liveness.clone(),
        lease: lease.clone(),
        ordered: ordered.clone(),
        meter: Arc::new(Meter::new(config.scheduler.spending_series_max)),
        findings: Findings::default(),
        sealing,
    };
    let shards_stop = stopped.clone();
    let shards = on_own_thread("shards", async move { keeper.run(shards_stop).await })?;
    let (leases_of, lease_store) = (lease.clone(), RedisStore::new(&config.redis, config.store_limits())?);
    let leases = on_own_thread("leases", async move { leases_of.run(lease_store).await })?;

    let state =
        ApiState::new(store, Arc::new(config.clone()), metrics, liveness, stages.clone(), workflows, key);
    let schedules = Schedules::new(
        state.store.clone(),
        state.submitter.clone(),
        state.workflows.clone(),
        lease.clone(),
        config,
    );
    // Never stopped explicitly: each submission is either complete or absent when the process ends.
    tokio::spawn(schedules.run(stopped.clone()));
    let calls = SubrunStarter::new(state.store.clone(), state.submitter.clone(), ordered);
    tokio::spawn(calls.run(lease.clone(), stopped.clone()));
    tokio::spawn(state.submitter.budgets.clone().run(lease.clone(), stopped.clone()));
    let days = config.scheduler.upload_days;
    tokio::spawn(uploads::run(state.submitter.clone(), days, stopped.clone()));
    let turns = TurnSettler::new(state.store.clone(), state.workflows.clone(), state.config.clone());
    tokio::spawn(turns.run(lease.clone(), state.submitter.clone(), stopped));
    let api = listeners.serve(config, state, stages);
    tracing::info!(id = &*id, address = %bound, redis = report.version, "scheduler started");
    if let Some(address) = metrics_address {
        tracing::info!(address = %address, "metrics have a listener of their own");
    }
    let schedule = Schedule::of(&config.scheduler);
    Ok(Scheduler { address: bound, metrics_address, stop, stage, lease, api, shards, leases, schedule })
}

/// Settles how secrets are sealed before the first request. Otherwise one document, published twice, could get two
/// hashes.
async fn begin_sealing(sealing: &Sealing, store: &RedisStore, id: &str, lease: Duration) {
    let version = async {
        store.announce_scheduler(id, lease).await?;
        store.meta().await
    };
    match version.await {
        Ok(meta) => sealing.settle(store, meta.version).await,
        Err(error) => {
            tracing::debug!(%error, "the version of the namespace is checked again with the shards")
        }
    }
}

impl Scheduler {
    /// The address of the API.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The address of the separate listener for metrics, if there is one.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Stops: gives up the shards at once. Open streams and requests go on within the grace period; see [`Stage`].
    pub async fn stop(self) {
        self.stage.send_replace(Stage::Leaving);
        self.stop.send_replace(true);
        let Self { shards, leases, lease, api, stage, schedule, .. } = self;
        let given_up = tokio::task::spawn_blocking(move || {
            if shards.join().is_err() {
                tracing::error!("the thread of the shards panicked");
            }
            lease.stop();
            if leases.join().is_err() {
                tracing::error!("the thread of the leases panicked");
            }
        });
        close(api, &stage, schedule).await;
        if given_up.await.is_err() {
            tracing::error!("stopping the shards failed");
        }
        tracing::info!("scheduler stopped");
    }
}

/// Takes the API through the stages of a stop. Returns when all requests have ended, or no more time is left.
async fn close(mut api: JoinHandle<()>, stage: &watch::Sender<Stage>, schedule: Schedule) {
    tokio::time::sleep(schedule.leaving).await;
    stage.send_replace(Stage::Draining);
    if tokio::time::timeout(schedule.draining, &mut api).await.is_ok() {
        return;
    }
    stage.send_replace(Stage::Closing);
    if tokio::time::timeout(schedule.closing, api).await.is_err() {
        tracing::warn!("requests were still open when the grace period (scheduler.grace_seconds) ended");
    }
}

/// Runs one future on its own thread with its own runtime.
fn on_own_thread(
    name: &str,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<thread::JoinHandle<()>, StartError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
    thread::Builder::new()
        .name(name.to_string())
        .spawn(move || runtime.block_on(work))
        .map_err(StartError::Thread)
}

/// Returns an id that no other scheduler process has had.
fn new_id() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("s-{}-{}", std::process::id(), &random[..8])
}
