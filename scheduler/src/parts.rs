//! The parts of a scheduler besides its listeners: the loops of shards, their leases, the API's state, and the work in
//! the background. A scheduler process runs them over Redis; an embedded engine runs them over a store in memory.
//!
//! There are three threads: the API's runtime (the caller's), one for the loops of the shards and one for their leases.
//! Each has its own store, because a connection belongs to the runtime that opened it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tidemill_common::config::Config;
use tidemill_common::files;
use tidemill_common::store::Runs;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::api::ApiState;
use crate::app::StartError;
use crate::background::budgets::Meter;
use crate::background::removals::Removals;
use crate::background::subruns::SubrunStarter;
use crate::background::triggers::schedules::Schedules;
use crate::background::turns::TurnSettler;
use crate::background::{plugin_values, uploads};
use crate::sealing::Sealing;
use crate::shards::keeper::ShardKeeper;
use crate::shards::lease::Lease;
use crate::shards::liveness::Liveness;
use crate::shards::repair::Findings;
use crate::stopping::Stage;
use crate::stores::{LeaseStore, ShardStore};
use crate::workflows::Workflows;

/// The stores of a scheduler. Over Redis each has its own connections.
pub struct Stores {
    /// For the API and the work in the background.
    pub api: Arc<dyn Runs>,
    /// For the loops of shards.
    pub shards: Arc<dyn ShardStore>,
    /// For the leases.
    pub leases: LeaseStore,
}

/// The running parts.
pub struct Parts {
    /// The id of this scheduler.
    pub id: Arc<str>,
    /// The state of the API.
    pub state: ApiState,
    /// The stage of the stop.
    pub(crate) stage: watch::Sender<Stage>,
    stop: watch::Sender<bool>,
    lease: Arc<Lease>,
    shards: thread::JoinHandle<()>,
    leases: thread::JoinHandle<()>,
}

impl Parts {
    /// Takes shards, and starts the work in the background on the caller's runtime.
    ///
    /// # Errors
    /// A wrong setting `files.url`, or a thread that cannot be started.
    pub async fn start(
        config: &Config,
        stores: Stores,
        metrics: PrometheusHandle,
    ) -> Result<Self, StartError> {
        let workflows = Workflows::new(config, config.scheduler.sealing_key());
        Self::start_with(config, stores, metrics, workflows).await
    }

