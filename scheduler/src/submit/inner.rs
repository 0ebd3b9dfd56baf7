//! Runs of built-in workflow files, for what a scheduler cannot do because only workers have models and reach other servers:
//! suggested questions, speech, moderation. Such a run is like any other, so a worker's death costs nothing but time. It
//! belongs to no app, and the field `inner` of its hash says what it is for; lists of runs leave it out. The API key of
//! the request pays for it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use tidemill_common::files::Files;
use tidemill_common::graph::GraphHash;
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{INNER_FIELD, Runs};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::WireError;
use tidemill_common::wire::event::kind;
use tokio::time::Instant;

use super::{Submission, SubmitError, Submitter, SystemValues, WorkflowSource};
use crate::runs::record::RunRecord;
use crate::runs::render::Renderer;
use crate::workflows::{Workflow, import};

/// The field of the hash of such a run, and the system variable, with the purpose of the run.
pub(crate) const FIELD: &str = INNER_FIELD;
/// The purposes of the runs that are made once for a message ([`beside`]).
pub(crate) const SUGGESTS: &str = "suggested questions";
pub(crate) const SPEAKS: &str = "text to speech";
/// Runs of one purpose for one message: when one has failed, a later request tries again.
pub(crate) const TRIES: u32 = 3;
/// Most built-in files that are kept ready; those that name a model of an app differ from app to app.
const KEPT_MAX: usize = 64;
/// Longest time between two looks, because hints may get lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Shortest time between two looks: a model that streams sends many hints.
const LOOKS_APART: Duration = Duration::from_millis(20);
/// Time after its deadline in which a run is expected to end although its caller no longer waits.
const GRACE: Duration = Duration::from_secs(60);
/// More files than such a run has.
const FILES_MAX: usize = 100;
/// Events that are read to find the failure of a node.
const EVENTS_MAX: usize = 256;

/// A run of a built-in file.
#[derive(Debug, Clone)]
pub(crate) struct Inner {
    /// What it is for, in a word or two: the value of [`FIELD`].
    pub(crate) purpose: &'static str,
    /// The text of the file.
    pub(crate) file: Cow<'static, str>,
    /// Inputs of its start node, taken unchanged.
    pub(crate) inputs: JsonMap,
    /// The user of the request.
    pub(crate) user: String,
    /// The API key that pays.
    pub(crate) key: Option<String>,
    /// Its id. A run with this id that exists already is waited for, and no other is created. By default a new one, and
    /// the run is removed as soon as its end is read, because nothing leads to it.
    pub(crate) run: Option<RunId>,
    /// Files are already stored under `run`.
    pub(crate) has_files: bool,
    /// Longest wait for its end, after which it also fails by itself.
    pub(crate) wait_max: Duration,
    /// The setting of `wait_max`, for the error.
    pub(crate) setting: &'static str,
}

/// The end of such a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InnerEnd {
    pub(crate) run: RunId,
    pub(crate) outputs: JsonMap,
}

/// Why such a run gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InnerError {
    /// It was not created.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// Its record cannot be read.
    #[error(transparent)]
    Unreadable(#[from] WireError),
    /// It failed; `class` is the error class of the node that failed, such as `ProviderTokenNotInitError`.
    #[error("{message}")]
    Failed { class: String, message: String },
    /// No worker has done it in time.
    #[error("{purpose}: no worker has done it within {seconds} s ({setting})")]
    Late { purpose: &'static str, seconds: u64, setting: &'static str },
    /// It was removed before its end was read.
    #[error("the run for it is gone; try again")]
    Gone,
}

impl From<tidemill_common::store::StoreError> for InnerError {
    fn from(error: tidemill_common::store::StoreError) -> Self {
        Self::Submit(error.into())
    }
}

impl InnerError {
    /// What failed in a word, for logs: the message of a model's failure may repeat what it was asked.
    pub(crate) fn class(&self) -> String {
        match self {
            Self::Failed { class, .. } => class.clone(),
            Self::Submit(_) | Self::Unreadable(_) | Self::Late { .. } | Self::Gone => self.to_string(),
        }
    }
}

/// The id of a run that is made once for a message: it follows from the message's id, and is on its shard. `number` counts
/// the tries.
pub(crate) fn beside(message: RunId, purpose: &str, number: u32) -> RunId {
    let digest = Sha256::digest(format!("{purpose} {number} {message}"));
    let random = digest.iter().take(16).fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
    let millis = message.uuid().as_bytes()[..6].iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
    RunId::new(millis, random, message.shard())
}

