//! The body of a notice: the record of the run, without its inputs, and with its outputs if the webhook asks for them.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::config::Config;
use tidemill_common::graph::GraphHash;
use tidemill_common::store::{Notice, Runs, StoreError};
use tidemill_common::wire::notices::PAUSED;

use crate::runs::pauses::{self, PauseStatus};
use crate::runs::record::{RunRecord, seconds};
use crate::runs::render::Renderer;
use crate::workflows::{GraphError, Workflows};

/// The reason why there is no body.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The workflow of the run cannot be used.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The run cannot be read.
    #[error("the run cannot be read: {0}")]
    Unreadable(String),
}

/// Builds bodies.
pub(super) struct Bodies {
    pub(super) store: Arc<dyn Runs>,
    pub(super) workflows: Arc<Workflows>,
    pub(super) config: Arc<Config>,
}

impl Bodies {
    /// The body of a notice; `None` when its run was removed, or belongs to a removed conversation.
    pub(super) async fn of(&self, notice: &Notice, with_outputs: bool) -> Result<Option<String>, BodyError> {
        let Some(fields) = self.store.run_fields(notice.run).await? else { return Ok(None) };
        let unreadable = |error: tidemill_common::wire::WireError| BodyError::Unreadable(error.to_string());
        let mut record = RunRecord::read(notice.run, &fields).map_err(unreadable)?;
        if record.is_removed {
            return Ok(None);
        }
        let mut data = about(&record);
        if notice.event == PAUSED {
            // The run may go on already.
            data["status"] = "paused".into();
            data["pauses"] = self.pauses(notice).await?;
        }
        if with_outputs {
            self.outputs(&mut record).await?;
            data["outputs"] = Json::Object(std::mem::take(&mut record.outputs));
        }
        let whole = |data: &Json| {
            let kind = format!("run.{}", notice.event);
            json!({"type": kind, "id": notice.id(), "timestamp": notice.at.seconds_f64(), "data": data})
                .to_string()
        };
        let body = whole(&data);
        if body.len() <= self.config.webhooks.body_bytes_max || !with_outputs {
            return Ok(Some(body));
        }
        data["outputs"] = Json::Null;
        data["outputs_left_out"] = true.into();
        Ok(Some(whole(&data)))
    }

    async fn pauses(&self, notice: &Notice) -> Result<Json, BodyError> {
        let (pauses, now) = (pauses::of_run(&*self.store, notice.run).await?, self.store.time().await?);
        let waiting = pauses.iter().filter(|pause| pause.status(now) == PauseStatus::Pending);
        Ok(waiting.map(|pause| json!({"pause_id": pause.id})).collect())
    }

    async fn outputs(&self, record: &mut RunRecord) -> Result<(), BodyError> {
        let (shard, hash) = (record.id.shard(), GraphHash(record.version.as_str().into()));
        let workflow = self.workflows.of_run(&*self.store, shard, &hash).await?;
        let render = Renderer::new(self.store.clone(), shard, workflow.graph.clone(), &self.config.compat);
        Ok(render.outputs(&mut record.outputs).await?)
    }
}

fn about(record: &RunRecord) -> Json {
    json!({
        "id": record.id.to_string(),
        "app": record.app,
        "workflow": record.workflow,
        "version": record.version,
        "status": record.status.name(),
        "error": record.error,
        "user": record.user,
        "conversation_id": record.conversation_id,
        "created_at": record.created_at.seconds_f64(),
        "started_at": seconds(record.started_at),
        "finished_at": seconds(record.finished_at),
        "total_steps": record.steps,
        "total_tokens": record.tokens,
    })
}
