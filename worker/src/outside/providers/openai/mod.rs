//! A client of OpenAI-compatible APIs: chat, completions, embeddings, rerank, moderation, speech. Azure only has other
//! addresses.
//!
//! `body` writes a chat request, `parts` the files in it, `chunks` reads the stream, and `vectors` handles embeddings
//! and rerank. [`crate::outside::providers::api`] sends the requests.

mod body;
mod chunks;
mod moderations;
mod parts;
mod vectors;

use bytes::Bytes;
use tidemill_common::limits::VALUE_BYTES_MAX;
use tidemill_common::nodes::llm::ModelMode;
use tidemill_common::nodes::llm::message::MediaKind;

use crate::outside::providers::api::{Api, JSON, Post};
use crate::outside::providers::azure::Deployments;
use crate::outside::providers::frames::Framing;
use crate::outside::providers::reading::ReplyReader;
use crate::outside::providers::{
    ChatRequest, DeltaSink, Detail, Embeddings, ErrorClass, ModelError, ModelProvider, ModelReply, Ranking,
    Recording, Spoken, Transcript, speech,
};

pub use crate::outside::providers::openai::chunks::Chunks;

/// A client of an OpenAI-compatible API.
#[derive(Debug, Clone)]
pub struct OpenAi {
    api: Api,
    addresses: Addresses,
    /// True to request token counts (`stream_options`); some servers refuse the field.
    stream_usage: bool,
}

/// The addresses of the API's operations.
#[derive(Debug, Clone)]
pub enum Addresses {
    /// `{base_url}/{operation}`; the base URL usually ends in `/v1`.
    Plain,
    /// Azure's deployments.
    Azure(Deployments),
}

impl OpenAi {
    /// Creates a client of an API.
    pub const fn new(api: Api, addresses: Addresses, stream_usage: bool) -> Self {
        Self { api, addresses, stream_usage }
    }

    /// The address of a model's operation, and the model's name there.
    fn address<'a>(&'a self, operation: &str, model: &'a str) -> (String, &'a str) {
        let base = self.api.base_url();
        match &self.addresses {
            Addresses::Plain => (format!("{base}/{operation}"), model),
            Addresses::Azure(deployments) => deployments.address(base, operation, model),
        }
    }
}

#[async_trait::async_trait]
impl ModelProvider for OpenAi {
    fn takes_url(&self, kind: MediaKind) -> bool {
        matches!(kind, MediaKind::Image | MediaKind::Video)
    }

    async fn stream_chat(
        &self,
        request: &ChatRequest,
        on_delta: DeltaSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let operation = match request.mode {
            ModelMode::Chat => "chat/completions",
            ModelMode::Completion => "completions",
        };
        let (url, model) = self.address(operation, &request.model);
        let stream = request.stream && !body::is_whole_sound(&request.params);
        let body = body::write(request, model, (stream, self.stream_usage))?.into();
        let label = request.label.as_str();
        let mut reader = ReplyReader::new(label, Chunks::of(&request.params), on_delta);
        self.api.converse(&Post { label, url, body, framing: Framing::Sse, stream }, &mut reader).await?;
        Ok(reader.into_reply())
    }

    async fn embed(&self, label: &str, model: &str, texts: &[String]) -> Result<Embeddings, ModelError> {
        let (url, model) = self.address("embeddings", model);
        let answer = self.api.ask(label, url, &vectors::embed_body(model, texts)).await?;
        vectors::read_embeddings(label, &answer, texts.len())
    }

    async fn rerank(
        &self,
        label: &str,
        model: &str,
        query: &str,
        documents: &[String],
        top_n: usize,
    ) -> Result<Ranking, ModelError> {
        if let Addresses::Azure(_) = self.addresses {
            return Err(ModelError::lacking(label, model, "rerank"));
        }
        let (url, model) = self.address("rerank", model);
        let body = vectors::rerank_body(model, query, documents, top_n);
        let answer = self.api.ask(label, url, &body).await?;
        vectors::read_ranking(label, &answer, documents.len(), top_n)
    }

    async fn moderate(&self, label: &str, model: &str, text: &str) -> Result<bool, ModelError> {
        if let Addresses::Azure(_) = self.addresses {
            return Err(ModelError::lacking(label, model, "moderation"));
        }
        let (url, model) = self.address("moderations", model);
        let answer = self.api.ask(label, url, &moderations::body(model, text)).await?;
        moderations::read(label, &answer)
    }

    async fn transcribe(
        &self,
        label: &str,
        model: &str,
        recording: &Recording,
    ) -> Result<Transcript, ModelError> {
        let (url, model) = self.address("audio/transcriptions", model);
        let (content_type, body) = speech::form(model, recording);
        let post = Post { label, url, body, framing: Framing::Sse, stream: false };
        let answer = self.api.fetch(&post, &content_type, VALUE_BYTES_MAX).await?;
        let unreadable = || {
            let error = ModelError::new(label, ErrorClass::ServerUnavailable, "the answer has no text");
            ModelError { detail: Detail::Unreadable, ..error }
        };
        speech::transcript(&answer).ok_or_else(unreadable)
    }

    async fn speak(&self, label: &str, model: &str, spoken: &Spoken<'_>) -> Result<Bytes, ModelError> {
        let (url, model) = self.address("audio/speech", model);
        let body = speech::body(model, spoken).to_string().into();
        let post = Post { label, url, body, framing: Framing::Sse, stream: false };
        let max = usize::try_from(spoken.bytes_max).unwrap_or(usize::MAX);
        self.api.fetch(&post, JSON, max).await
    }
}

#[cfg(test)]
mod tests;