/// The built-in files that are ready for runs, by their text.
#[derive(Default)]
pub(super) struct BuiltIn(Mutex<HashMap<Cow<'static, str>, Arc<Workflow>>>);

impl BuiltIn {
    fn find(&self, file: &str) -> Option<Arc<Workflow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(file).cloned()
    }

    fn keep(&self, file: Cow<'static, str>, workflow: Arc<Workflow>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = (known.len() >= KEPT_MAX).then(|| known.keys().next().cloned());
        if let Some(one) = one.flatten() {
            known.remove(&one);
        }
        known.insert(file, workflow);
    }
}

impl Submitter {
    /// Runs a built-in file on the workers and waits for its end. The run goes on when the caller leaves.
    ///
    /// # Errors
    /// [`InnerError`].
    pub(crate) async fn inner(&self, inner: Inner) -> Result<InnerEnd, InnerError> {
        let Inner { purpose, wait_max, setting, run, .. } = inner;
        let until = Instant::now() + wait_max;
        let is_once = run.is_none();
        let run = match run {
            Some(run) => run,
            None => RunId::generate(self.some_shard().await?),
        };
        let mut after = After::new(&self.store, run, wait_max);
        after.is_once = is_once;
        let run = self.begin_inner(Inner { run: Some(run), ..inner }).await?;
        match tokio::time::timeout_at(until, ended(&*self.store, run)).await {
            Ok(record) => {
                let record = record?;
                after.is_over = !record.is_removed && !after.is_once;
                self.end_of(record).await
            }
            Err(_) => Err(InnerError::Late { purpose, seconds: wait_max.as_secs(), setting }),
        }
    }

    /// Begins to run a built-in file on the workers.
    ///
    /// # Errors
    /// [`InnerError::Submit`].
    pub(crate) async fn begin_inner(&self, inner: Inner) -> Result<RunId, InnerError> {
        let Inner { purpose, wait_max, .. } = inner;
        let workflow = match self.built_in.find(&inner.file) {
            Some(known) => known,
            None => {
                let text = inner.file.clone().into_owned().into_bytes();
                let (workflow, _) = import(&self.workflows, text).await.map_err(SubmitError::from)?;
                self.built_in.keep(inner.file, workflow.clone());
                workflow
            }
        };
        let deadline = u64::try_from(wait_max.as_millis()).unwrap_or(u64::MAX);
        let submission = Submission {
            user: inner.user,
            key: inner.key,
            host: vec![(FIELD, purpose.to_owned())],
            options: JsonMap::from_iter([("deadline_ms".to_owned(), deadline.into())]),
            run: inner.run,
            has_files: inner.has_files,
            ..Submission::of(
                WorkflowSource::BuiltIn(workflow),
                SystemValues::Exactly(JsonMap::new()),
                inner.inputs,
            )
        };
        Ok(self.submit(submission).await?.run)
    }

    /// Removes a run with its texts and files once it has ended, when what this returns is dropped.
    pub(crate) fn once(&self, run: RunId, wait_max: Duration) -> After {
        let mut after = After::new(&self.store, run, wait_max);
        after.is_once = true;
        after
    }

    /// The end of such a run if it has ended; `None` when it does not exist or goes on.
    ///
    /// # Errors
    /// [`InnerError`]: also its own failure.
    pub(crate) async fn inner_end(&self, run: RunId) -> Result<Option<InnerEnd>, InnerError> {
        let Some(fields) = self.store.run_fields(run).await? else { return Ok(None) };
        let record = RunRecord::read(run, &fields)?;
        if !record.status.is_over() {
            return Ok(None);
        }
        self.end_of(record).await.map(Some)
    }

