//! Models behind their APIs: a workflow names a provider and a model, a profile says where that is and how to get in.
//!
//! In the order of a call: [`profile`] finds the profile, [`media`] fetches the files of the messages, one of [`openai`]
//! (and [`azure`], which differs in its addresses), [`anthropic`] and [`ollama`] writes the request, [`api`] holds the
//! conversation and [`frames`] cuts what comes into objects, of which the same provider makes a [`reply`]. [`errors`] gives
//! every failure the class that workflows branch on, [`retry`] says which of them are tried again within one call, and
//! [`rate`] reads what a provider says of its limits, which [`limiter`] holds all workers to.

pub mod anthropic;
pub mod api;
pub mod azure;
pub mod errors;
pub mod frames;
pub mod limiter;
pub mod media;
pub mod ndjson;
pub mod ollama;
pub mod openai;
mod params;
pub mod produced;
pub mod profile;
pub mod rate;
pub mod reading;
pub mod reply;
pub mod retry;
pub mod source;
pub mod sse;
pub mod tool_calls;

use std::fmt;

use tidemill_common::nodes::llm::ModelMode;
use tidemill_common::nodes::llm::message::{MediaKind, ToolSpec};
use tidemill_common::nodes::llm::usage::Tokens;
use tidemill_common::value::JsonMap;

pub use errors::{Detail, ErrorClass, ModelError};
pub use limiter::Pace;
pub use media::SentMessage;
pub use profile::{Model, Providers, ProvidersConfig, Question};
pub use reply::{DeltaSink, ModelReply, RateFacts, RateWindow};

/// One question to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The provider's name as errors show it, such as `openai`.
    pub label: String,
    /// The model's name as the API knows it.
    pub model: String,
    /// The conversation; at least one message. Files are at hand.
    pub messages: Vec<SentMessage>,
    /// Further fields of the request; they cannot replace the ones that the provider sets itself.
    pub params: JsonMap,
    /// Texts that end the reply; empty: not sent.
    pub stop: Vec<String>,
    /// Tools that the model may call; empty: none, and nothing is said of tools.
    pub tools: Vec<ToolSpec>,
    /// How the model is asked: with messages, or with the one text of the only message.
    pub mode: ModelMode,
    /// Whether the reply is to come in pieces.
    pub stream: bool,
    /// Whether it is one of OpenAI's models that reason, which take other parameters; absent: its name decides.
    pub reasoning: Option<bool>,
    /// Tokens that prompt and reply may have together, for a server that has to be told.
    pub context_size: Option<u64>,
}

/// Texts as vectors, in the order of the texts, and the tokens that were counted.
pub type Embeddings = (Vec<Vec<f32>>, Tokens);
/// Places in the list of documents with their relevance from 0 to 1, best first, and the tokens that were counted.
pub type Ranking = (Vec<(usize, f64)>, Tokens);

/// An API that models are behind.
#[async_trait::async_trait]
pub trait ModelProvider: fmt::Debug + Send + Sync {
    /// Whether a file of this kind can be sent as the URL that it lies at.
    fn takes_url(&self, kind: MediaKind) -> bool;

    /// Asks and streams the reply: each piece of text goes to `on_delta` as it arrives. Tries again by itself as far as
    /// [`retry`] allows, but never after a piece was handed on. Dropping the future ends the request.
    ///
    /// # Errors
    /// A [`ModelError`] whose class and text a workflow may see; it holds no secret.
    async fn stream_chat(
        &self,
        request: &ChatRequest,
        on_delta: DeltaSink<'_>,
    ) -> Result<ModelReply, ModelError>;

    /// The vectors of texts, all of them in one request.
    ///
    /// # Errors
    /// As [`ModelProvider::stream_chat`], and for an API that has none.
    async fn embed(&self, label: &str, model: &str, texts: &[String]) -> Result<Embeddings, ModelError> {
        let _ = texts;
        Err(ModelError::lacking(label, model, "embeddings"))
    }

    /// The `top_n` documents that say most about a query.
    ///
    /// # Errors
    /// As [`ModelProvider::stream_chat`], and for an API that has none.
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
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
