//! Readers of an answer's JSON objects: one builds a growing reply, the other keeps a single object.

use serde_json::Value as Json;
use tidemill_common::sse::SseError;

use crate::outside::providers::errors::{Detail, ErrorClass, ModelError};
use crate::outside::providers::frames::{Decoder, Framing};
use crate::outside::providers::reply::{DeltaSink, Growing, ModelReply, RateFacts};

/// Receives the objects of an answer, over all tries of a call.
pub trait Reader: Send {
    /// Starts a try and drops the result of the last one.
    fn begin(&mut self);
    /// Reads the next object.
    ///
    /// # Errors
    /// The object is an error, or is invalid here.
    fn take(&mut self, object: &Json) -> Result<(), ModelError>;
    /// Notes that the server marked the end of the stream.
    fn done(&mut self);
    /// Notes that the answer comes in one piece.
    fn whole(&mut self) {}
    /// Ends the answer.
    ///
    /// # Errors
    /// The answer is incomplete.
    fn end(&mut self, rate: RateFacts) -> Result<(), ModelError>;
    /// Returns true if any try passed text on, which cannot be taken back.
    fn handed_on(&self) -> bool;
}

/// Interprets the objects of one API.
pub trait Dialect: Send {
    /// Starts a try.
    fn begin(&mut self);
    /// Adds the content of an object to the reply.
    ///
    /// # Errors
    /// The object is an error, or is invalid here.
    fn take(&mut self, object: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError>;
}

/// Reads a reply in one dialect.
pub struct ReplyReader<'a, D> {
    dialect: D,
    reply: Growing<'a>,
}

impl<'a, D: Dialect> ReplyReader<'a, D> {
    /// Creates a reader before the first object.
    pub fn new(label: &'a str, dialect: D, on_delta: DeltaSink<'a>) -> Self {
        Self { dialect, reply: Growing::new(label, on_delta) }
    }

    /// Returns the complete reply.
    pub fn into_reply(self) -> ModelReply {
        self.reply.into_reply()
    }
}

impl<D: Dialect> Reader for ReplyReader<'_, D> {
    fn begin(&mut self) {
        self.dialect.begin();
        self.reply.begin();
    }
    fn take(&mut self, object: &Json) -> Result<(), ModelError> {
        self.dialect.take(object, &mut self.reply)
    }
    fn done(&mut self) {
        self.reply.done();
    }
    fn whole(&mut self) {
        self.reply.whole();
    }
    fn end(&mut self, rate: RateFacts) -> Result<(), ModelError> {
        self.reply.end(rate)
    }
    fn handed_on(&self) -> bool {
        self.reply.handed_on()
    }
}

/// Keeps the only object of an answer; null until it arrives.
#[derive(Debug, Default)]
pub struct ObjectReader(pub Json);

impl Reader for ObjectReader {
    fn begin(&mut self) {
        self.0 = Json::Null;
    }
    fn take(&mut self, object: &Json) -> Result<(), ModelError> {
        self.0 = object.clone();
        Ok(())
    }
    fn done(&mut self) {}
    fn end(&mut self, _: RateFacts) -> Result<(), ModelError> {
        Ok(())
    }
    fn handed_on(&self) -> bool {
        false
    }
}

/// Decodes a stream and passes its objects to a reader.
#[derive(Debug)]
pub struct Intake<'a> {
    label: &'a str,
    decoder: Decoder,
    texts: Vec<String>,
}

impl<'a> Intake<'a> {
    /// Starts a stream; `label` is the provider's name, for errors.
    pub fn new(label: &'a str, framing: Framing) -> Self {
        Self { label, decoder: framing.decoder(), texts: Vec::new() }
    }

    /// Takes the next bytes, or `None` at the end. Returns true when the stream is complete.
    ///
    /// # Errors
    /// The stream is invalid, or the reader returns an error.
    pub fn take(&mut self, piece: Option<&[u8]>, reader: &mut dyn Reader) -> Result<bool, ModelError> {
        let decoded = self.decoder.take(piece, &mut self.texts);
        let is_over = piece.is_none();
        // Objects before an invalid part count, however the network split the bytes.
        for text in self.texts.drain(..) {
            if text.trim() == "[DONE]" {
                reader.done();
                return Ok(true);
            }
            if is_over && is_half(&text) {
                return Err(ModelError::broke_off(self.label));
            }
            if is_over && "[DONE]".starts_with(text.trim()) {
                // The end marker was cut off; the reader knows whether the reply is complete.
                continue;
            }
            reader.take(&object(self.label, &text)?)?;
        }
        decoded.map_err(|error| match error {
            SseError::NotUtf8 if is_over => ModelError::broke_off(self.label),
            SseError::NotUtf8 | SseError::TooLarge { .. } => {
                ModelError::new(self.label, ErrorClass::Connection, &error.to_string())
            }
        })?;
        Ok(is_over)
    }
}

/// Returns true if a text is incomplete JSON, as a broken stream leaves it.
fn is_half(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<Json>(text).is_err_and(|error| error.is_eof())
}

/// Parses a text as JSON.
///
/// # Errors
/// The text is not JSON.
pub fn object(label: &str, text: &str) -> Result<Json, ModelError> {
    serde_json::from_str(text).map_err(|_| {
        let shown: String = text.chars().take(80).collect();
        let cause = format!("the reply holds something that is not JSON: {shown}");
        let error = ModelError::new(label, ErrorClass::Connection, &cause);
        ModelError { detail: Detail::Unreadable, ..error }
    })
}
