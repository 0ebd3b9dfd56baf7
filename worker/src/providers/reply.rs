//! A reply, and how it grows: the same for every provider, whatever the objects look like that it comes in.
//!
//! Reasoning that comes apart goes into the text between `<think>` tags, as Dify has it.

use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tidemill_common::limits::VALUE_BYTES_MAX;
use tidemill_common::machine::run::json_size;
use tidemill_common::nodes::llm::message::ToolCall;
use tidemill_common::nodes::llm::usage::Tokens;

use super::errors::{ErrorClass, ModelError};
use super::produced::{Produced, decoded};
use super::source::Source;
use super::tool_calls::{Calls, Fragment};

/// A reply, complete.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelReply {
    /// All pieces of text together.
    pub text: String,
    /// Files that it made, in order. Text from the first of them on was not handed on: where they lie in it is known when they
    /// are kept.
    pub media: Vec<Produced>,
    /// The calls that the model asks for, whole, in its order.
    pub tool_calls: Vec<ToolCall>,
    /// The whole reply in the API's own form, when it has to be sent back just as it is: see `Message::verbatim`.
    pub verbatim: Vec<Json>,
    /// The provider's own word for why the reply ended, such as `stop` or `length`; none when it gave none.
    pub finish_reason: Option<String>,
    /// What the provider counted; where it does not count, nothing or what is estimated.
    pub tokens: Tokens,
    /// They are estimated.
    pub estimated: bool,
    /// From just before the request (of the try that succeeded) to the end of the reply.
    pub latency: Duration,
    /// From just before the request to the first piece of text; none without text, and of a reply that came in one piece.
    pub first_token: Option<Duration>,
    /// What the answer said of the provider's limits.
    pub rate: RateFacts,
}

/// What an answer says of the limits that its caller is under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateFacts {
    /// Requests in a span of time.
    pub requests: RateWindow,
    /// Tokens in a span of time.
    pub tokens: RateWindow,
}

/// One limit; what the answer does not say is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateWindow {
    /// How many there may be.
    pub limit: Option<u64>,
    /// How many are left.
    pub remaining: Option<u64>,
    /// Until all of them are left again, in milliseconds from the answer on.
    pub reset_ms: Option<u64>,
}

/// Takes the pieces of a reply as they arrive, none of them empty.
pub type DeltaSink<'a> = &'a mut (dyn FnMut(&str) + Send);

/// A reply that is growing, over all tries of a call.
pub struct Growing<'a> {
    label: &'a str,
    on_delta: DeltaSink<'a>,
    started: Instant,
    reply: ModelReply,
    calls: Calls,
    /// Sound that comes in pieces, and its format.
    sound: Option<(Vec<u8>, String)>,
    /// Bytes so far, arguments of calls included.
    bytes: usize,
    /// The text stands within a block of reasoning.
    reasoning: bool,
    /// The server said that there is no more.
    done: bool,
    /// It comes in one piece.
    whole: bool,
    handed_on: bool,
}

impl<'a> Growing<'a> {
    /// Nothing yet.
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

    /// A try begins; what the last one brought is forgotten.
    pub fn begin(&mut self) {
        (self.started, self.reply, self.calls) = (Instant::now(), ModelReply::default(), Calls::default());
        (self.bytes, self.reasoning, self.done, self.sound) = (0, false, false, None);
        self.whole = false;
    }

    /// Whether a piece was handed on, in any try.
    pub const fn handed_on(&self) -> bool {
        self.handed_on
    }

    /// The provider's name, for errors.
    pub const fn label(&self) -> &'a str {
        self.label
    }

    /// A piece of what the model says.
    ///
    /// # Errors
    /// The reply has become too large.
    pub fn text(&mut self, text: &str) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        let opening = if std::mem::take(&mut self.reasoning) { "\n</think>" } else { "" };
        self.hand_on(opening, text)
    }

    /// A piece of what the model thinks.
    ///
    /// # Errors
    /// The reply has become too large.
    pub fn thought(&mut self, thought: &str) -> Result<(), ModelError> {
        if thought.is_empty() {
            return Ok(());
        }
        let opening = if std::mem::replace(&mut self.reasoning, true) { "" } else { "<think>\n" };
        self.hand_on(opening, thought)
    }

    /// A file that the model made.
    ///
    /// # Errors
    /// The reply has become too large.
    pub fn media(&mut self, file: Produced) -> Result<(), ModelError> {
        if let Source::Bytes(bytes) = &file.source {
            self.room(bytes.len())?;
        }
        if std::mem::take(&mut self.reasoning) {
            self.hand_on("\n</think>", "")?;
        }
        self.reply.media.push(Produced { at: self.reply.text.len(), ..file });
        Ok(())
    }

    /// A piece of sound in base64; all pieces are one file.
    ///
    /// # Errors
    /// It is not base64, or the reply has become too large.
    pub fn sound(&mut self, base64: &str, format: &str) -> Result<(), ModelError> {
        if base64.is_empty() {
            return Ok(());
        }
        let bytes = decoded(base64)?;
        self.room(bytes.len())?;
        self.sound.get_or_insert_with(|| (Vec::new(), format.to_owned())).0.extend_from_slice(&bytes);
        Ok(())
    }

    /// A piece of a call.
    ///
    /// # Errors
    /// It belongs to no call, or the reply has become too large.
    pub fn call(&mut self, fragment: Fragment<'_>) -> Result<(), ModelError> {
        self.room(fragment.id.len() + fragment.name.len() + fragment.arguments.len())?;
        // Else what is said in the next round of an agent would seem to be thought as well.
        if std::mem::take(&mut self.reasoning) {
            self.hand_on("\n</think>", "")?;
        }
        self.calls.take(fragment).map_err(ModelError::value)
    }

    /// Keeps a part of the reply as the API has it, to be sent back like that.
    ///
    /// # Errors
    /// The reply has become too large.
    pub fn keep(&mut self, part: Json) -> Result<(), ModelError> {
        self.room(json_size(&part))?;
        self.reply.verbatim.push(part);
        Ok(())
    }

    /// The counts so far. Servers that count several times count from the beginning, so the last count holds.
    pub const fn tokens(&mut self) -> &mut Tokens {
        &mut self.reply.tokens
    }

    /// Why the reply ended; the first word holds.
    pub fn finish_reason(&mut self, reason: &str) {
        if !reason.is_empty() && self.reply.finish_reason.is_none() {
            self.reply.finish_reason = Some(reason.to_owned());
        }
    }

    /// The server has said that there is no more.
    pub const fn done(&mut self) {
        self.done = true;
    }

    /// The server answers in one piece.
    pub const fn whole(&mut self) {
        self.whole = true;
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// The reply did not come to its end.
    pub fn end(&mut self, rate: RateFacts) -> Result<(), ModelError> {
        if !self.done && self.reply.finish_reason.is_none() {
            return Err(ModelError::broke_off(self.label));
        }
        if let Some((bytes, format)) = self.sound.take() {
            let file = Produced::sound(bytes.into(), &format);
            self.reply.media.push(Produced { at: self.reply.text.len(), ..file });
        }
        self.reply.latency = self.started.elapsed();
        self.reply.rate = rate;
        self.reply.tool_calls = std::mem::take(&mut self.calls).into_calls();
        Ok(())
    }

    /// The reply, once it came to its end.
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
