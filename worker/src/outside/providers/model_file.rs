//! Pictures, sound and other files in a model's reply, before they are stored.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tidemill_common::nodes::llm::message::MediaKind;

use crate::outside::providers::errors::ModelError;
use crate::outside::providers::source::Source;

/// A file in a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFile {
    /// The position in the reply's text, in bytes.
    pub at: usize,
    pub kind: MediaKind,
    /// The media type; empty if the reply has none.
    pub mime_type: String,
    /// The file extension without a dot; empty if the reply has none.
    pub format: String,
    pub source: Source,
}

impl ModelFile {
    /// Creates a file from a URL or a `data:` URL.
    ///
    /// # Errors
    /// There is no URL, or its base64 is invalid. The messages are Dify's.
    pub fn at_url(kind: MediaKind, url: &str) -> Result<Self, ModelError> {
        let file = |mime_type: &str, source| Self {
            at: 0,
            kind,
            mime_type: mime_type.to_owned(),
            format: String::new(),
            source,
        };
        if url.is_empty() {
            return Err(ModelError::value("Multimodal output requires either url or base64_data"));
        }
        let Some(rest) = url.strip_prefix("data:") else {
            return Ok(file("", Source::Url(url.to_owned())));
        };
        let (head, data) = rest.split_once(',').ok_or_else(invalid)?;
        let head = head.strip_suffix(";base64").ok_or_else(invalid)?;
        let mime_type = head.split(';').next().unwrap_or_default();
        Ok(file(mime_type, Source::Bytes(decoded(data)?)))
    }

    /// Creates a sound file from bytes.
    pub fn sound(bytes: Bytes, format: &str) -> Self {
        let mime_type = match format {
            "wav" => "audio/wav",
            "mp3" => "audio/mpeg",
            "flac" => "audio/flac",
            "aac" => "audio/aac",
            "opus" => "audio/ogg",
            "pcm16" => "audio/pcm",
            _ => "",
        };
        Self {
            at: 0,
            kind: MediaKind::Audio,
            mime_type: mime_type.to_owned(),
            format: format.to_owned(),
            source: Source::Bytes(bytes),
        }
    }
}

/// Decodes strict base64.
///
/// # Errors
/// Invalid base64, with Dify's message.
pub fn decoded(base64: &str) -> Result<Bytes, ModelError> {
    STANDARD.decode(base64).map(Bytes::from).map_err(|_| invalid())
}

fn invalid() -> ModelError {
    ModelError::value("Multimodal output base64_data is invalid")
}
