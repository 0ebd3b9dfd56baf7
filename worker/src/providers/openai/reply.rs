//! From the objects of a chat stream to one reply.
//!
//! Servers differ: usage may come last, with the finish, or with every object; a server that does not stream sends one
//! object with `message` where the others have `delta`. All of that ends in the same reply.

use std::time::Instant;

use serde_json::Value as Json;
use tidemill_common::limits::VALUE_BYTES_MAX;
use tidemill_common::nodes::llm::usage::Tokens;

use crate::providers::{DeltaSink, ErrorClass, ModelError, ModelReply};

/// A reply that is growing.
pub(super) struct Assembly<'a> {
    label: &'a str,
    started: Instant,
    reply: ModelReply,
    /// The text stands within a block of reasoning.
    reasoning: bool,
    /// The server said that there is no more.
    done: bool,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(label: &'a str, started: Instant) -> Self {
        Self { label, started, reply: ModelReply::default(), reasoning: false, done: false }
    }

    /// Takes the next object of the stream.
    pub(super) fn take(&mut self, event: &str, on_delta: DeltaSink<'_>) -> Result<(), ModelError> {
        let object: Json = serde_json::from_str(event).map_err(|_| self.not_json(event))?;
        let is_error = object.get("error").is_some_and(|error| !error.is_null());
        if is_error || object.get("object").and_then(Json::as_str) == Some("error") {
            return Err(ModelError::in_stream(self.label, &object));
        }
        if let Some(usage) = object.get("usage").filter(|usage| usage.is_object()) {
            let count = |key: &str| usage.get(key).and_then(Json::as_u64).unwrap_or(0);
            self.reply.tokens =
                Tokens { prompt: count("prompt_tokens"), completion: count("completion_tokens") };
        }
        // Only the first choice counts; some servers send objects without any.
        let first = |choice: &&Json| choice.get("index").and_then(Json::as_u64).unwrap_or(0) == 0;
        let choices = object.get("choices").and_then(Json::as_array);
        let Some(choice) = choices.and_then(|choices| choices.iter().find(first)) else { return Ok(()) };
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.take_delta(delta, on_delta)?;
        }
        let reason = choice.get("finish_reason").and_then(Json::as_str).filter(|reason| !reason.is_empty());
        if self.reply.finish_reason.is_none() {
            self.reply.finish_reason = reason.map(str::to_owned);
        }
        Ok(())
    }

    /// The server has said that there is no more.
    pub(super) fn done(&mut self) {
        self.done = true;
    }

    /// The reply, if it came to its end.
    pub(super) fn finish(mut self) -> Result<ModelReply, ModelError> {
        if !self.done && self.reply.finish_reason.is_none() {
            let cause = "the reply broke off before its end";
            return Err(ModelError::new(self.label, ErrorClass::Connection, cause).passing());
        }
        self.reply.latency = self.started.elapsed();
        Ok(self.reply)
    }

    /// Reasoning that comes in a field of its own goes into the text between `<think>` tags, as Dify has it.
    fn take_delta(&mut self, delta: &Json, on_delta: DeltaSink<'_>) -> Result<(), ModelError> {
        let mut piece = String::new();
        let thought = ["reasoning_content", "reasoning"].iter().find_map(|key| delta.get(key)?.as_str());
        if let Some(thought) = thought.filter(|thought| !thought.is_empty()) {
            if !std::mem::replace(&mut self.reasoning, true) {
                piece.push_str("<think>\n");
            }
            piece.push_str(thought);
        }
        let content = content_text(delta.get("content"));
        if !content.is_empty() {
            if std::mem::take(&mut self.reasoning) {
                piece.push_str("\n</think>");
            }
            piece.push_str(&content);
        }
        if piece.is_empty() {
            return Ok(());
        }
        if self.reply.text.len() + piece.len() > VALUE_BYTES_MAX {
            let cause = format!("the reply is larger than {VALUE_BYTES_MAX} bytes");
            return Err(ModelError::new(self.label, ErrorClass::BadRequest, &cause));
        }
        self.reply.first_token.get_or_insert_with(|| self.started.elapsed());
        self.reply.text.push_str(&piece);
        on_delta(&piece);
        Ok(())
    }

    fn not_json(&self, event: &str) -> ModelError {
        let shown: String = event.chars().take(80).collect();
        let cause = format!("the stream holds a line that is not JSON: {shown}");
        ModelError::new(self.label, ErrorClass::Connection, &cause)
    }
}

/// The text of `content`: plain, or the text parts of a list.
fn content_text(content: Option<&Json>) -> String {
    match content {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) | None => String::new(),
    }
}
