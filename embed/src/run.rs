//! One run of an engine.

use axum::http::Method;
use serde_json::Value as Json;

use crate::api::Api;
use crate::command::Command;
use crate::error::EmbedError;
use crate::events::EventStream;

/// A run. It goes on when this is dropped.
#[derive(Clone)]
pub struct Run {
    api: Api,
    id: String,
}

impl Run {
    pub(crate) fn new(api: Api, id: String) -> Self {
        Self { api, id }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its events, from the first one. Each call begins again.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] when the engine no longer has the run.
    pub async fn events(&self) -> Result<EventStream, EmbedError> {
        let answer = self.api.open(Method::GET, &self.path("/events"), None).await?;
        Ok(EventStream::new(answer.into_body()))
    }

    /// Sends a command. It takes effect unless the run ends first.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] with `run_over` when the run has ended, or for a command that does not fit.
    pub async fn send(&self, command: Command) -> Result<(), EmbedError> {
        self.api.post(&self.path("/commands"), &command.into_body()).await.map(drop)
    }

    /// The run as `GET /api/v1/runs/{id}` shows it: status, outputs, nodes.
    ///
    /// # Errors
    /// [`EmbedError::Refused`] when the engine no longer has the run.
    pub async fn show(&self) -> Result<Json, EmbedError> {
        self.api.get(&self.path("")).await
    }

    /// Its pauses, with the forms that wait for an answer.
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

    fn path(&self, below: &str) -> String {
        format!("/api/v1/runs/{}{below}", self.id)
    }
}
