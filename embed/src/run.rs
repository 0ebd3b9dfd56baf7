//! A handle of a run: its events, its outcome, commands and answers. Each call is a request to the engine's own API, so a
//! host gets the same checks and refusals as an HTTP client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::Method;
use serde_json::Value as Json;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::event::kind;

use crate::api::Api;
use crate::command::Command;
use crate::error::EmbedError;
use crate::events::{Event, EventStream};
use crate::forgetting::Hold;

/// The longest time between a command to resume, as accepted, and its first effect.
const RESUMED_WITHIN: Duration = Duration::from_secs(5);

/// A run. It continues when this is dropped; an ended run whose last handle and stream are dropped is forgotten.
#[derive(Clone)]
pub struct Run {
    api: Api,
    id: String,
    conversation: Option<String>,
    hold: Hold,
    /// A command to resume was accepted, and [`Self::result`] has not waited for its effect.
    is_resumed: Arc<AtomicBool>,
}

/// How a run has ended, or that it waits.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It succeeded; `exceptions` nodes have failed, and their error strategies continued the run.
    Succeeded {
        /// The outputs of the run.
        outputs: JsonMap,
        /// The number of nodes that have failed and were handled.
        exceptions: u64,
    },
    /// It failed.
    Failed {
        /// The error of the node that has failed.
        error: String,
    },
    /// A command, a limit or a node has stopped it.
    Stopped {
        /// The reason that was given.
        reason: String,
        /// The outputs until then.
        outputs: JsonMap,
    },
    /// It waits for an answer or for [`Command::Resume`].
    Paused {
        /// The pauses that wait, as [`Run::pauses`] gives them; empty after [`Command::Pause`].
        pauses: Vec<Json>,
        /// The outputs so far.
        outputs: JsonMap,
    },
}

