//! Starts a scheduler and workers inside this process. Only this file uses the crates of the two.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::config::Config;
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{Jobs, StoreError};
use tidemill_scheduler::app::{self as scheduler, Scheduler};
use tidemill_worker::app::{self as worker, Worker};

use crate::error::Exit;

/// The reason why the scheduler or a worker did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Scheduler(scheduler::StartError),
    #[error(transparent)]
    Worker(worker::StartError),
}

impl LocalError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Store(error)
            | Self::Scheduler(scheduler::StartError::Store(error))
            | Self::Worker(worker::StartError::Store(error)) => match error {
                StoreError::Unreachable { .. } => Exit::Unreachable,
                StoreError::Refused { .. }
                | StoreError::Denied { .. }
                | StoreError::SentinelDenied { .. }
                | StoreError::Unexpected { .. }
                | StoreError::Unusable(_)
                | StoreError::Newer { .. } => Exit::Failed,
            },
            Self::Scheduler(_) | Self::Worker(_) => Exit::Failed,
        }
    }
}

/// A running scheduler with its workers.
pub(crate) struct Local {
    scheduler: Scheduler,
    workers: Vec<Worker>,
    grace: Duration,
}

impl Local {
    /// Starts a scheduler and the given number of workers on the configured Redis.
    ///
    /// # Errors
    /// One of them does not start. Those that did start are stopped again.
    pub(crate) async fn start(config: &Config, workers: usize) -> Result<Self, LocalError> {
        let scheduler = scheduler::start(config).await.map_err(LocalError::Scheduler)?;
        let grace = Duration::from_secs(config.worker.grace_seconds);
        let mut local = Self { scheduler, workers: Vec::new(), grace };
        for _ in 0..workers {
            match start_worker(config).await {
                Ok(worker) => local.workers.push(worker),
                Err(error) => {
                    local.stop().await;
                    return Err(error);
                }
            }
        }
        Ok(local)
    }

    /// The address of the API.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.scheduler.addr()
    }

    /// Stops the workers, then the scheduler, which still stores their last results. Each gets its grace period.
    pub(crate) async fn stop(self) {
        let mut stopping = tokio::task::JoinSet::new();
        for worker in self.workers {
            stopping.spawn(worker.stop(self.grace));
        }
        // A worker that panics while it stops has already logged that.
        while stopping.join_next().await.is_some() {}
        self.scheduler.stop().await;
    }
}

async fn start_worker(config: &Config) -> Result<Worker, LocalError> {
    // The heartbeat has its own store, so that it never waits for a busy read loop.
    let own = config.clone();
    let own_store = move || Ok(RedisStore::new(&own.redis, own.store_limits())? as Arc<dyn Jobs>);
    let jobs = RedisStore::new(&config.redis, config.store_limits())?;
    worker::start_with(config, jobs, Some(Box::new(own_store))).await.map_err(LocalError::Worker)
}
