//! Writes the parts of a message as blocks.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::message::{MediaKind, ToolCall};

use crate::outside::providers::media::{Media, SentMessage, SentPart, Source};
use crate::outside::providers::params::arguments_object;
use crate::outside::providers::{ErrorClass, ModelError};

/// The blocks of a user's or the model's message. The API refuses texts of only whitespace, so they are left out. A
/// message with signed reasoning is sent back unchanged.
pub(super) fn blocks(label: &str, message: &SentMessage) -> Result<Vec<Json>, ModelError> {
    if !message.verbatim.is_empty() {
        return Ok(message.verbatim.clone());
    }
    let mut blocks = Vec::new();
    for part in &message.parts {
        match part {
            SentPart::Text(text) if text.trim().is_empty() => {}
            SentPart::Text(text) => blocks.push(text_block(text)),
            SentPart::Media(media) => blocks.push(media_block(label, media)?),
        }
    }
    blocks.extend(message.tool_calls.iter().map(call_block));
    Ok(blocks)
}

/// The result of a tool, as a block of a user's message.
pub(super) fn result_block(label: &str, message: &SentMessage) -> Result<Json, ModelError> {
    let mut block =
        json!({"type": "tool_result", "tool_use_id": message.tool_call_id.as_deref().unwrap_or_default()});
    let content = blocks(label, message)?;
    if !content.is_empty() {
        block["content"] = Json::Array(content);
    }
    Ok(block)
}

pub(super) fn text_block(text: &str) -> Json {
    json!({"type": "text", "text": text})
}

fn call_block(call: &ToolCall) -> Json {
    json!({
        "type": "tool_use", "id": call.id, "name": call.name, "input": arguments_object(&call.arguments)
    })
}

fn media_block(label: &str, media: &Media) -> Result<Json, ModelError> {
    let refused = |what: &str| {
        let cause = format!("the file {} cannot be sent: the API takes no {what}", media.filename);
        Err(ModelError::new(label, ErrorClass::BadRequest, &cause))
    };
    let kind = match media.kind {
        MediaKind::Image => "image",
        MediaKind::Document => "document",
        MediaKind::Audio => return refused("sound"),
        MediaKind::Video => return refused("videos"),
    };
    let source = match &media.source {
        Source::Url(url) => json!({"type": "url", "url": url}),
        Source::Bytes(bytes) if media.kind == MediaKind::Document && media.mime_type.starts_with("text/") => {
            let text = String::from_utf8_lossy(bytes);
            json!({"type": "text", "media_type": "text/plain", "data": text})
        }
        Source::Bytes(_) if media.kind == MediaKind::Document && media.mime_type != "application/pdf" => {
            return refused(&format!("documents of the type {}", media.mime_type));
        }
        Source::Bytes(_) => {
            json!({"type": "base64", "media_type": media.mime_type, "data": media.base64()})
        }
    };
    let mut block = json!({"type": kind, "source": source});
    if media.kind == MediaKind::Document && !media.filename.is_empty() {
        block["title"] = json!(media.filename);
    }
    Ok(block)
}