impl Run {
    pub(crate) fn new(api: Api, id: String, conversation: Option<String>, hold: Hold) -> Self {
        Self { api, id, conversation, hold, is_resumed: Arc::default() }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The id of its conversation, if it has one.
    pub fn conversation(&self) -> Option<&str> {
        self.conversation.as_deref()
    }

    /// Its events, from the first one. Each call begins again.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] when the engine no longer has the run.
    pub async fn events(&self) -> Result<EventStream, EmbedError> {
        Ok(EventStream::new(self.api.events(self.hold.run()).await?, self.hold.clone()))
    }

    /// Waits until the run has ended, or until the run itself waits for an answer or for [`Command::Resume`].
    ///
    /// # Errors
    /// [`EmbedError::Refused`] when the engine no longer has the run; `engine_stopped` when the engine stops before the
    /// run has ended.
    pub async fn result(&self) -> Result<Outcome, EmbedError> {
        let mut events = self.events().await?;
        let mut started_at = None;
        let mut next = events.next().await?;
        while let Some(event) = next {
            if let Some(outcome) = ended(&event) {
                return Ok(outcome);
            }
            if event.kind == kind::GRAPH_RUN_STARTED {
                started_at = event.raw["ts"].as_i64();
            }
            next = if event.kind == kind::GRAPH_RUN_PAUSED
                && !self.has_continued(started_at).await?
                && let Some(pauses) = self.waits(&event).await?
            {
                match self.after_resume(&mut events, pauses.is_empty()).await? {
                    Some(event) => Some(event),
                    None => return Ok(Outcome::Paused { pauses, outputs: map(&event.data["outputs"]) }),
                }
            } else {
                events.next().await?
            };
        }
        Err(EmbedError::Refused {
            code: "engine_stopped".into(),
            message: format!("the engine has stopped before run {} has ended", self.id),
            diagnostics: Vec::new(),
        })
    }

    /// Returns true if the run has continued after the start that its events have shown so far. A pause that follows this
    /// start is then over.
    async fn has_continued(&self, started_at: Option<i64>) -> Result<bool, EmbedError> {
        Ok(self.api.resumed_at(self.hold.run()).await? > started_at)
    }

    /// The pauses for which the run still waits after this event; `None` if it goes on. An answer or a command may have come
    /// since: it is accepted before the run continues.
    async fn waits(&self, event: &Event) -> Result<Option<Vec<Json>>, EmbedError> {
        let mut shown = self.show().await?;
        if shown["status"] != "paused" {
            return Ok(None);
        }
        let mut pauses = shown["pauses"].as_array_mut().map(std::mem::take).unwrap_or_default();
        pauses.retain(|pause| pause["status"] == "pending");
        let reasons = event.data["reasons"].as_array().into_iter().flatten();
        let is_command = reasons.clone().any(|reason| reason["TYPE"] == "scheduled_pause");
        Ok((!pauses.is_empty() || is_command).then_some(pauses))
    }

    /// The next event of a run that a command has paused, if a command to resume was accepted and takes effect soon. `None`
    /// if the run waits.
    async fn after_resume(
        &self,
        events: &mut EventStream,
        by_command: bool,
    ) -> Result<Option<Event>, EmbedError> {
        if !by_command || !self.is_resumed.swap(false, Ordering::Relaxed) {
            return Ok(None);
        }
        match tokio::time::timeout(RESUMED_WITHIN, events.next()).await {
            Ok(next) => next,
            Err(_) => Ok(None),
        }
    }

    /// Sends a command. It takes effect unless the run ends first.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] with `run_over` when the run has ended, or for a command that does not fit.
    pub async fn send(&self, command: Command) -> Result<(), EmbedError> {
        let is_resumed = command == Command::Resume;
        self.api.post(&self.path("/commands"), &command.into_body()).await?;
        if is_resumed {
            self.is_resumed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The run as `GET /api/v1/runs/{id}` shows it: status, outputs, nodes.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] when the engine no longer has the run.
    pub async fn show(&self) -> Result<Json, EmbedError> {
        self.api.get(&self.path("")).await
    }

    /// All its pauses, oldest first, also those that are over.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] when the engine no longer has the run.
    pub async fn pauses(&self) -> Result<Vec<Json>, EmbedError> {
        let mut answer = self.api.get(&self.path("/pauses")).await?;
        Ok(answer["data"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Answers a pause; the body is that of `POST /api/v1/runs/{id}/pauses/{pause}/answer`.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] for a pause that is over, or an answer that does not fit its form.
    pub async fn answer(&self, pause: &str, answer: &Json) -> Result<(), EmbedError> {
        self.api.post(&self.path(&format!("/pauses/{pause}/answer")), answer).await.map(drop)
    }

    /// The run as one document, with all that it needs to go on elsewhere. The run itself goes on, too.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] with `run_over` when the run has ended.
    pub async fn snapshot(&self) -> Result<Json, EmbedError> {
        self.api.get(&self.path("/snapshot")).await
    }

    /// As [`Self::snapshot`], as text. Large numbers keep all their digits.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] with `run_over` when the run has ended.
    pub async fn snapshot_bytes(&self) -> Result<Vec<u8>, EmbedError> {
        self.api.bytes(Method::GET, &self.path("/snapshot"), Vec::new()).await
    }

    fn path(&self, below: &str) -> String {
        format!("/api/v1/runs/{}{below}", self.id)
    }
}

/// The outcome that an event tells; `None` if the run goes on.
fn ended(event: &Event) -> Option<Outcome> {
    let data = &event.data;
    let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
    match event.kind.as_str() {
        kind::GRAPH_RUN_SUCCEEDED => {
            Some(Outcome::Succeeded { outputs: map(&data["outputs"]), exceptions: 0 })
        }
        kind::GRAPH_RUN_PARTIAL_SUCCEEDED => {
            let exceptions = data["exceptions_count"].as_u64().unwrap_or_default();
            Some(Outcome::Succeeded { outputs: map(&data["outputs"]), exceptions })
        }
        kind::GRAPH_RUN_FAILED => Some(Outcome::Failed { error: text("error") }),
        kind::GRAPH_RUN_ABORTED => {
            Some(Outcome::Stopped { reason: text("reason"), outputs: map(&data["outputs"]) })
        }
        _ => None,
    }
}

fn map(value: &Json) -> JsonMap {
    value.as_object().cloned().unwrap_or_default()
}
