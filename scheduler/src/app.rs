//! A scheduler process: its parts over Redis, and its listeners. Starts them in the right order, and stops them.

use std::net::SocketAddr;

use tidemill_common::config::Config;
use tidemill_common::files::FilesError;
use tidemill_common::serve::{self, TlsError};
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{Runs, StoreError};
use tidemill_common::telemetry;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::listeners::Listeners;
use crate::parts::{Parts, Stores};
use crate::stopping::{Schedule, Stage};

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
    /// The certificate of the API cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A running scheduler.
pub struct Scheduler {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    parts: Parts,
    api: JoinHandle<()>,
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
    let leases = store.beside(&config.redis)?;
    let stores = Stores { shards: store.beside(&config.redis)?, api: store, leases };
    let parts = Parts::start(config, stores, metrics).await?;
    let api = listeners.serve(config, parts.state.clone(), parts.stage.subscribe());
    tracing::info!(id = &*parts.id, address = %bound, redis = report.version, "scheduler started");
    if let Some(address) = metrics_address {
        tracing::info!(address = %address, "metrics have a listener of their own");
    }
    let schedule = Schedule::of(&config.scheduler);
    Ok(Scheduler { address: bound, metrics_address, parts, api, schedule })
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
        let Self { parts, api, schedule, .. } = self;
        let stage = parts.stage.clone();
        let given_up = parts.give_up();
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
