//! Creates a run from a snapshot. It continues where the exported run was.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_common::clock::Timestamp;
use tidemill_common::dsl;
use tidemill_common::graph::Graph;
use tidemill_common::ids::{BlobId, FramePath, NodeId, RunId, ShardId};
use tidemill_common::machine::Fact;
use tidemill_common::machine::state::invariants;
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::machine::state::run::{RunHead, RunStatus};
use tidemill_common::store::{AppState, LABELS_FIELD, NewRun, RunOwner, StoreError, Written};
use tidemill_common::value::{Segment, Stored};
use tidemill_common::wire;
use tidemill_common::wire::snapshot::{PoolValue, PoolVariable, Snapshot};

use super::options::INLINE_BYTES_CEILING;
use super::{SubmitError, Submitted, Submitter, files, is_new};
use crate::submit::blobs::BlobWriter;

/// A second try of a run that has ended.
#[derive(Debug, Clone)]
pub struct Retry {
    /// The id of the new run, on the shard of the old one.
    pub run: RunId,
    /// The run that has ended.
    pub of: RunId,
    /// The place where the new run begins: frame and node.
    pub from: (FramePath, NodeId),
}

impl Submitter {
    /// Creates a run with a new id that continues where the exported run was.
    ///
    /// # Errors
    /// [`SubmitError::Snapshot`] for an invalid or inconsistent snapshot, else as [`Submitter::submit`].
    pub async fn import(&self, text: &str) -> Result<Submitted, SubmitError> {
        let snapshot = wire::snapshot::read(text).map_err(|e| SubmitError::Snapshot(e.to_string()))?;
        if snapshot.status().is_none_or(RunStatus::is_over) {
            return Err(SubmitError::Snapshot(
                "the run in the snapshot has ended; there is nothing to continue".into(),
            ));
        }
        let shard = self.shard_for(snapshot.head.conversation_id.as_deref()).await?;
        self.take_up(snapshot, text, RunId::generate(shard), None).await
    }

    /// Creates a run that repeats an ended run from a node on. `text` is the snapshot of the ended run before that
    /// node. The call may be repeated.
    ///
    /// # Errors
    /// As [`Submitter::import`].
    pub async fn retry(&self, text: &str, retry: &Retry) -> Result<Submitted, SubmitError> {
        let snapshot = wire::snapshot::read(text).map_err(|e| SubmitError::Snapshot(e.to_string()))?;
        self.take_up(snapshot, text, retry.run, Some(retry)).await
    }

    async fn take_up(
        &self,
        snapshot: Snapshot,
        text: &str,
        run: RunId,
        retry: Option<&Retry>,
    ) -> Result<Submitted, SubmitError> {
        check_version(&snapshot)?;
        let level = self.durability(None);
        self.gives(level).await?;
        let workflow = self.workflows.of_document(&snapshot.version, &snapshot.workflow)?;
        self.workflows.check_moderation(&workflow.graph)?;
        let snapshot = opened(snapshot, text, &workflow.graph)?;
        let options = within_bounds(&snapshot.head.options);
        let inline_bytes_max = options.inline_bytes_max;
        let (kept, blobs) =
            self.store_values(&snapshot, &workflow.graph, run.shard(), inline_bytes_max).await?;
        let created_at = self.store.time().await?;
        let mut head = head_of(&snapshot, &workflow.graph, (run, created_at, options), retry.is_some());
        // A document of another installation has no webhook here, and a sub-workflow run is a part of its caller.
        if let (Some(_), Some(app), None) = (retry, head.app.as_deref(), &snapshot.head.caller) {
            head.webhook = self.webhooks.events_of(app).await?;
        }
        if let Some(id) = head.app.as_deref() {
            let state = self.store.app(id).await?.map(|app| app.state);
            // A document of another installation may be of an app that is not here.
            let state = state.or(retry.map(|_| AppState::Removing));
            if let Some(closed) = state.and_then(|state| SubmitError::of_state(id, state)) {
                return Err(closed);
            }
        }
        let start = snapshot.fact(&head, &kept, retry.map(|retry| &retry.from));
        if retry.is_none() {
            check_state(run, &workflow.graph, &start)?;
        }
        // A retry does not create its conversation again if that was removed since.
        self.talk_on(&workflow.graph, run, &head, retry.is_some()).await?;
        let mut fields = wire::state::head_fields(&head, &workflow.graph);
        fields.extend(retry.map(|retry| ("retry_of", retry.of.to_string())));
        fields.extend(match retry {
            Some(retry) => self.kept_fields(retry.of).await?,
            None => RunOwner::handed_field(&handed(&snapshot, &workflow.graph)).into_iter().collect(),
        });
        let new = NewRun {
            id: run,
            graph: (workflow.graph.hash.to_string(), workflow.document.clone()),
            fields,
            kind: wire::fact::kind::IMPORT,
            start,
            queues: workflow.graph.queues(),
            blobs,
            created_at,
            schedule: None,
            called: None,
            has_files: false,
            takes_messages: None,
        };
        let is_new = is_new(self.store.create_run(&new).await?, head.app.as_deref())?;
        // The operator's decision: no limit refuses it.
        self.limiter.hold(run, &head);
        tracing::info!(%run, from = snapshot.run_id, is_retry = retry.is_some(), "run imported");
        self.confirm(Written::Run(run), level).await?;
        let (status, conversation_id) = (RunStatus::Scheduled, head.conversation_id);
        Ok(Submitted { run, is_new, status, workflow, conversation_id, warnings: Vec::new() })
    }

