//! Pictures, sound and other files that a model makes: what a reply says of them, before anybody has kept them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tidemill_common::nodes::llm::message::MediaKind;

use super::errors::ModelError;
use super::source::Source;

/// A file that is part of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Produced {
    /// Bytes of the reply's text before it.
    pub at: usize,
    /// What it is.
    pub kind: MediaKind,
    /// Its media type; empty when the reply does not say.
    pub mime_type: String,
    /// The extension of its name, without a dot; empty when the reply does not say.
    pub format: String,
    /// All of it, or where it lies.
    pub source: Source,
}

impl Produced {
    /// A file at a URL, or in one (`data:`).
    ///
    /// # Errors
    /// It is nowhere, or not in base64; in Dify's words.
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

    /// Sound that came as bytes.
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

/// Bytes out of base64, which must be exact.
///
/// # Errors
/// In Dify's words.
pub fn decoded(base64: &str) -> Result<Bytes, ModelError> {
    STANDARD.decode(base64).map(Bytes::from).map_err(|_| invalid())
}

fn invalid() -> ModelError {
    ModelError::value("Multimodal output base64_data is invalid")
}
