//! From the events of a stream, or from the one message of an answer without a stream, to a reply.

use serde_json::Value as Json;

use super::kept::Kept;
use crate::providers::errors::ModelError;
use crate::providers::params::{ANSWER, text};
use crate::providers::reading::Dialect;
use crate::providers::reply::Growing;
use crate::providers::tool_calls::Fragment;

/// Reads the events. Those that nobody knows are passed over, as the API asks of its clients.
#[derive(Debug, Clone)]
pub struct Events {
    /// Whether the call of the tool [`ANSWER`] is the answer.
    answers_with_tool: bool,
    /// Number of the block that is the answer.
    answer: Option<u64>,
    /// Numbers of the calls. What the API's own tools are given comes in the same kind of pieces.
    calls: Vec<u64>,
    /// Numbers of the calls whose arguments have not begun.
    without_arguments: Vec<u64>,
    counted: Counted,
    /// The blocks as they came, where they will have to be sent back.
    kept: Option<Kept>,
}

impl Events {
    /// Nothing is read yet.
    pub const fn new(answers_with_tool: bool) -> Self {
        Self {
            answers_with_tool,
            answer: None,
            calls: Vec::new(),
            without_arguments: Vec::new(),
            counted: Counted { input: 0, written: 0, read: 0 },
            kept: None,
        }
    }

    /// The same, that also keeps the blocks as they came.
    #[must_use]
    pub(in crate::providers) fn keeping(self, keeps: bool) -> Self {
        Self { kept: keeps.then(Kept::default), ..self }
    }

    fn begin_block(&mut self, index: u64, block: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
        if let Some(kept) = &mut self.kept {
            kept.begin(index, block);
        }
        match text(block, "type") {
            "text" => reply.text(text(block, "text")),
            "thinking" => reply.thought(text(block, "thinking")),
            "tool_use" => self.begin_call(index, block, reply),
            // What was thought and is not to be seen, and what servers of the API do by themselves.
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
        if let Some(kept) = &mut self.kept {
            kept.add(index, delta);
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

    /// A call without arguments has none, which as JSON is an empty object.
    fn end_block(&mut self, index: u64, reply: &mut Growing<'_>) -> Result<(), ModelError> {
        if let Some(block) = self.kept.as_mut().and_then(|kept| kept.end(index)) {
            reply.keep(block)?;
        }
        if self.without_arguments.contains(&index) { self.add_arguments(index, "{}", reply) } else { Ok(()) }
    }

    fn stop_reason(&self, holder: &Json, reply: &mut Growing<'_>) {
        let reason = text(holder, "stop_reason");
        // The tool was ours, not the workflow's: to the workflow the answer has simply come to its end.
        let ours = self.answer.is_some() && reason == "tool_use";
        reply.finish_reason(if ours { "end_turn" } else { reason });
    }
}

impl Dialect for Events {
    fn begin(&mut self) {
        *self = Self::new(self.answers_with_tool).keeping(self.kept.is_some());
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

/// Tokens in, by where they came from. Tokens that the provider had kept, or keeps now, are tokens in as well.
#[derive(Debug, Clone, Copy)]
struct Counted {
    input: u64,
    written: u64,
    read: u64,
}

impl Counted {
    /// Takes counts over. They are from the beginning on, so the last one holds, of each by itself: what is null or not there is
    /// as it was.
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
