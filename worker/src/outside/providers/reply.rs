//! A growing reply, the same for every provider.
//!
//! Reasoning that arrives separately goes into the text between `<think>` tags, as in Dify.

use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tidemill_common::limits::VALUE_BYTES_MAX;
use tidemill_common::machine::state::run::json_size;
use tidemill_common::nodes::llm::message::ToolCall;
use tidemill_common::nodes::llm::usage::Tokens;

use crate::outside::providers::errors::{ErrorClass, ModelError};
use crate::outside::providers::model_file::{ModelFile, decoded};
use crate::outside::providers::source::Source;
use crate::outside::providers::tool_calls::{Calls, Fragment};

/// A complete reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelReply {
    /// The whole text.
    pub text: String,
    /// Files the model made, in order. Text from the first file on was not passed on, because the files' addresses in
    /// it are known only when they are stored.
    pub media: Vec<ModelFile>,
    /// The complete tool calls, in the model's order.
    pub tool_calls: Vec<ToolCall>,
    /// The whole reply in the API's form, if it must be sent back unchanged; see `Message::verbatim`.
    pub verbatim: Vec<Json>,
    /// The provider's finish reason, such as `stop` or `length`; `None` if it gave none.
    pub finish_reason: Option<String>,
    /// The provider's counts; if it does not count, zero or an estimate.
    pub tokens: Tokens,
    /// True if the tokens are estimated.
    pub estimated: bool,
    /// Time from just before the successful request to the end of the reply.
    pub latency: Duration,
    /// Time from just before the request to the first piece of text. `None` without text or for a reply in one piece.
    pub first_token: Option<Duration>,
    /// The provider's limits as reported by the answer.
    pub rate: RateFacts,
}

/// The rate limits that an answer reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateFacts {
    /// Limit of requests per time span.
    pub requests: RateWindow,
    /// Limit of tokens per time span.
    pub tokens: RateWindow,
}

/// One limit; unreported values are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateWindow {
    pub limit: Option<u64>,
    pub remaining: Option<u64>,
    /// Milliseconds from the answer until the limit is fully reset.
    pub reset_ms: Option<u64>,
}

/// Receives the pieces of a reply as they arrive; none is empty.
pub type DeltaSink<'a> = &'a mut (dyn FnMut(&str) + Send);

/// A growing reply, over all tries of a call.
pub struct Growing<'a> {
    label: &'a str,
    on_delta: DeltaSink<'a>,
    started: Instant,
    reply: ModelReply,
    calls: Calls,
    /// The bytes of streamed sound, and its format.
    sound: Option<(Vec<u8>, String)>,
    /// Bytes so far, including arguments of calls.
    bytes: usize,
    /// True inside a block of reasoning.
    reasoning: bool,
    /// True when the server marked the end.
    done: bool,
    /// True for an answer in one piece.
    whole: bool,
    handed_on: bool,
}

impl<'a> Growing<'a> {
    /// Creates an empty reply.
    pub fn new(label: &'a str, on_delta: DeltaSink<'a>) -> Self {
        Self {
            label,
            on_delta,
            started: Instant::now(),
            reply: ModelReply::default(),
            calls: Calls::default(),
            sound: None,
            bytes: 0,
            reasoning: false,
            done: false,
            whole: false,
            handed_on: false,
        }
    }

    /// Starts a try and drops the result of the last one.
    pub fn begin(&mut self) {
        (self.started, self.reply, self.calls) = (Instant::now(), ModelReply::default(), Calls::default());
        (self.bytes, self.reasoning, self.done, self.sound) = (0, false, false, None);
        self.whole = false;
    }

    /// Returns true if any try passed a piece on.
    pub const fn handed_on(&self) -> bool {
        self.handed_on
    }

