//! Reads the events of a stream, or the one message of an answer without a stream, into a reply.

use serde_json::Value as Json;

use crate::outside::providers::anthropic::reply_blocks::ReplyBlocks;
use crate::outside::providers::errors::ModelError;
use crate::outside::providers::params::{ANSWER, text};
use crate::outside::providers::reading::Dialect;
use crate::outside::providers::reply::Growing;
use crate::outside::providers::tool_calls::Fragment;

/// Reads the events. Unknown events are ignored, as the API requires.
#[derive(Debug, Clone)]
pub struct Events {
    /// True when the call of the tool [`ANSWER`] is the answer.
    answers_with_tool: bool,
    /// The index of the answer's block.
    answer: Option<u64>,
    /// The indices of calls. Input of the API's own tools arrives in the same kind of pieces.
    calls: Vec<u64>,
    /// The indices of calls without arguments so far.
    without_arguments: Vec<u64>,
    counted: Counted,
    /// The original blocks, if they must be sent back.
    reply_blocks: Option<ReplyBlocks>,
}

impl Events {
    /// Creates a reader before the first event.
    pub const fn new(answers_with_tool: bool) -> Self {
        Self {
            answers_with_tool,
            answer: None,
            calls: Vec::new(),
            without_arguments: Vec::new(),
            counted: Counted { input: 0, written: 0, read: 0 },
            reply_blocks: None,
        }
    }

    /// Also keeps the original blocks if `keeps` is true.
    #[must_use]
    pub(in crate::outside::providers) fn keeping(self, keeps: bool) -> Self {
        Self { reply_blocks: keeps.then(ReplyBlocks::default), ..self }
    }

    fn begin_block(&mut self, index: u64, block: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
        if let Some(reply_blocks) = &mut self.reply_blocks {
            reply_blocks.begin(index, block);
        }
        match text(block, "type") {
            "text" => reply.text(text(block, "text")),
            "thinking" => reply.thought(text(block, "thinking")),
            "tool_use" => self.begin_call(index, block, reply),
            // Redacted reasoning, and tools that the server runs itself.
            _ => Ok(()),
        }
    }

    fn begin_call(&mut self, index: u64, block: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
        let input = block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()));
        let arguments = input.map(Json::to_string).unwrap_or_default();
        if arguments.is_empty() {
            self.without_arguments.push(index);
        }
        if self.answers_with_tool && text(block, "name") == ANSWER {
            self.answer = Some(index);
            return reply.text(&arguments);
        }
        self.calls.push(index);
        let (id, name) = (text(block, "id"), text(block, "name"));
        reply.call(Fragment { index: Some(index), id, name, arguments: &arguments })
    }

    fn add_to_block(&mut self, index: u64, delta: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
        if let Some(reply_blocks) = &mut self.reply_blocks {
            reply_blocks.add(index, delta);
        }
        match text(delta, "type") {
            "text_delta" => reply.text(text(delta, "text")),
            "thinking_delta" => reply.thought(text(delta, "thinking")),
            "input_json_delta" => self.add_arguments(index, text(delta, "partial_json"), reply),
            // Signatures, which are kept, and citations.
            _ => Ok(()),
        }
    }

    fn add_arguments(
        &mut self,
        index: u64,
        arguments: &str,
        reply: &mut Growing<'_>,
    ) -> Result<(), ModelError> {
        if arguments.is_empty() {
            return Ok(());
        }
        self.without_arguments.retain(|other| *other != index);
        if self.answer == Some(index) {
            return reply.text(arguments);
        }
        if !self.calls.contains(&index) {
            return Ok(());
        }
        reply.call(Fragment { index: Some(index), arguments, ..Fragment::default() })
    }

    /// A call without arguments gets an empty JSON object.
    fn end_block(&mut self, index: u64, reply: &mut Growing<'_>) -> Result<(), ModelError> {
        if let Some(block) = self.reply_blocks.as_mut().and_then(|reply_blocks| reply_blocks.end(index)) {
            reply.keep(block)?;
        }
        if self.without_arguments.contains(&index) { self.add_arguments(index, "{}", reply) } else { Ok(()) }
    }

    fn stop_reason(&self, holder: &Json, reply: &mut Growing<'_>) {
        let reason = text(holder, "stop_reason");
        // The tool is internal, so for the workflow the answer simply ended.
        let ours = self.answer.is_some() && reason == "tool_use";
        reply.finish_reason(if ours { "end_turn" } else { reason });
    }
}

impl Dialect for Events {
    fn begin(&mut self) {
        *self = Self::new(self.answers_with_tool).keeping(self.reply_blocks.is_some());
    }

    fn take(&mut self, object: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
        let index = object.get("index").and_then(Json::as_u64).unwrap_or(0);
        let part = |key: &str| object.get(key).unwrap_or(&Json::Null);
        match text(object, "type") {
            "error" => return Err(ModelError::in_stream(reply.label(), object)),
            "message_start" => self.counted.count(part("message"), reply),
            "content_block_start" => self.begin_block(index, part("content_block"), reply)?,
            "content_block_delta" => self.add_to_block(index, part("delta"), reply)?,
            "content_block_stop" => self.end_block(index, reply)?,
            "message_delta" => {
                self.counted.count(object, reply);
                self.stop_reason(part("delta"), reply);
            }
            "message_stop" => reply.done(),
            "message" => {
                self.counted.count(object, reply);
                for (index, block) in (0..).zip(part("content").as_array().into_iter().flatten()) {
                    self.begin_block(index, block, reply)?;
                    self.end_block(index, reply)?;
                }
                self.stop_reason(object, reply);
                reply.done();
            }
            _ => {}
        }
        Ok(())
    }
}

/// Input tokens by origin. Tokens read from or written to the cache count as input too.
#[derive(Debug, Clone, Copy)]
struct Counted {
    input: u64,
    written: u64,
    read: u64,
}

impl Counted {
    /// Updates the counts. Each reported count covers the whole reply, so the last one holds; a missing or null count
    /// stays as it was.
    fn count(&mut self, holder: &Json, reply: &mut Growing<'_>) {
        let usage = holder.get("usage").unwrap_or(&Json::Null);
        let number = |key: &str| usage.get(key).and_then(Json::as_u64);
        self.input = number("input_tokens").unwrap_or(self.input);
        self.written = number("cache_creation_input_tokens").unwrap_or(self.written);
        self.read = number("cache_read_input_tokens").unwrap_or(self.read);
        reply.tokens().prompt = self.input.saturating_add(self.written).saturating_add(self.read);
        if let Some(output) = number("output_tokens") {
            reply.tokens().completion = output;
        }
    }
}