    /// Waits for the end of a run of a built-in file that was submitted before.
    ///
    /// # Errors
    /// [`InnerError`]: also its own failure.
    pub(crate) async fn inner_wait(
        &self,
        run: RunId,
        purpose: &'static str,
        (wait_max, setting): (Duration, &'static str),
    ) -> Result<InnerEnd, InnerError> {
        match tokio::time::timeout(wait_max, ended(&*self.store, run)).await {
            Ok(record) => self.end_of(record?).await,
            Err(_) => Err(InnerError::Late { purpose, seconds: wait_max.as_secs(), setting }),
        }
    }

    async fn end_of(&self, mut record: RunRecord) -> Result<InnerEnd, InnerError> {
        let run = record.id;
        match record.status {
            RunStatus::Succeeded | RunStatus::PartialSucceeded => {
                let hash = GraphHash(record.version.as_str().into());
                let workflow = self.workflows.of_run(&*self.store, run.shard(), &hash).await;
                let workflow = workflow.map_err(SubmitError::from)?;
                let (shard, graph) = (run.shard(), workflow.graph.clone());
                let render = Renderer::new(self.store.clone(), shard, graph, &self.config.compat);
                render.outputs(&mut record.outputs).await?;
                Ok(InnerEnd { run, outputs: record.outputs })
            }
            RunStatus::Failed
            | RunStatus::Stopped
            | RunStatus::Scheduled
            | RunStatus::Running
            | RunStatus::Paused => {
                let class = self.class_of_failure(run).await?;
                Err(InnerError::Failed { class, message: record.error.unwrap_or_default() })
            }
        }
    }

    /// The error class of the last node that failed; empty if none did.
    async fn class_of_failure(&self, run: RunId) -> Result<String, InnerError> {
        let events = self.store.events(run, EntryId::ZERO, EVENTS_MAX).await?;
        let failed = events.iter().rev().find(|event| event.kind == kind::NODE_RUN_FAILED);
        let class = failed.and_then(|event| event.data.get("error_type")).and_then(Json::as_str);
        Ok(class.unwrap_or_default().to_owned())
    }
}

/// Waits for the end of a run.
async fn ended(store: &dyn Runs, run: RunId) -> Result<RunRecord, InnerError> {
    let mut following = store.follow(run);
    loop {
        // The look covers all hints before it.
        following.take();
        let fields = store.run_fields(run).await?.ok_or(InnerError::Gone)?;
        let record = RunRecord::read(run, &fields)?;
        if record.status.is_over() {
            return Ok(record);
        }
        tokio::time::sleep(LOOKS_APART).await;
        // A hint that was lost is found by the next look.
        let _ = tokio::time::timeout(LOOK_EVERY, following.changed()).await;
    }
}

/// What is done when a request lets go of an inner run, because it has its end or because the client left: a run whose
/// texts are of no use to a later request is removed once it has ended.
pub(crate) struct After {
    store: Arc<dyn Runs>,
    run: RunId,
    wait_max: Duration,
    /// Nothing leads to the run. Others are removed only if their conversation was removed meanwhile.
    pub(crate) is_once: bool,
    /// The end was read, and the run stays.
    is_over: bool,
    /// The storage with files that were stored before the run: they go too, also if the run was never created.
    pub(crate) files: Option<Arc<dyn Files>>,
}

impl After {
    fn new(store: &Arc<dyn Runs>, run: RunId, wait_max: Duration) -> Self {
        Self { store: store.clone(), run, wait_max, is_once: false, is_over: false, files: None }
    }
}

impl Drop for After {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (store, run, is_once) = (self.store.clone(), self.run, self.is_once);
        let (within, files) = (self.wait_max + GRACE, self.files.take());
        // Nothing is left to do when the process ends; the run's own retention removes it then.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = clear(&*store, run, (is_once, within), files).await {
                tracing::warn!(%run, %error, "an inner run stays until its retention is over");
            }
        });
    }
}

/// Waits until a run has ended and removes it, with its files.
async fn clear(
    store: &dyn Runs,
    run: RunId,
    (is_once, within): (bool, Duration),
    files: Option<Arc<dyn Files>>,
) -> Result<(), InnerError> {
    let mut end = tokio::time::timeout(within, ended(store, run)).await;
    if matches!(end, Ok(Err(InnerError::Gone))) && files.is_some() {
        // Its creation may be under way.
        tokio::time::sleep(LOOK_EVERY).await;
        end = tokio::time::timeout(within, ended(store, run)).await;
    }
    let is_removed = match end {
        Ok(Ok(record)) => record.is_removed,
        Ok(Err(InnerError::Gone)) => false,
        Ok(Err(error)) => return Err(error),
        Err(_) => return Ok(()),
    };
    if is_once || is_removed {
        store.app_records().forget_inner_runs(run.shard(), &[run]).await?;
    }
    if let Some(place) = files
        && let Err(error) = place.remove(&run, FILES_MAX).await
    {
        tracing::warn!(%error, %run, "a file is left until its run is removed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidemill_common::ids::ShardId;

    use super::*;

    #[test]
    fn the_run_beside_a_message_is_one_run_for_each_purpose_and_try() {
        let message = RunId::generate(ShardId(7));
        let run = beside(message, "a", 0);
        assert_eq!((run, run.shard()), (beside(message, "a", 0), ShardId(7)));
        let others = [beside(message, "a", 1), beside(message, "b", 0), message];
        assert!(!others.contains(&run));
        assert_eq!(run.to_string()[..13], message.to_string()[..13], "the time is the message's");
    }

    #[test]
    fn an_error_names_what_was_waited_for_and_the_setting_of_the_wait() {
        let late = InnerError::Late {
            purpose: "suggested questions",
            seconds: 60,
            setting: "features.suggested_seconds_max",
        };
        let expected =
            "suggested questions: no worker has done it within 60 s (features.suggested_seconds_max)";
        assert_eq!(late.to_string(), expected);
    }
}