    /// As [`Self::start`], with a cache of workflows that the caller has set up. It has the key that seals secrets.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with(
        config: &Config,
        stores: Stores,
        metrics: PrometheusHandle,
        workflows: Workflows,
    ) -> Result<Self, StartError> {
        let id: Arc<str> = new_id().into();
        let liveness = Arc::new(Liveness::default());
        let (stop, stopped) = watch::channel(false);
        let (stage, stages) = watch::channel(Stage::Serving);
        let (lease_ms, renew_ms) = (config.scheduler.shard_lease_ms, config.scheduler.shard_renew_ms);
        let lease = Arc::new(Lease::new(id.clone(), lease_ms, renew_ms));
        let workflows = Arc::new(workflows);
        let key = workflows.key().cloned();
        let sealing = Sealing::new(key.clone());
        begin_sealing(&sealing, &*stores.shards, &id, Duration::from_millis(lease_ms)).await;
        let ordered = Arc::new(Notify::new());
        let settings = Arc::new(config.clone());
        let (of_shards, beat) = (workflows.clone(), liveness.clone());
        let state = ApiState::new(stores.api, settings, metrics, liveness, stages, workflows, key);
        let keeper = ShardKeeper {
            id: id.clone(),
            store: stores.shards,
            config: config.scheduler.clone(),
            files: files::open(&config.files)?,
            workflows: of_shards,
            liveness: beat,
            lease: lease.clone(),
            ordered: ordered.clone(),
            noticed: state.webhooks.noticed(),
            meter: Arc::new(Meter::new(config.scheduler.spending_series_max)),
            limiter: state.submitter.limiter.clone(),
            findings: Findings::default(),
            sealing,
            namespace: state.submitter.namespace.clone(),
        };
        let shards_stop = stopped.clone();
        let shards = on_own_thread("shards", async move { keeper.run(shards_stop).await })?;
        let (leases_of, lease_store) = (lease.clone(), stores.leases);
        let leases = on_own_thread("leases", async move { leases_of.run(lease_store).await });
        // The other thread would go on without them.
        let leases = leases.inspect_err(|_| {
            stop.send_replace(true);
        })?;
        begin_background(&state, &lease, ordered, &stopped).detach_all();
        Ok(Self { id, state, stage, stop, lease, shards, leases })
    }

    /// Gives up the shards at once; the returned task ends when that is done. Open streams and requests go on.
    pub(crate) fn give_up(self) -> tokio::task::JoinHandle<()> {
        self.stage.send_replace(Stage::Leaving);
        self.stop.send_replace(true);
        let Self { shards, leases, lease, .. } = self;
        tokio::task::spawn_blocking(move || {
            if shards.join().is_err() {
                tracing::error!("the thread of the shards panicked");
            }
            lease.stop();
            if leases.join().is_err() {
                tracing::error!("the thread of the leases panicked");
            }
        })
    }

    /// Stops without waiting, for a holder that is dropped. The threads end soon after, and streams end.
    pub fn abandon(&self) {
        self.stage.send_replace(Stage::Closing);
        self.stop.send_replace(true);
        self.lease.stop();
    }

    /// Stops without listeners: gives up the shards and ends all streams.
    pub async fn stop(self) {
        let stage = self.stage.clone();
        let given_up = self.give_up();
        stage.send_replace(Stage::Closing);
        if given_up.await.is_err() {
            tracing::error!("stopping the shards failed");
        }
    }
}

/// Starts the tasks beside the API and the shards on the caller's runtime, for the shards under these leases. They end
/// after `stopped` is set, or with the returned set.
pub fn begin_background(
    state: &ApiState,
    lease: &Arc<Lease>,
    ordered: Arc<Notify>,
    stopped: &watch::Receiver<bool>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let config = &state.config;
    let (store, submitter, workflows) =
        (state.store.clone(), state.submitter.clone(), state.workflows.clone());
    let schedules =
        Schedules::new(store.clone(), submitter.clone(), workflows.clone(), lease.clone(), config);
    // Never stopped explicitly: each submission is either complete or absent when the process ends.
    tasks.spawn(schedules.run(stopped.clone()));
    let calls = SubrunStarter::new(store.clone(), submitter.clone(), ordered);
    tasks.spawn(calls.run(lease.clone(), stopped.clone()));
    tasks.spawn(submitter.budgets.clone().run(lease.clone(), stopped.clone()));
    tasks.spawn(submitter.limiter.clone().run(lease.clone(), stopped.clone()));
    tasks.spawn(submitter.limiter.clone().watch(stopped.clone()));
    tasks.spawn(submitter.limiter.clone().send_changes(stopped.clone()));
    tasks.spawn(uploads::run(submitter.clone(), config.scheduler.upload_days, stopped.clone()));
    tasks.spawn(plugin_values::run(store.clone(), stopped.clone()));
    tasks.spawn(Removals::new(store.clone(), submitter.clone()).run(lease.clone(), stopped.clone()));
    tasks.spawn(submitter.webhooks.clone().run(stopped.clone()));
    tasks.spawn(state.webhooks.clone().run(lease.clone(), stopped.clone()));
    let turns = TurnSettler::new(store, workflows, config.clone());
    tasks.spawn(turns.run(lease.clone(), submitter, stopped.clone()));
    tasks
}

/// Settles how secrets are sealed before the first request. Otherwise one document, published twice, could get two
/// hashes.
async fn begin_sealing(sealing: &Sealing, store: &dyn ShardStore, id: &str, lease: Duration) {
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