    /// The provider's name, for errors.
    pub const fn label(&self) -> &'a str {
        self.label
    }

    /// Adds a piece of text.
    ///
    /// # Errors
    /// The reply is too large.
    pub fn text(&mut self, text: &str) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        let opening = if std::mem::take(&mut self.reasoning) { "\n</think>" } else { "" };
        self.hand_on(opening, text)
    }

    /// Adds a piece of reasoning.
    ///
    /// # Errors
    /// The reply is too large.
    pub fn thought(&mut self, thought: &str) -> Result<(), ModelError> {
        if thought.is_empty() {
            return Ok(());
        }
        let opening = if std::mem::replace(&mut self.reasoning, true) { "" } else { "<think>\n" };
        self.hand_on(opening, thought)
    }

    /// Adds a file that the model made.
    ///
    /// # Errors
    /// The reply is too large.
    pub fn media(&mut self, file: ModelFile) -> Result<(), ModelError> {
        if let Source::Bytes(bytes) = &file.source {
            self.room(bytes.len())?;
        }
        if std::mem::take(&mut self.reasoning) {
            self.hand_on("\n</think>", "")?;
        }
        self.reply.media.push(ModelFile { at: self.reply.text.len(), ..file });
        Ok(())
    }

    /// Adds a piece of base64 sound; all pieces form one file.
    ///
    /// # Errors
    /// It is not base64, or the reply is too large.
    pub fn sound(&mut self, base64: &str, format: &str) -> Result<(), ModelError> {
        if base64.is_empty() {
            return Ok(());
        }
        let bytes = decoded(base64)?;
        self.room(bytes.len())?;
        self.sound.get_or_insert_with(|| (Vec::new(), format.to_owned())).0.extend_from_slice(&bytes);
        Ok(())
    }

    /// Adds a piece of a tool call.
    ///
    /// # Errors
    /// It belongs to no call, or the reply is too large.
    pub fn call(&mut self, fragment: Fragment<'_>) -> Result<(), ModelError> {
        self.room(fragment.id.len() + fragment.name.len() + fragment.arguments.len())?;
        // Close the reasoning; otherwise the text of an agent's next round would count as reasoning too.
        if std::mem::take(&mut self.reasoning) {
            self.hand_on("\n</think>", "")?;
        }
        self.calls.take(fragment).map_err(ModelError::value)
    }

    /// Keeps a part of the reply in the API's form, to send it back unchanged.
    ///
    /// # Errors
    /// The reply is too large.
    pub fn keep(&mut self, part: Json) -> Result<(), ModelError> {
        self.room(json_size(&part))?;
        self.reply.verbatim.push(part);
        Ok(())
    }

    /// The token counts. Each count of a server covers the whole reply, so the last one holds.
    pub const fn tokens(&mut self) -> &mut Tokens {
        &mut self.reply.tokens
    }

    /// Sets the finish reason; the first one holds.
    pub fn finish_reason(&mut self, reason: &str) {
        if !reason.is_empty() && self.reply.finish_reason.is_none() {
            self.reply.finish_reason = Some(reason.to_owned());
        }
    }

    /// Notes that the server marked the end.
    pub const fn done(&mut self) {
        self.done = true;
    }

    /// Notes that the answer comes in one piece.
    pub const fn whole(&mut self) {
        self.whole = true;
    }

    /// Ends the reply.
    ///
    /// # Errors
    /// The reply is incomplete.
    pub fn end(&mut self, rate: RateFacts) -> Result<(), ModelError> {
        if !self.done && self.reply.finish_reason.is_none() {
            return Err(ModelError::broke_off(self.label));
        }
        if let Some((bytes, format)) = self.sound.take() {
            let file = ModelFile::sound(bytes.into(), &format);
            self.reply.media.push(ModelFile { at: self.reply.text.len(), ..file });
        }
        self.reply.latency = self.started.elapsed();
        self.reply.rate = rate;
        self.reply.tool_calls = std::mem::take(&mut self.calls).into_calls();
        Ok(())
    }

    /// Returns the complete reply.
    pub fn into_reply(self) -> ModelReply {
        self.reply
    }

    fn hand_on(&mut self, opening: &str, text: &str) -> Result<(), ModelError> {
        self.room(opening.len() + text.len())?;
        let from = self.reply.text.len();
        self.reply.text.push_str(opening);
        self.reply.text.push_str(text);
        if !self.whole {
            self.reply.first_token.get_or_insert_with(|| self.started.elapsed());
        }
        if self.reply.media.is_empty() {
            self.handed_on = true;
            (self.on_delta)(&self.reply.text[from..]);
        }
        Ok(())
    }

    fn room(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes += bytes;
        if self.bytes > VALUE_BYTES_MAX {
            let cause = format!("the reply is larger than {VALUE_BYTES_MAX} bytes");
            return Err(ModelError::new(self.label, ErrorClass::BadRequest, &cause));
        }
        Ok(())
    }
}
