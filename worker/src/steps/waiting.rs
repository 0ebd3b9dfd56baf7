//! What a step waits for: a time to come, a run that it has called, somebody's answer. Short times are waited for here, all
//! else in Redis: the job is put down, and lies in nobody's hands.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::ids::{BlobId, RunId};
use tidemill_common::limits::{self, CALL_LOOK_MS};
use tidemill_common::machine::fact::{Asked, Call};
use tidemill_common::machine::pause::id_in_job;
use tidemill_common::machine::run::json_size;
use tidemill_common::nodes::{OnTimeout, PauseRequest};
use tidemill_common::store::{Called, Paused};
use tidemill_common::value::{BlobRef, Segment, Stored, blob_text};

use super::Steps;
use crate::metrics;
use crate::providers::Pace;
use crate::spill;

/// What a called run is given lies apart from this size on, in bytes of JSON.
const GIVEN_INLINE_BYTES_MAX: usize = limits::INLINE_BYTES_MAX;

/// What came of a run that was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEnd {
    /// It could not be made, for this reason.
    Refused(String),
    /// It is over: the fields of its hash.
    Ended(HashMap<String, String>),
}

/// What came of asking somebody.
#[derive(Debug, Clone, PartialEq)]
pub enum PauseEnd {
    /// Somebody has answered this, or the time is over and it was proposed for that case.
    Answered(Json),
    /// Nobody has answered in time.
    Expired,
    /// It was called off.
    Cancelled,
}

impl Steps {
    /// Waits. What takes longer than `worker.job_wait_max_ms` is waited for in Redis: the job is put down, with the
    /// reason where people look for it, and handed out again when its time has come; this does not return then, and
    /// whoever takes the job up goes on behind its last recorded step.
    pub async fn wait(&self, wait: Duration, reason: &str) {
        self.wait_as(wait, reason, self.inside.is_some()).await;
    }

    /// As [`Self::wait`], for a node that runs inside this job: the job's own node has not begun, nor does it by this.
    pub(crate) async fn wait_for_child(&self, wait: Duration, reason: &str) {
        self.wait_as(wait, reason, true).await;
    }

    async fn wait_as(&self, wait: Duration, reason: &str, is_childs: bool) {
        if !self.puts_down(wait) {
            return tokio::time::sleep(wait).await;
        }
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(run = %self.of.run, node = %self.hand.name.node, wait_ms, reason, "job is parked");
        metrics::PARKED.count();
        self.put_down().await;
        self.hand.park(wait_ms, self.secrets.masked(reason.to_owned()), is_childs);
        std::future::pending().await
    }

    /// Whether the job is put down for a wait of this length.
    pub(crate) fn puts_down(&self, wait: Duration) -> bool {
        wait > self.wait_max
    }

    /// What came of the run that this try of a step calls. The first time it is ordered, and while it is not over the job is
    /// put down, to be handed out again when it is: this does not return then.
    ///
    /// # Errors
    /// What is given cannot be stored.
    pub async fn call(
        &self,
        step: &str,
        number: u32,
        app: &str,
        given: Json,
    ) -> Result<(RunId, CallEnd), String> {
        let run = self.of.run.called_by(&self.of.execution, step, number);
        let known = self.until_answered(|| self.jobs().called(self.of.run, run)).await;
        let (given, blobs) = match known {
            Called::Refused(reason) => return Ok((run, CallEnd::Refused(reason))),
            Called::Ended(fields) => return Ok((run, CallEnd::Ended(fields))),
            Called::Gone => {
                let reason = format!(
                    "the called run {run} was removed before its result was read (scheduler.retention_seconds)"
                );
                return Ok((run, CallEnd::Refused(reason)));
            }
            Called::Waits => (None, Vec::new()),
            Called::Unknown => {
                let (given, blobs) = set_apart(given);
                let stored = spill::store(self.jobs(), self.of.shard, &blobs).await;
                stored.map_err(|error| format!("what the workflow is given cannot be stored: {error}"))?;
                (Some(given), blobs)
            }
        };
        tracing::debug!(run = %self.of.run, node = %self.hand.name.node, called = %run, app, "waits for a called run");
        metrics::PARKED.count();
        let call = Call { run, app: app.to_owned(), given };
        self.put_down().await;
        self.hand.park_for(call, CALL_LOOK_MS, self.inside.is_some(), blobs);
        std::future::pending().await
    }

    /// Asks somebody. The first time the job is put down with the question, and this does not return: nobody holds anything
    /// while the run waits. When it was answered, has expired or was called off the job is handed out again, as the same
    /// attempt, and the same call returns what came of it, as often as it is made, in later attempts too. What is asked
    /// once more needs another step.
    ///
    /// In a run that nobody answers (`interactive: false`) the node fails; who can do without an answer asks the run's
    /// choices first. With [`OnTimeout::Default`] the request's defaults are the answer when the time is over.
    ///
    /// Whoever is asked sees secrets masked; an answer that repeats what was shown is made whole again by
    /// [`tidemill_common::value::secrets::Secrets::unmasked`].
    pub async fn pause(&self, step: &str, request: PauseRequest) -> PauseEnd {
        if self.inside.is_some() {
            // Nothing that runs inside a node waits for anybody.
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
        tracing::debug!(run = %self.of.run, node = %self.hand.name.node, %pause, kind, "waits for an answer");
        metrics::PARKED.count();
        self.put_down().await;
        self.hand.park_for_answer(Asked { pause, step: step.into(), request: self.shown(request) });
        std::future::pending().await
    }

    /// A question as it is seen: in the inbox, in events, by whoever is asked.
    fn shown(&self, request: PauseRequest) -> PauseRequest {
        let secrets = &self.secrets;
        if secrets.are_none() {
            return request;
        }
        PauseRequest {
            content: secrets.masked(request.content),
            message: secrets.masked(request.message),
            inputs: secrets.hidden(request.inputs),
            actions: secrets.hidden(request.actions),
            defaults: secrets.hidden(request.defaults),
            schema: secrets.hidden(request.schema),
            options: secrets.hidden(request.options),
            details: secrets.hidden_in(request.details),
            ..request
        }
    }

    /// Whether this try of a step has called a run.
    pub(crate) async fn has_called(&self, step: &str, number: u32) -> bool {
        let run = self.of.run.called_by(&self.of.execution, step, number);
        self.until_answered(|| self.jobs().called(self.of.run, run)).await != Called::Unknown
    }

    /// Notes of the steps under way that they do nothing but wait: going on with them is no repetition.
    async fn put_down(&self) {
        let open = std::mem::take(&mut self.tries().open);
        for step in open {
            self.until_answered(|| self.jobs().park_step(&self.of, &step)).await;
        }
        for (of, step) in &self.around {
            self.until_answered(|| self.jobs().park_step(of, step)).await;
        }
    }
}

/// What a run is given, as an order carries it, and the blob that it refers to when it is large.
fn set_apart(given: Json) -> (Stored, Vec<(BlobId, String)>) {
    let segment = Segment::infer(given);
    if json_size(&segment.value) <= GIVEN_INLINE_BYTES_MAX {
        return (Stored::Inline(segment), Vec::new());
    }
    let (id, text) = (BlobId::generate(), blob_text(&segment.value));
    let blob = BlobRef::to(id.clone(), &segment, &text);
    (Stored::Blob(blob), vec![(id, text)])
}

#[async_trait::async_trait]
impl Pace for Steps {
    fn attempt(&self) -> String {
        format!("{}/{}", self.of.execution, self.of.attempt)
    }
    async fn wait(&self, wait: Duration, reason: &str) {
        Self::wait(self, wait, reason).await;
    }
}
