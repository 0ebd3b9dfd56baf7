//! Stores each run of a chat as a turn of its conversation, which the next run gets.
//!
//! The commit that ends a chat's run marks it as unsettled. Its turn contains the text that the run has shown, whether
//! it succeeded, failed or was stopped. The next message of the conversation settles the turn, or the owner's look
//! every few seconds, whichever comes first. The script that stores the turn removes the mark: so the turn is stored
//! once, and no crash loses it.

mod output;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value as Json, json};
use tidemill_common::config::Config;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::graph::{GraphHash, SimpleMode};
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{ConversationRef, Runs, Settling, StoreError};
use tidemill_common::wire::conversation::conversation_copies;
use tokio::sync::watch::Receiver;

use crate::background::turns::output::ShownOutput;
use crate::runs::record::RunRecord;
use crate::runs::render::Renderer;
use crate::shards::lease::Lease;
use crate::submit::Submitter;
use crate::submit::gate::{AnswerVerdict, NoVerdict};
use crate::workflows::{GraphError, Workflows};

/// The pause between two looks for unsettled turns.
const POLL_PAUSE: Duration = Duration::from_secs(5);
/// Turns that are settled at the same time.
const AT_ONCE: usize = 16;

/// The reason why a turn could not be settled.
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
    /// Moderation has not decided about its answer yet.
    #[error("the answer is not checked yet")]
    Unchecked,
}

/// Settles turns.
#[derive(Clone)]
pub struct TurnSettler {
    store: Arc<dyn Runs>,
    workflows: Arc<Workflows>,
    config: Arc<Config>,
}

impl TurnSettler {
    /// Creates it, with the workflow versions of the process.
    pub fn new(store: Arc<dyn Runs>, workflows: Arc<Workflows>, config: Arc<Config>) -> Self {
        Self { store, workflows, config }
    }

    /// Serves the shards that this process owns, until `stop` is set.
    pub async fn run(self, lease: Arc<Lease>, submitter: Arc<Submitter>, mut stop: Receiver<bool>) {
        while !*stop.borrow() {
            let shards = lease.shards();
            if !shards.is_empty()
                && let Err(error) = self.settle_waiting(&shards, &submitter).await
            {
                tracing::warn!(%error, "turns of conversations cannot be stored yet");
            }
            tokio::select! {
                _ = stop.changed() => {}
                () = tokio::time::sleep(POLL_PAUSE) => {}
            }
        }
    }

    async fn settle_waiting(
        &self,
        shards: &[tidemill_common::ids::ShardId],
        submitter: &Submitter,
    ) -> Result<(), StoreError> {
        let turns = stream::iter(self.store.unsettled(shards).await?).map(Ok);
        turns.try_for_each_concurrent(AT_ONCE, |run| self.settle_or_drop(run, submitter)).await
    }

    async fn settle_or_drop(&self, run: RunId, submitter: &Submitter) -> Result<(), StoreError> {
        match self.settle(run, submitter, Duration::ZERO).await {
            // A turn whose answer is not checked yet is looked at in the next round.
            Ok(()) | Err(SettleError::Unchecked) => Ok(()),
            Err(SettleError::Store(error)) => Err(error),
            Err(error) => {
                // A later try would fail too, so the conversation continues without this turn.
                tracing::error!(%run, %error, "a turn of a conversation is lost, because its run cannot be read");
                self.store.nothing_to_settle(run).await
            }
        }
    }

    /// Stores the turn of an ended run, unless this was done before. The submitter may have to ask a server whether the
    /// answer is acceptable, and waits so long at most.
    ///
    /// # Errors
    /// See [`SettleError`]. The call can be repeated.
    pub async fn settle(
        &self,
        run: RunId,
        submitter: &Submitter,
        wait_max: Duration,
    ) -> Result<(), SettleError> {
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
        let is_removed = record.is_removed;
        if is_removed {
            // First, so that a crash after the turn is settled leaves nothing.
            submitter.forget_messages(&conversation, &[run]).await?;
        }
        let withheld = match submitter.withheld_within(wait_max, &record, &render).await {
            Ok(withheld) => withheld,
            Err(NoVerdict::Store(error)) => return Err(error.into()),
            Err(NoVerdict::Late) => return Err(SettleError::Unchecked),
        };
        let turn = turn_of(&*self.store, &render, withheld, record).await?.to_string();
        crash::pass(CrashPoint::TurnMade);
        let settling = Settling { conversation, run, turn };
        let is_kept = self.store.settle_turn(&settling).await?;
        crash::pass(CrashPoint::TurnKept);
        if is_removed {
            // Its conversation was removed while it ran. Again, because its answer may have been checked for the turn.
            submitter.forget_messages(&settling.conversation, &[run]).await?;
        }
        tracing::debug!(%run, is_kept, "turn settled");
        Ok(())
    }
}

