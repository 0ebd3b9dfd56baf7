//! What becomes of the objects of an answer: a reply that grows with each, or the one object itself.

use serde_json::Value as Json;

use super::errors::{Detail, ErrorClass, ModelError};
use super::frames::{Decoder, Framing};
use super::reply::{DeltaSink, Growing, ModelReply, RateFacts};
use super::sse::StreamError;

/// Takes the objects of an answer, over all tries of a call.
pub trait Reader: Send {
    /// A try begins; what the last one brought is forgotten.
    fn begin(&mut self);
    /// Takes the next object.
    ///
    /// # Errors
    /// It is an error, or makes no sense here.
    fn take(&mut self, object: &Json) -> Result<(), ModelError>;
    /// The stream has said that there is no more.
    fn done(&mut self);
    /// The answer comes in one piece.
    fn whole(&mut self) {}
    /// Nothing more comes.
    ///
    /// # Errors
    /// Something is missing.
    fn end(&mut self, rate: RateFacts) -> Result<(), ModelError>;
    /// Whether something was handed on that cannot be taken back, in any try.
    fn handed_on(&self) -> bool;
}

/// What the objects of one API say of a reply.
pub trait Dialect: Send {
    /// A try begins.
    fn begin(&mut self);
    /// Adds what an object says.
    ///
    /// # Errors
    /// It is an error, or makes no sense here.
    fn take(&mut self, object: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError>;
}

/// Reads a reply.
pub struct ReplyReader<'a, D> {
    dialect: D,
    reply: Growing<'a>,
}

impl<'a, D: Dialect> ReplyReader<'a, D> {
    /// Nothing is read yet.
    pub fn new(label: &'a str, dialect: D, on_delta: DeltaSink<'a>) -> Self {
        Self { dialect, reply: Growing::new(label, on_delta) }
    }

    /// The reply, once it came to its end.
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

/// Keeps the one object of an answer; null before it came.
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

/// A stream on its way to a reader.
#[derive(Debug)]
pub struct Intake<'a> {
    label: &'a str,
    decoder: Decoder,
    texts: Vec<String>,
}

impl<'a> Intake<'a> {
    /// The beginning of a stream; `label` is the provider's name, for errors.
    pub fn new(label: &'a str, framing: Framing) -> Self {
        Self { label, decoder: framing.decoder(), texts: Vec::new() }
    }

    /// Takes the next bytes, or the end of the stream; true when there is nothing more to read.
    ///
    /// # Errors
    /// The stream cannot be read on, or its reader refuses.
    pub fn take(&mut self, piece: Option<&[u8]>, reader: &mut dyn Reader) -> Result<bool, ModelError> {
        let decoded = self.decoder.take(piece, &mut self.texts);
        let is_over = piece.is_none();
        // What came before something unreadable counts, in whatever pieces the network brought the two.
        for text in self.texts.drain(..) {
            if text.trim() == "[DONE]" {
                reader.done();
                return Ok(true);
            }
            if is_over && is_half(&text) {
                return Err(ModelError::broke_off(self.label));
            }
            if is_over && "[DONE]".starts_with(text.trim()) {
                // The word for it broke off; whether the reply is complete is known without it.
                continue;
            }
            reader.take(&object(self.label, &text)?)?;
        }
        decoded.map_err(|error| match error {
            StreamError::NotUtf8 if is_over => ModelError::broke_off(self.label),
            StreamError::NotUtf8 | StreamError::TooLarge => {
                ModelError::new(self.label, ErrorClass::Connection, &error.to_string())
            }
        })?;
        Ok(is_over)
    }
}

/// Whether a text is the beginning of something in JSON, which is what a stream leaves that breaks off.
fn is_half(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<Json>(text).is_err_and(|error| error.is_eof())
}

/// The object that a text holds.
///
/// # Errors
/// It is not JSON.
pub fn object(label: &str, text: &str) -> Result<Json, ModelError> {
    serde_json::from_str(text).map_err(|_| {
        let shown: String = text.chars().take(80).collect();
        let cause = format!("the reply holds something that is not JSON: {shown}");
        let error = ModelError::new(label, ErrorClass::Connection, &cause);
        ModelError { detail: Detail::Unreadable, ..error }
    })
}
