//! The compiled half of `tidemill.Worker`. It is the worker of the program `tidemill-worker`, with functions of Python as
//! executors, and no listener unless the settings name one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use pyo3::prelude::*;
use tidemill_common::config::Config;
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{Jobs, Runs};
use tidemill_common::telemetry;
use tidemill_worker::host::Hosts;
use tidemill_worker::{StartError, Worker};

use crate::calls::queue::NativeQueue;
use crate::calls::registry::{Lanes, Registration, hosts};
use crate::errors::trouble;
use crate::runtime::runtime;
use crate::waiting::wait;
use crate::{logs, settings};

/// A running worker.
#[pyclass(frozen, module = "tidemill._native")]
pub(crate) struct NativeWorker {
    /// `None` once it has stopped.
    worker: Mutex<Option<Worker>>,
    consumer: String,
    address: Option<String>,
    grace: Duration,
}

/// What wins over the settings.
#[derive(FromPyObject)]
pub(crate) struct Asked {
    #[pyo3(item)]
    redis: Option<String>,
    #[pyo3(item)]
    queues: Option<Vec<String>>,
    #[pyo3(item)]
    permits: Option<usize>,
    #[pyo3(item)]
    tidemill: Option<String>,
}

#[pymethods]
impl NativeWorker {
    /// Starts a worker with these functions; `on_loop` is called with each call of one that runs on an event loop.
    #[new]
    fn new(
        py: Python<'_>,
        settings: Option<&Bound<'_, PyAny>>,
        asked: Asked,
        registrations: Vec<Registration>,
        threads: &NativeQueue,
        on_loop: Py<PyAny>,
    ) -> PyResult<Self> {
        let mut config = settings::read_for_worker(settings)?;
        asked.apply(&mut config);
        config.check_again("the arguments of Worker").map_err(settings::wrong)?;
        let hosts = hosts(registrations, Lanes { threads, on_loop })?;
        // Before anything starts: refused in a forked process.
        runtime()?;
        logs::start(Some(&config.log));
        telemetry::start_metrics();
        let started = wait(py, Box::pin(start(&config, hosts)))?;
        let worker = started.map_err(|error| trouble(py, &error))?;
        let grace = Duration::from_secs(config.worker.grace_seconds);
        let (consumer, address) = (worker.consumer().to_owned(), worker.addr().map(|addr| addr.to_string()));
        Ok(Self { worker: Mutex::new(Some(worker)), consumer, address, grace })
    }

    /// The name under which it holds jobs.
    #[getter]
    fn consumer(&self) -> &str {
        &self.consumer
    }

    /// The address of health and metrics.
    #[getter]
    fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// The number of jobs that it holds.
    fn jobs_held(&self) -> usize {
        self.locked().as_ref().map_or(0, Worker::jobs_held)
    }

    /// True until its read loop has ended: by a stop, or because it failed.
    fn is_running(&self) -> PyResult<bool> {
        let _runtime = runtime()?.enter();
        Ok(self.locked().as_mut().is_some_and(|worker| worker.ended().now_or_never().is_none()))
    }

    /// Takes no more jobs, waits for those that run, at most so many seconds (without: `worker.grace_seconds`), and
    /// returns the rest to their queues.
    #[pyo3(signature = (grace=None))]
    fn stop(&self, py: Python<'_>, grace: Option<f64>) -> PyResult<()> {
        let grace =
            grace.map_or(self.grace, |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let worker = self.locked().take();
        match worker {
            Some(worker) => wait(py, worker.stop(grace)),
            None => Ok(()),
        }
    }
}

impl NativeWorker {
    fn locked(&self) -> MutexGuard<'_, Option<Worker>> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NativeWorker {
    fn drop(&mut self) {
        let Some(worker) = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        match runtime() {
            Ok(runtime) => {
                let _runtime = runtime.enter();
                drop(worker);
            }
            // A forked process: its locks may be held by threads of the parent that do not exist here.
            Err(_) => std::mem::forget(worker),
        }
    }
}

impl Asked {
    fn apply(self, config: &mut Config) {
        if let Some(redis) = self.redis {
            *config.redis.url = redis;
        }
        if let Some(queues) = self.queues {
            config.worker.queues = queues;
        }
        if let Some(permits) = self.permits {
            config.worker.permits = permits;
        }
        if let Some(tidemill) = self.tidemill
            && config.code.helper.is_empty()
        {
            config.code.helper = tidemill;
        }
    }
}

/// Starts a worker as the worker program does.
async fn start(config: &Config, hosts: Hosts) -> Result<Worker, StartError> {
    let own = config.clone();
    let own_store = move || Ok(RedisStore::new(&own.redis, own.store_limits())? as Arc<dyn Jobs>);
    let store = RedisStore::new(&config.redis, config.store_limits())?;
    // Refuse a server that would evict runs, or whose data a newer version writes.
    for warning in store.check().await?.warnings {
        tracing::warn!("{warning}");
    }
    tidemill_worker::start_hosting(config, store, Some(Box::new(own_store)), hosts).await
}
