//! Splits a stream into the texts of its objects.

use tidemill_common::sse::{self, SseError};

use crate::outside::providers::ndjson;

/// The format of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events; `[DONE]` may end them.
    Sse,
    /// One object per line.
    Ndjson,
}

impl Framing {
    /// The media type to request.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Ndjson => "application/x-ndjson",
        }
    }

    /// Creates a decoder for a new stream.
    pub fn decoder(self) -> Decoder {
        match self {
            Self::Sse => Decoder::Sse(sse::Decoder::default()),
            Self::Ndjson => Decoder::Ndjson(ndjson::Decoder::default()),
        }
    }
}

/// Turns bytes into texts.
#[derive(Debug)]
pub enum Decoder {
    Sse(sse::Decoder),
    Ndjson(ndjson::Decoder),
}

impl Decoder {
    /// Takes the next bytes, or `None` at the end, and adds every complete text to `texts`.
    ///
    /// # Errors
    /// [`SseError`]; the stream cannot be continued.
    pub fn take(&mut self, bytes: Option<&[u8]>, texts: &mut Vec<String>) -> Result<(), SseError> {
        match (self, bytes) {
            (Self::Sse(decoder), Some(bytes)) => decoder.push(bytes, texts),
            (Self::Sse(decoder), None) => decoder.finish(texts),
            (Self::Ndjson(decoder), Some(bytes)) => decoder.feed(bytes, texts),
            (Self::Ndjson(decoder), None) => decoder.finish(texts),
        }
    }
}
