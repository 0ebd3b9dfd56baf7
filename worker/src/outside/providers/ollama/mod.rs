//! A client of Ollama's native API: `POST {base_url}/api/chat` and `/api/embed`. (Its OpenAI-compatible API cannot set
//! the context window, and silently cuts longer prompts.)
//!
//! `body` writes the request, `lines` reads the answer. There is no rerank.

mod body;
mod lines;

use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::message::MediaKind;
use tidemill_common::nodes::llm::usage::Tokens;

use crate::outside::providers::api::{Api, Post};
use crate::outside::providers::frames::Framing;
use crate::outside::providers::reading::ReplyReader;
use crate::outside::providers::{
    ChatRequest, DeltaSink, Embeddings, ErrorClass, ModelError, ModelProvider, ModelReply,
};

pub use crate::outside::providers::ollama::lines::Lines;

/// Ollama's default address.
pub const BASE_URL: &str = "http://127.0.0.1:11434";

/// A client of Ollama.
#[derive(Debug, Clone)]
pub struct Ollama {
    api: Api,
}

impl Ollama {
    /// Creates a client of an API.
    pub const fn new(api: Api) -> Self {
        Self { api }
    }
}

/// The base URL without the `/v1` or `/api` that users often append.
pub fn endpoint(base_url: &str) -> &str {
    ["/v1", "/api"].iter().find_map(|end| base_url.strip_suffix(end)).unwrap_or(base_url)
}

#[async_trait::async_trait]
impl ModelProvider for Ollama {
    fn takes_url(&self, _: MediaKind) -> bool {
        false
    }

    async fn stream_chat(
        &self,
        request: &ChatRequest,
        on_delta: DeltaSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let body = body::write(request)?.into();
        let (label, stream) = (request.label.as_str(), request.stream);
        let url = format!("{}/api/chat", self.api.base_url());
        let mut reader = ReplyReader::new(label, Lines, on_delta);
        self.api.converse(&Post { label, url, body, framing: Framing::Ndjson, stream }, &mut reader).await?;
        Ok(reader.into_reply())
    }

    async fn embed(&self, label: &str, model: &str, texts: &[String]) -> Result<Embeddings, ModelError> {
        let url = format!("{}/api/embed", self.api.base_url());
        let body = json!({"model": model, "input": texts, "truncate": true});
        let answer = self.api.ask(label, url, &body).await?;
        let vectors = answer.get("embeddings").cloned().unwrap_or(Json::Null);
        let vectors: Vec<Vec<f32>> = serde_json::from_value(vectors).unwrap_or_default();
        if vectors.len() != texts.len() {
            let cause = format!("the answer holds {} vectors of {} texts", vectors.len(), texts.len());
            return Err(ModelError::new(label, ErrorClass::BadRequest, &cause));
        }
        let prompt = answer.get("prompt_eval_count").and_then(Json::as_u64).unwrap_or(0);
        Ok((vectors, Tokens { prompt, completion: 0 }))
    }
}

#[cfg(test)]
mod tests;