/// Builds the turn of a run from what it has shown so far. As on Dify, there is an answer once the run has ended or
/// waits for a person. A failed run has an error and no answer. A run whose answer is being checked is shown as one under
/// way.
pub(crate) async fn turn(
    store: &dyn Runs,
    render: &Renderer,
    submitter: &Submitter,
    record: RunRecord,
) -> Result<Json, StoreError> {
    match submitter.verdict(&record, render).await? {
        AnswerVerdict::Decided(withheld) => turn_of(store, render, withheld, record).await,
        AnswerVerdict::Awaited => turn_of(store, render, None, record.before_its_end()).await,
    }
}

/// The text that a run has shown so far.
pub(crate) async fn shown_text(
    store: &dyn Runs,
    render: &Renderer,
    run: RunId,
) -> Result<String, StoreError> {
    Ok(output::so_far(store, render, run).await?.text())
}

/// The turn, with the text that replaces its answer.
async fn turn_of(
    store: &dyn Runs,
    render: &Renderer,
    withheld: Option<String>,
    mut record: RunRecord,
) -> Result<Json, StoreError> {
    let mut output = match record.status {
        RunStatus::Scheduled | RunStatus::Running | RunStatus::Failed => ShownOutput::default(),
        RunStatus::Paused | RunStatus::Succeeded | RunStatus::PartialSucceeded | RunStatus::Stopped => {
            output::so_far(store, render, record.id).await?
        }
    };
    output.withhold(withheld);
    let mut sys = std::mem::take(&mut record.sys);
    render.named(&mut sys).await?;
    render.named(&mut record.inputs).await?;
    let mut turn = json!({
        "id": record.id.to_string(),
        "query": sys.get("query").cloned().unwrap_or_else(|| "".into()),
        "answer": output.text(),
        "inputs": record.inputs,
        "status": record.status.name(),
        "created_at": record.created_at.seconds(),
        "tokens": record.tokens.unwrap_or(0),
    });
    let files = sys.get("files").and_then(Json::as_array).filter(|files| !files.is_empty());
    if let Some(files) = files {
        turn["files"] = files.clone().into();
    }
    if record.status.is_over() {
        let files = output::answer_files(render, &record.outputs).await?;
        if !files.is_empty() {
            turn["answer_files"] = files.into();
        }
    }
    // A message without model calls, forms or sources keeps none of these fields.
    let usage = output.usage();
    if usage["total_tokens"] != 0 {
        let kept = ["prompt_tokens", "completion_tokens", "total_price", "currency"];
        turn["usage"] = kept.iter().map(|key| ((*key).to_string(), usage[*key].clone())).collect();
    }
    if let Some(at) = record.finished_at {
        turn["seconds"] = record.elapsed_since_pause(at).into();
    }
    if !output.forms().is_empty() {
        turn["forms"] = output.forms().into();
    }
    let resources = output.resources(render.graph());
    if !resources.is_empty() {
        turn["resources"] = resources.into();
    }
    if render.graph().front.mode == Some(SimpleMode::AgentChat) {
        turn["thoughts"] = output.thoughts(&record.id.to_string()).into();
    }
    if record.status == RunStatus::Failed {
        turn["error"] = record.error.into();
    }
    Ok(turn)
}

/// Parses turns and sorts them by the time of their question: of two at once, the later may have ended first.
pub(crate) fn in_order(turns: &[String]) -> Vec<Json> {
    let mut turns: Vec<Json> = turns.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    sort(&mut turns);
    turns
}

/// Sorts turns by the time of their question.
pub(crate) fn sort(turns: &mut [Json]) {
    turns.sort_by_cached_key(|turn| {
        (turn["created_at"].as_i64(), turn["id"].as_str().unwrap_or_default().to_owned())
    });
}

/// Parses earlier turns and keeps the fields that a run gets.
pub(crate) fn earlier_turns(turns: &[String]) -> Vec<Json> {
    let mut turns = in_order(turns);
    for turn in turns.iter_mut().filter_map(Json::as_object_mut) {
        turn.retain(|key, _| matches!(key.as_str(), "query" | "answer" | "files"));
    }
    turns
}