    /// The fields of a run that a retry has, too: the runs whose files the operator has handed to it, and its labels.
    async fn kept_fields(&self, run: RunId) -> Result<Vec<(&'static str, String)>, StoreError> {
        let names = [RunOwner::HANDED, LABELS_FIELD];
        let found = self.store.app_records().fields_of_runs(&[run], &names).await?;
        let Some(mut fields) = found.into_iter().next() else { return Ok(Vec::new()) };
        Ok(names.into_iter().filter_map(|name| Some((name, fields.remove(name)?))).collect())
    }

    /// Stores the values of the snapshot that the run reads, and its other blobs. Returns the variables with their
    /// stored values, and all blobs with their sizes.
    async fn store_values(
        &self,
        snapshot: &Snapshot,
        graph: &Graph,
        shard: ShardId,
        inline_bytes_max: usize,
    ) -> Result<(Vec<(PoolVariable, Stored)>, Vec<(BlobId, u64)>), SubmitError> {
        let root = root_of(snapshot, graph);
        let value_bytes_max = self.config.run.value_bytes_max;
        let mut writer = BlobWriter::new(self.store.clone(), shard, inline_bytes_max, value_bytes_max);
        let mut kept = Vec::with_capacity(snapshot.variables.len());
        for variable in snapshot.variables.iter().filter(|variable| is_written(snapshot, root, variable)) {
            let stored = match &variable.value {
                PoolValue::Secret(name) => Stored::Secret(name.as_str().into()),
                PoolValue::Whole(segment) => writer.value(&variable.name, segment.clone()).await?,
            };
            kept.push((variable.clone(), stored));
        }
        let mut blobs = writer.into_blobs();
        for (id, text) in &snapshot.blobs {
            self.store.put_blob(shard, id, text).await?;
            blobs.push((id.clone(), text.len() as u64));
        }
        Ok((kept, blobs))
    }
}

fn check_version(snapshot: &Snapshot) -> Result<(), SubmitError> {
    if dsl::hash_of(&snapshot.workflow).to_string() == snapshot.version {
        return Ok(());
    }
    let message = "the workflow in the snapshot is not the version that the run was exported with";
    Err(SubmitError::Snapshot(message.into()))
}

/// The invariants that the import restores: edges and counters are counted again, and a run that begins here has no job.
const RESTORED: [&str; 3] = ["INV-2", "INV-8", "INV-11"];

/// Refuses a state that the owner of the shard could not read, or that contradicts itself: the run would fail there at once, or
/// go on with nodes that never end.
fn check_state(run: RunId, graph: &Arc<Graph>, start: &str) -> Result<(), SubmitError> {
    let fact = wire::snapshot::parse_fact(run, graph, start);
    let fact = fact.map_err(|error| SubmitError::Snapshot(error.to_string()))?;
    let Fact::Import(state) = &fact else { return Ok(()) };
    if state.status == RunStatus::Scheduled {
        return Ok(());
    }
    let broken = invariants::contradictions(state).filter(|one| !RESTORED.contains(&one.id));
    let broken: Vec<String> = broken.map(|one| format!("{}: {}", one.id, one.says)).collect();
    if broken.is_empty() {
        return Ok(());
    }
    let message = format!("the state in the snapshot contradicts itself; it breaks {}", broken.join("; "));
    Err(SubmitError::Snapshot(message))
}

