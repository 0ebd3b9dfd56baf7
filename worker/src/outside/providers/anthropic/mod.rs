//! A client of Anthropic's API, `POST {base_url}/v1/messages`.
//!
//! `body` writes the request, `conversation` its conversation, and `blocks` the parts of messages. `events` reads the answer,
//! and `reply_blocks` keeps the parts that must be sent back unchanged. The API has neither embeddings nor rerank.

mod blocks;
mod body;
mod conversation;
mod events;
mod reply_blocks;

use tidemill_common::nodes::llm::message::MediaKind;

use crate::outside::providers::api::{Api, Post};
use crate::outside::providers::frames::Framing;
use crate::outside::providers::reading::ReplyReader;
use crate::outside::providers::{ChatRequest, DeltaSink, ModelError, ModelProvider, ModelReply};

pub use crate::outside::providers::anthropic::events::Events;

/// Anthropic's own address.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// The API version, unless a profile sets another (`api_version`).
pub const VERSION: &str = "2023-06-01";

/// A client of Anthropic.
#[derive(Debug, Clone)]
pub struct Anthropic {
    api: Api,
}

impl Anthropic {
    /// Creates a client of an API.
    pub const fn new(api: Api) -> Self {
        Self { api }
    }
}

/// The base URL without the `/v1` that users append for other APIs.
pub fn endpoint(base_url: &str) -> &str {
    base_url.strip_suffix("/v1").unwrap_or(base_url)
}

#[async_trait::async_trait]
impl ModelProvider for Anthropic {
    fn takes_url(&self, kind: MediaKind) -> bool {
        matches!(kind, MediaKind::Image | MediaKind::Document)
    }

    async fn stream_chat(
        &self,
        request: &ChatRequest,
        on_delta: DeltaSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let written = body::write(request)?;
        let (label, stream) = (request.label.as_str(), request.stream);
        let url = format!("{}/v1/messages", self.api.base_url());
        let events = Events::new(written.answers_with_tool).keeping(written.thinks_with_tools);
        let mut reader = ReplyReader::new(label, events, on_delta);
        let post = Post { label, url, body: written.body.into(), framing: Framing::Sse, stream };
        self.api.converse(&post, &mut reader).await?;
        let mut reply = reader.into_reply();
        // Without reasoning the reply can be written again from its parts.
        if !reply.verbatim.iter().any(reply_blocks::is_thought) {
            reply.verbatim.clear();
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests;
