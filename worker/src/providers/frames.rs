//! How a stream is cut into the texts of its objects.

use super::sse::StreamError;
use super::{ndjson, sse};

/// The form of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events; `[DONE]` may end them.
    Sse,
    /// An object a line.
    Ndjson,
}

impl Framing {
    /// The media type that is asked for.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Ndjson => "application/x-ndjson",
        }
    }

    /// A decoder at the beginning of a stream.
    pub fn decoder(self) -> Decoder {
        match self {
            Self::Sse => Decoder::Sse(sse::Decoder::default()),
            Self::Ndjson => Decoder::Ndjson(ndjson::Decoder::default()),
        }
    }
}

/// Takes bytes, gives texts.
#[derive(Debug)]
pub enum Decoder {
    /// Of events.
    Sse(sse::Decoder),
    /// Of lines.
    Ndjson(ndjson::Decoder),
}

impl Decoder {
    /// Takes the next bytes, or the end of the stream, and adds every text that is complete to `texts`.
    ///
    /// # Errors
    /// [`StreamError`]; the stream cannot be read on.
    pub fn take(&mut self, bytes: Option<&[u8]>, texts: &mut Vec<String>) -> Result<(), StreamError> {
        match (self, bytes) {
            (Self::Sse(decoder), Some(bytes)) => decoder.feed(bytes, texts),
            (Self::Sse(decoder), None) => decoder.finish(texts),
            (Self::Ndjson(decoder), Some(bytes)) => decoder.feed(bytes, texts),
            (Self::Ndjson(decoder), None) => decoder.finish(texts),
        }
    }
}