/// The runs whose files the operator hands to the new run with a snapshot: the exported run, and those that were named when it
/// was submitted. Their records may be elsewhere, or gone with a process. What nodes have written is not trusted.
fn handed(snapshot: &Snapshot, graph: &Graph) -> BTreeSet<RunId> {
    let root = root_of(snapshot, graph);
    let is_given = |variable: &&PoolVariable| {
        variable.frame.is_root() && [root, "sys"].contains(&variable.node.as_str())
    };
    let given = snapshot.variables.iter().filter(is_given).filter_map(|variable| match &variable.value {
        PoolValue::Whole(segment) => Some(&segment.value),
        PoolValue::Secret(_) => None,
    });
    let head = snapshot.head.conversation.iter().map(|(_, stored)| stored).chain(&snapshot.head.history);
    let inline = head.filter_map(|stored| match stored {
        Stored::Inline(segment) => Some(&segment.value),
        _ => None,
    });
    let mut runs = files::runs_of(given.chain(inline));
    runs.extend(snapshot.run_id.parse::<RunId>());
    runs
}

/// The id of the node where the exported run began.
fn root_of<'a>(snapshot: &Snapshot, graph: &'a Graph) -> &'a str {
    let begins = snapshot.head.root.as_ref().and_then(|id| graph.find(id.as_str()));
    graph.node(begins.unwrap_or(graph.root)).id.as_str()
}

/// Opens a sealed snapshot with the secrets of its workflow.
fn opened(snapshot: Snapshot, text: &str, graph: &Graph) -> Result<Snapshot, SubmitError> {
    if !snapshot.is_sealed() {
        return Ok(snapshot);
    }
    wire::snapshot::opened(text, &graph.long_secrets())
        .and_then(|text| wire::snapshot::read(&text))
        .map_err(|e| SubmitError::Snapshot(e.to_string()))
}

/// Returns the options of the exported run, with limits that a run can have here.
fn within_bounds(options: &RunOptions) -> RunOptions {
    let mut options = options.clone();
    options.inline_bytes_max = options.inline_bytes_max.clamp(1, INLINE_BYTES_CEILING);
    options.steps_max = options.steps_max.max(1);
    options.seconds_max = options.seconds_max.max(1);
    options
}

/// Returns the head of the new run: that of the exported run, with what belongs to the new one.
fn head_of(
    snapshot: &Snapshot,
    graph: &Graph,
    (run, created_at, options): (RunId, Timestamp, RunOptions),
    is_retry: bool,
) -> RunHead {
    let mut head = RunHead {
        graph: graph.hash.clone(),
        created_at,
        options,
        // No other run waits for this one. A document cannot say who pays, but a retry is a document of our own.
        caller: None,
        // The snapshot contains its messages.
        takes_messages: false,
        key: snapshot.head.key.clone().filter(|_| is_retry),
        webhook: None,
        ..snapshot.head.clone()
    };
    if let Some((_, id)) = head.sys.iter_mut().find(|(name, _)| name == "workflow_run_id") {
        *id = Stored::Inline(Segment::string(run.to_string()));
    }
    head
}

/// False for values that the pool shows but that are stored elsewhere: inputs in the head, the environment in the
/// workflow.
fn is_written(snapshot: &Snapshot, root: &str, variable: &PoolVariable) -> bool {
    if !variable.frame.is_root() {
        return true;
    }
    let same = |values: &[(String, Stored)]| {
        let given = values.iter().find(|(name, _)| *name == variable.name);
        given.is_some_and(|(_, stored)| match (stored, &variable.value) {
            (Stored::Inline(given), PoolValue::Whole(shown)) => given == shown,
            // Blobs are not compared but written again.
            _ => false,
        })
    };
    match variable.node.as_str() {
        "env" => false,
        "sys" => !same(&snapshot.head.sys),
        "conversation" => !same(&snapshot.head.conversation),
        node if node == root => !same(&snapshot.head.inputs),
        _ => true,
    }
}
