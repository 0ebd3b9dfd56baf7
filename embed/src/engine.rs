//! The engine: a scheduler's parts and a worker over one store in memory.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::clock::SystemClock;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::telemetry;
use tidemill_scheduler::parts::{Parts, Stores};
use tidemill_worker::Worker;

use crate::api::Api;
use crate::config::EngineConfig;
use crate::error::EmbedError;
use crate::inputs::Inputs;
use crate::run::Run;

/// The number of shards. Each has a loop; one process needs no more than its cores.
const SHARDS: u16 = 2;

/// An engine in this process. Its runs end with it.
pub struct Engine {
    parts: Parts,
    worker: Worker,
    api: Api,
    grace: Duration,
}

impl Engine {
    /// Starts an engine on the current Tokio runtime.
    ///
    /// # Errors
    /// A setting that cannot be used, or a thread that the system refuses.
    pub async fn create(config: EngineConfig) -> Result<Self, EmbedError> {
        let key = uuid::Uuid::new_v4().simple().to_string();
        let mut settings = config.settings;
        settings.scheduler.admin_key = key.as_str().into();
        settings.worker.listen = String::new();
        let limits = (settings.scheduler.inbox_max, settings.scheduler.queue_max);
        let store = Arc::new(MemoryStore::bounded(Arc::new(SystemClock), SHARDS, limits.0, limits.1));
        let stores = Stores { api: store.clone(), shards: store.clone(), leases: store.clone() };
        let parts = Parts::start(&settings, stores, telemetry::start_metrics()).await?;
        let worker = tidemill_worker::start(&settings, store).await?;
        let api = Api::new(tidemill_scheduler::api::router(parts.state.clone()), key);
        let grace = Duration::from_secs(settings.worker.grace_seconds);
        Ok(Self { parts, worker, api, grace })
    }

    /// Starts a run of a workflow file (YAML or JSON). It goes on without being watched.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] for a file or inputs that do not fit.
    pub async fn run(&self, workflow: &str, inputs: Inputs) -> Result<Run, EmbedError> {
        let mut body = inputs.into_body();
        body["workflow"] = json!(workflow);
        self.started(self.api.post("/api/v1/runs", &body).await?)
    }

    /// Continues a run from a snapshot, of this engine, another one, or a fleet.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] for a document that is no snapshot.
    pub async fn resume(&self, snapshot: &Json) -> Result<Run, EmbedError> {
        self.started(self.api.post("/api/v1/runs/import", snapshot).await?)
    }

    fn started(&self, answer: Json) -> Result<Run, EmbedError> {
        match answer["id"].as_str() {
            Some(id) => Ok(Run::new(self.api.clone(), id.to_owned())),
            None => Err(EmbedError::Unreadable(answer.to_string())),
        }
    }

    /// Stops: nodes that run may end within the grace period (`worker.grace_seconds`); the runs are lost then.
    pub async fn stop(self) {
        self.worker.stop(self.grace).await;
        self.parts.stop().await;
    }
}
