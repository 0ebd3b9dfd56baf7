//! Writes files as parts of a message.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::message::MediaKind;

use crate::outside::providers::media::{Media, Source};
use crate::outside::providers::{ErrorClass, ModelError};

/// The part of a file. Documents and sound can only be sent as bytes; video uses the format common among vendors.
pub(super) fn part(label: &str, media: &Media) -> Result<Json, ModelError> {
    match media.kind {
        MediaKind::Image => Ok(
            json!({"type": "image_url", "image_url": {"url": media.url_or_data(), "detail": media.detail}}),
        ),
        MediaKind::Video => Ok(json!({"type": "video_url", "video_url": {"url": media.url_or_data()}})),
        MediaKind::Audio => Ok(json!({
            "type": "input_audio",
            "input_audio": {"data": bytes_of(label, media)?, "format": audio_format(media)}
        })),
        MediaKind::Document => {
            bytes_of(label, media)?;
            let file = json!({"filename": media.filename, "file_data": media.url_or_data()});
            Ok(json!({"type": "file", "file": file}))
        }
    }
}

fn bytes_of(label: &str, media: &Media) -> Result<String, ModelError> {
    match &media.source {
        Source::Bytes(_) => Ok(media.base64()),
        Source::Url(_) => {
            let cause = format!("the file {} cannot be sent as a URL", media.filename);
            Err(ModelError::new(label, ErrorClass::BadRequest, &cause))
        }
    }
}

/// The API's name of a sound format.
fn audio_format(media: &Media) -> &str {
    match media.mime_type.as_str() {
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        _ => &media.format,
    }
}
