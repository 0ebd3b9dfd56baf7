//! What was said in a chat becomes a turn of its conversation, which the next run is told.
//!
//! A run of a chat that ends is noted as unsettled, in the commit that ends it. Its turn is made of what it has told: the
//! text that was shown, whether the run succeeded, failed or was stopped. Whoever comes first settles it: the next
//! message of the conversation, or the owner's look every few seconds. The script that keeps the turn takes the note
//! away, so it is kept once, and no crash loses it.

mod said;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::config::Config;
use tidemill_common::crash::{self, Place};
use tidemill_common::graph::GraphHash;
use tidemill_common::ids::RunId;
use tidemill_common::machine::run::RunStatus;
use tidemill_common::store::{ConversationRef, Runs, Settling, StoreError};
use tidemill_common::wire::conversation::conversation_copies;
use tokio::sync::watch::Receiver;

use crate::background::turns::said::Said;
use crate::runs::record::RunRecord;
use crate::runs::render::Renderer;
use crate::shards::lease::Lease;
use crate::workflows::{GraphError, Workflows};

/// Between two looks for turns that nobody has settled.
const LOOK: Duration = Duration::from_secs(5);

/// Why a turn could not be settled.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run's workflow cannot be used.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The run cannot be read.
    #[error("the run cannot be read: {0}")]
    Unreadable(String),
}

/// Settles turns.
#[derive(Clone)]
pub struct Turns {
    store: Arc<dyn Runs>,
    workflows: Arc<Workflows>,
    config: Arc<Config>,
}

impl Turns {
    /// For this store, with the workflow versions of the process.
    pub fn new(store: Arc<dyn Runs>, workflows: Arc<Workflows>, config: Arc<Config>) -> Self {
        Self { store, workflows, config }
    }

    /// Looks after the shards that this process owns until it is told to stop.
    pub async fn run(self, lease: Arc<Lease>, mut stop: Receiver<bool>) {
        while !*stop.borrow() {
            let shards = lease.shards();
            if !shards.is_empty()
                && let Err(error) = self.look(&shards).await
            {
                tracing::warn!(%error, "turns of conversations have to wait for the store");
            }
            tokio::select! {
                _ = stop.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn look(&self, shards: &[tidemill_common::ids::ShardId]) -> Result<(), StoreError> {
        for run in self.store.unsettled(shards).await? {
            match self.settle(run).await {
                Ok(()) => {}
                Err(SettleError::Store(error)) => return Err(error),
                Err(error) => {
                    // It will not be readable later either; the conversation goes on without this turn.
                    tracing::error!(%run, %error, "a turn of a conversation is lost");
                    self.store.nothing_to_settle(run).await?;
                }
            }
        }
        Ok(())
    }

    /// Settles the turn of a run that has ended, unless that was done.
    ///
    /// # Errors
    /// See [`SettleError`]; it can be tried again.
    pub async fn settle(&self, run: RunId) -> Result<(), SettleError> {
        if !self.store.is_unsettled(run).await? {
            return Ok(());
        }
        let Some(fields) = self.store.run_fields(run).await? else {
            return Ok(self.store.nothing_to_settle(run).await?);
        };
        let unreadable = |error: tidemill_common::wire::WireError| SettleError::Unreadable(error.to_string());
        let record = RunRecord::read(run, &fields).map_err(unreadable)?;
        let Some(conversation) = fields.get("conversation_id") else {
            return Ok(self.store.nothing_to_settle(run).await?);
        };
        let (hash, shard) = (GraphHash(record.version.as_str().into()), run.shard());
        let workflow = self.workflows.of_run(&*self.store, shard, &hash).await?;
        let conversation = ConversationRef {
            shard,
            id: conversation.clone(),
            app: record.app.clone().unwrap_or_default(),
            user: record.user.clone(),
            copies: conversation_copies(&workflow.graph, conversation),
        };
        let render = Renderer::new(self.store.clone(), shard, workflow.graph.clone(), &self.config.compat);
        let turn = turn(&*self.store, &render, record).await?.to_string();
        crash::pass(Place::TurnMade);
        let is_kept = self.store.settle_turn(&Settling { conversation, run, turn }).await?;
        crash::pass(Place::TurnKept);
        tracing::debug!(%run, is_kept, "turn settled");
        Ok(())
    }
}

/// What was said in a run so far, as a turn is kept. As Dify has it, there is an answer once the run has ended, or waits for
/// somebody; of one that failed there is none, only why.
pub(crate) async fn turn(
    store: &dyn Runs,
    render: &Renderer,
    mut record: RunRecord,
) -> Result<Json, StoreError> {
    let told = match record.status {
        RunStatus::Scheduled | RunStatus::Running | RunStatus::Failed => Said::default(),
        RunStatus::Paused | RunStatus::Succeeded | RunStatus::PartialSucceeded | RunStatus::Stopped => {
            said::so_far(store, render, record.id).await?
        }
    };
    let mut sys = std::mem::take(&mut record.sys);
    render.named(&mut sys).await?;
    render.named(&mut record.inputs).await?;
    let mut turn = json!({
        "id": record.id.to_string(),
        "query": sys.get("query").cloned().unwrap_or_else(|| "".into()),
        "answer": told.text(),
        "inputs": record.inputs,
        "status": record.status.name(),
        "created_at": record.created_at.seconds(),
        "tokens": record.tokens.unwrap_or(0),
    });
    let files = sys.get("files").and_then(Json::as_array).filter(|files| !files.is_empty());
    if let Some(files) = files {
        turn["files"] = files.clone().into();
    }
    let resources = told.resources();
    if !resources.is_empty() {
        turn["resources"] = resources.into();
    }
    if record.status == RunStatus::Failed {
        turn["error"] = record.error.into();
    }
    Ok(turn)
}

/// Turns in the order in which they were asked: of two at once, the later may have ended first.
pub(crate) fn in_order(turns: &[String]) -> Vec<Json> {
    let mut turns: Vec<Json> = turns.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    sort(&mut turns);
    turns
}

/// Sorts turns by when they were asked.
pub(crate) fn sort(turns: &mut [Json]) {
    turns.sort_by_cached_key(|turn| {
        (turn["created_at"].as_i64(), turn["id"].as_str().unwrap_or_default().to_owned())
    });
}

/// What a run is told of the turns before it.
pub(crate) fn said_before(turns: &[String]) -> Vec<Json> {
    let mut turns = in_order(turns);
    for turn in turns.iter_mut().filter_map(Json::as_object_mut) {
        turn.retain(|key, _| matches!(key.as_str(), "query" | "answer" | "files"));
    }
    turns
}
