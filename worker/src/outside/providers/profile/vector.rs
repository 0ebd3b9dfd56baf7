//! The reply of an embedding model to a question: the vector of the last message, as JSON.

use std::time::Instant;

use tidemill_common::nodes::llm::message::MessagePart;

use crate::outside::providers::profile::model::Question;
use crate::outside::providers::{DeltaSink, Embeddings, ModelReply};

/// The text of the last message.
pub(super) fn text_of(question: &Question) -> String {
    let parts = question.messages.last().map(|message| message.parts.as_slice()).unwrap_or_default();
    let texts = parts.iter().filter_map(|part| match part {
        MessagePart::Text(text) => Some(text.as_str()),
        MessagePart::File(_) => None,
    });
    texts.collect()
}

/// Builds the reply; its text is passed on in one piece.
pub(super) fn reply((vectors, tokens): Embeddings, began: Instant, on_delta: DeltaSink<'_>) -> ModelReply {
    let vector = vectors.into_iter().next().unwrap_or_default();
    let text = serde_json::to_string(&vector).unwrap_or_default();
    let latency = began.elapsed();
    on_delta(&text);
    ModelReply { text, tokens, latency, ..ModelReply::default() }
}
