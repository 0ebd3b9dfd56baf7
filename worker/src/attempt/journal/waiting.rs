//! Waits of a job: for a time, for a sub-workflow run, or for an answer. Short waits happen here. For any other the job
//! is parked in Redis, and no worker holds it.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::files::FilesError;
use tidemill_common::ids::{BlobId, RunId};
use tidemill_common::limits::{self, CALL_LOOK_MS};
use tidemill_common::machine::fact::{Call, JobQuestion};
use tidemill_common::machine::state::pause::id_in_job;
use tidemill_common::machine::state::run::json_size;
use tidemill_common::nodes::{OnTimeout, PauseRequest};
use tidemill_common::store::{Called, Paused};
use tidemill_common::value::{BlobRef, Segment, Stored, blob_text};

use crate::attempt::journal::Journal;
use crate::attempt::spill;
use crate::metrics;
use crate::outside::providers::Waiter;

/// Largest input of a sub-workflow run that is stored inline, in bytes of JSON; larger input becomes a blob.
const INPUT_INLINE_BYTES_MAX: usize = limits::INLINE_BYTES_MAX;

/// The end of a sub-workflow run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEnd {
    /// It could not be started, for this reason.
    Refused(String),
    /// It has ended; these are the fields of its hash.
    Ended(HashMap<String, String>),
}

/// The end of a pause.
#[derive(Debug, Clone, PartialEq)]
pub enum PauseEnd {
    /// The answer of a person, or the default proposed for a timeout.
    Answered(Json),
    /// No answer came in time.
    Expired,
    /// The pause was cancelled.
    Cancelled,
}

impl Journal {
    /// Waits. For a wait longer than `worker.job_wait_max_ms` the job is parked in Redis with this reason and delivered
    /// again when the time has come. Then this call does not return, and the next worker continues after the last
    /// journal entry.
    pub async fn wait(&self, wait: Duration, reason: &str) {
        self.wait_as(wait, reason, self.child_try.is_some()).await;
    }

    /// As [`Self::wait`], for a node inside this job. The job's own node does not count as started.
    pub(crate) async fn wait_for_child(&self, wait: Duration, reason: &str) {
        self.wait_as(wait, reason, true).await;
    }

    async fn wait_as(&self, wait: Duration, reason: &str, is_childs: bool) {
        if !self.parks_for(wait) {
            return tokio::time::sleep(wait).await;
        }
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let reason = self.secrets.masked(reason.to_owned());
        tracing::debug!(run = %self.of.run, node = %self.handle.name.node, wait_ms, reason, "job is parked");
        metrics::PARKED.count();
        self.park_entries().await;
        self.handle.park(wait_ms, reason, is_childs);
        std::future::pending().await
    }

    /// Returns true if the job is parked for a wait of this length.
    pub(crate) fn parks_for(&self, wait: Duration) -> bool {
        wait > self.wait_max
    }

    /// Returns the end of the sub-workflow run that this try of a journal entry calls. The first call orders the run.
    /// Until it has ended the job is parked, and this call does not return.
    ///
    /// # Errors
    /// The input cannot be stored.
    pub async fn call(
        &self,
        step: &str,
        number: u32,
        app: &str,
        input: Json,
    ) -> Result<(RunId, CallEnd), String> {
        let run = self.of.run.called_by(&self.of.execution, step, number);
        let known = self.until_answered(|| self.jobs().called(self.of.run, run)).await;
        let (input, blobs) = match known {
            Called::Refused(reason) => return Ok((run, CallEnd::Refused(reason))),
            Called::Ended(fields) => return Ok((run, CallEnd::Ended(fields))),
            Called::Gone => {
                let reason = format!(
                    "the sub-workflow run {run} was removed before its result was read (scheduler.retention_seconds)"
                );
                return Ok((run, CallEnd::Refused(reason)));
            }
            Called::Waits | Called::Runs(_) => (None, Vec::new()),
            Called::Unknown => {
                let (input, blobs) = stored_input(input);
                let stored = spill::store(self.jobs(), self.of.shard, &blobs).await;
                stored.map_err(|error| format!("the input of the workflow cannot be stored: {error}"))?;
                (Some(input), blobs)
            }
        };
        tracing::debug!(run = %self.of.run, node = %self.handle.name.node, called = %run, app, "waits for a sub-workflow run");
        metrics::PARKED.count();
        let call = Call { run, app: app.to_owned(), given: input };
        self.park_entries().await;
        self.handle.park_for(call, CALL_LOOK_MS, self.child_try.is_some(), blobs);
        std::future::pending().await
    }

