//! Calls models through their APIs. A workflow names a provider and a model; a profile has the address and the key.
//!
//! The modules in the order of a call: [`profile`] finds the profile, and [`media`] fetches the files of the messages.
//! [`openai`] (with [`azure`], which has other addresses), [`anthropic`] or [`ollama`] writes the request; `plugin` calls an
//! installed plugin instead. [`api`]
//! sends it, [`frames`] splits the answer into objects, and the provider builds a [`reply`] from them. [`errors`] gives
//! every failure the class that workflows branch on, and [`retry`] decides which are retried within one call. [`rate`]
//! reads the provider's limits, and [`limiter`] enforces them across all workers.

pub mod anthropic;
pub mod api;
pub mod azure;
pub mod errors;
pub mod frames;
pub mod limiter;
pub mod media;
pub mod model_file;
pub mod ndjson;
pub mod ollama;
pub mod openai;
mod params;
#[cfg(target_os = "linux")]
mod plugin;
pub mod profile;
pub mod rate;
pub mod reading;
pub mod reply;
pub mod retry;
pub mod source;
pub mod speech;
pub mod tool_calls;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tidemill_common::nodes::llm::ModelMode;
use tidemill_common::nodes::llm::message::{MediaKind, ToolSpec};
use tidemill_common::nodes::llm::usage::Tokens;
use tidemill_common::value::JsonMap;

pub use crate::outside::providers::errors::{Detail, ErrorClass, ModelError};
pub use crate::outside::providers::limiter::Waiter;
pub use crate::outside::providers::media::SentMessage;
pub use crate::outside::providers::profile::{Model, Providers, ProvidersConfig, Question};
pub use crate::outside::providers::reply::{DeltaSink, ModelReply, RateFacts, RateWindow};
pub use crate::outside::providers::speech::{Recording, SPEECH, Spoken};

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The provider's name in errors, such as `openai`.
    pub label: String,
    /// The model's name in the API.
    pub model: String,
    /// The conversation; at least one message. Files are loaded.
    pub messages: Vec<SentMessage>,
    /// More fields of the request. They cannot replace those the provider sets itself.
    pub params: JsonMap,
    /// Stop sequences; not sent if empty.
    pub stop: Vec<String>,
    /// Tools that the model may call; not sent if empty.
    pub tools: Vec<ToolSpec>,
    /// Chat with messages, or completion of the only message's text.
    pub mode: ModelMode,
    /// True when the reply should be streamed.
    pub stream: bool,
    /// True for OpenAI's reasoning models, which take other parameters. `None`: the name decides.
    pub reasoning: Option<bool>,
    /// Tokens of prompt and reply together, for a server that requires it in the request.
    pub context_size: Option<u64>,
}

/// Vectors in the order of the texts, and the counted tokens.
pub type Embeddings = (Vec<Vec<f32>>, Tokens);
/// Indices of documents with their relevance from 0 to 1, best first, and the counted tokens.
pub type Ranking = (Vec<(usize, f64)>, Tokens);

/// The text of a recording, and the counted tokens.
pub type Transcript = (String, Tokens);

/// An API that serves models.
#[async_trait::async_trait]
pub trait ModelProvider: fmt::Debug + Send + Sync {
    /// Returns true if a file of this kind can be sent as a URL.
    fn takes_url(&self, kind: MediaKind) -> bool;

    /// Calls the model and streams the reply: each piece of text goes to `on_delta` as it arrives. Retries as far as
    /// [`retry`] allows, but never after a piece was passed on. Dropping the future ends the request.
    ///
    /// # Errors
    /// A [`ModelError`] whose class and text a workflow may see; it contains no secret.
    async fn stream_chat(
        &self,
        request: &ChatRequest,
        on_delta: DeltaSink<'_>,
    ) -> Result<ModelReply, ModelError>;

    /// The provider for texts that are searched for, if it makes other vectors of them than of those that are searched.
    fn for_queries(&self) -> Option<Arc<dyn ModelProvider>> {
        None
    }

    /// Returns the vectors of texts with one request.
    ///
    /// # Errors
    /// As [`ModelProvider::stream_chat`], and for an API without embeddings.
    async fn embed(&self, label: &str, model: &str, texts: &[String]) -> Result<Embeddings, ModelError> {
        let _ = texts;
        Err(ModelError::lacking(label, model, "embeddings"))
    }

    /// Ranks documents and returns the `top_n` most relevant to a query.
    ///
    /// # Errors
    /// As [`ModelProvider::stream_chat`], and for an API without rerank.
    async fn rerank(
        &self,
        label: &str,
        model: &str,
        query: &str,
        documents: &[String],
        top_n: usize,
    ) -> Result<Ranking, ModelError> {
        let _ = (query, documents, top_n);
        Err(ModelError::lacking(label, model, "rerank"))
    }

    /// Returns the text that is said in a recording.
    ///
    /// # Errors
    /// As [`ModelProvider::stream_chat`], and for an API without speech.
    async fn transcribe(
        &self,
        label: &str,
        model: &str,
        recording: &Recording,
    ) -> Result<Transcript, ModelError> {
        let _ = recording;
        Err(ModelError::lacking(label, model, SPEECH))
    }

    /// Returns the sound of a text, as MP3.
    ///
    /// # Errors
    /// As [`ModelProvider::transcribe`].
    async fn speak(&self, label: &str, model: &str, spoken: &Spoken<'_>) -> Result<Bytes, ModelError> {
        let _ = spoken;
        Err(ModelError::lacking(label, model, SPEECH))
    }

    /// Returns true if the API's moderation flags the text.
    ///
    /// # Errors
    /// As [`ModelProvider::stream_chat`], and for an API without moderation.
    async fn moderate(&self, label: &str, model: &str, text: &str) -> Result<bool, ModelError> {
        let _ = text;
        Err(ModelError::lacking(label, model, "moderation"))
    }
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