    /// Asks a person. The first call parks the job with the question and does not return; no worker is occupied while
    /// the run waits. When the pause is answered, expired or cancelled, the job is delivered again as the same attempt.
    /// The same call then returns the result, any number of times, also in later attempts. To ask again, use another
    /// step.
    ///
    /// In a run without people (`interactive: false`) the node fails; a caller that can continue without an answer
    /// checks the run's choices first. With [`OnTimeout::Default`] the request's defaults are the answer after the
    /// timeout.
    ///
    /// The question shows secrets masked. [`tidemill_common::value::secrets::Secrets::unmasked`] restores them in an
    /// answer that repeats the shown text.
    pub async fn pause(&self, step: &str, request: PauseRequest) -> PauseEnd {
        if self.child_try.is_some() {
            // A node inside another never waits for a person.
            return PauseEnd::Cancelled;
        }
        let pause = id_in_job(&self.of.execution, step);
        match self.until_answered(|| self.jobs().paused(self.of.run, &pause)).await {
            Paused::Answered(answer) => return PauseEnd::Answered(answer),
            Paused::Expired if request.on_timeout == OnTimeout::Default => {
                return PauseEnd::Answered(request.defaults);
            }
            Paused::Expired => return PauseEnd::Expired,
            Paused::Cancelled => return PauseEnd::Cancelled,
            Paused::Unknown | Paused::Waits => {}
        }
        let kind = request.kind.name();
        tracing::debug!(run = %self.of.run, node = %self.handle.name.node, %pause, kind, "waits for an answer");
        metrics::PARKED.count();
        self.park_entries().await;
        self.handle.park_for_answer(JobQuestion {
            pause,
            step: step.into(),
            request: request.hiding(&self.secrets),
        });
        std::future::pending().await
    }

    /// The end of a question that an earlier delivery has asked. `None` while it is open, or if it was never asked.
    pub(crate) async fn pause_end(&self, step: &str) -> Option<PauseEnd> {
        let pause = id_in_job(&self.of.execution, step);
        match self.until_answered(|| self.jobs().paused(self.of.run, &pause)).await {
            Paused::Answered(answer) => Some(PauseEnd::Answered(answer)),
            Paused::Expired => Some(PauseEnd::Expired),
            Paused::Cancelled => Some(PauseEnd::Cancelled),
            Paused::Unknown | Paused::Waits => None,
        }
    }

    /// Returns true if this try of a journal entry has called a run.
    pub(crate) async fn has_called(&self, step: &str, number: u32) -> bool {
        let run = self.of.run.called_by(&self.of.execution, step, number);
        self.until_answered(|| self.jobs().called(self.of.run, run)).await != Called::Unknown
    }

    /// Marks the open entries as only looked at: a later begin of one is no repetition, unless an earlier worker has begun it.
    pub(crate) async fn set_aside(&self) {
        let open = std::mem::take(&mut self.entries().open);
        for step in open {
            self.until_answered(|| self.jobs().park_step(&self.of, &step)).await;
        }
    }

    /// Marks the open journal entries as only waiting, so that continuing them does not count as a repetition.
    async fn park_entries(&self) {
        self.set_aside().await;
        for (of, step) in &self.enclosing {
            self.until_answered(|| self.jobs().park_step(of, step)).await;
        }
    }
}

/// Stores the input of a run inline, or as a blob when it is large.
pub(super) fn stored_input(input: Json) -> (Stored, Vec<(BlobId, String)>) {
    let segment = Segment::infer(input);
    if json_size(&segment.value) <= INPUT_INLINE_BYTES_MAX {
        return (Stored::Inline(segment), Vec::new());
    }
    let (id, text) = (BlobId::generate(), blob_text(&segment.value));
    let blob = BlobRef::to(id.clone(), &segment, &text);
    (Stored::Blob(blob), vec![(id, text)])
}

#[async_trait::async_trait]
impl Waiter for Journal {
    fn attempt(&self) -> String {
        format!("{}/{}", self.of.execution, self.of.attempt)
    }
    async fn wait(&self, wait: Duration, reason: &str) {
        Self::wait(self, wait, reason).await;
    }
    fn run(&self) -> Option<RunId> {
        Some(self.of.run)
    }
    async fn check_file(&self, reference: &str) -> Result<(), FilesError> {
        self.allowed.check(self.jobs(), self.of.run, reference).await
    }
    fn leaves_tries(&self) -> bool {
        self.repeats_calls
    }
}
