//! Prepares the files of a prompt: turns Dify's file objects into URLs or bytes.
//!
//! A remote file can stay a URL (`multimodal_send = "url"`) if the API accepts URLs. Every other file is fetched,
//! through the guard for all workflow addresses. Each provider writes files in its own format.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value as Json;
use tidemill_common::files::Files;
use tidemill_common::nodes::llm::Role;
use tidemill_common::nodes::llm::message::{FilePart, MediaKind, Message, MessagePart, ToolCall};

use crate::nodes::http_request::send;
use crate::outside::http::Http;
use crate::outside::http::read::{Largest, ReadError, read};
pub use crate::outside::providers::source::Source;
use crate::outside::providers::{ErrorClass, ModelError};

/// A message with loaded files.
#[derive(Debug, Clone, PartialEq)]
pub struct SentMessage {
    pub role: Role,
    /// The content, in order.
    pub parts: Vec<SentPart>,
    /// The model's tool calls; only for an assistant message.
    pub tool_calls: Vec<ToolCall>,
    /// The id of the call that this answers; only for a tool message.
    pub tool_call_id: Option<String>,
    /// As in [`Message::verbatim`]; other APIs ignore it.
    pub verbatim: Vec<Json>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum SentPart {
    Text(String),
    Media(Media),
}

/// A file to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Media {
    pub kind: MediaKind,
    /// The file extension, without the dot.
    pub format: String,
    pub mime_type: String,
    /// The file name; may be empty.
    pub filename: String,
    /// `high` or `low`, for pictures.
    pub detail: String,
    pub source: Source,
}

impl Media {
    /// The bytes in base64; empty for a file sent as a URL.
    pub fn base64(&self) -> String {
        match &self.source {
            Source::Url(_) => String::new(),
            Source::Bytes(bytes) => STANDARD.encode(bytes),
        }
    }

    /// The URL, or the content as a `data:` URL.
    pub fn url_or_data(&self) -> String {
        match &self.source {
            Source::Url(url) => url.clone(),
            Source::Bytes(_) => format!("data:{};base64,{}", self.mime_type, self.base64()),
        }
    }
}

impl SentMessage {
    /// All text parts joined (Dify).
    pub fn joined_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            SentPart::Text(text) => Some(text.as_str()),
            SentPart::Media(_) => None,
        });
        texts.collect()
    }

    /// The files, in order.
    pub fn media(&self) -> impl Iterator<Item = &Media> {
        self.parts.iter().filter_map(|part| match part {
            SentPart::Text(_) => None,
            SentPart::Media(media) => Some(media),
        })
    }
}

/// Access to files.
#[derive(Debug, Clone)]
pub struct FileAccess {
    /// The client for remote files.
    pub http: Arc<Http>,
    /// The storage of this system's files.
    pub files: Arc<dyn Files>,
}

/// Settings for sending the files of one question.
#[derive(Clone, Copy)]
pub struct Sending<'a> {
    /// The provider's name, for errors.
    pub label: &'a str,
    /// Returns true for kinds that may be sent as URLs.
    pub as_url: &'a (dyn Fn(MediaKind) -> bool + Sync),
    /// Most bytes of all fetched files together.
    pub bytes_max: u64,
    /// Access to files; `None` in a program without files.
    pub file_access: Option<&'a FileAccess>,
}

/// Loads the files of all messages.
///
/// # Errors
/// A file without an extension or media type (Dify's `ValueError`), one that cannot be fetched, or too many bytes.
pub async fn load(messages: Vec<Message>, sending: Sending<'_>) -> Result<Vec<SentMessage>, ModelError> {
    let mut left = sending.bytes_max;
    let mut sent = Vec::with_capacity(messages.len());
    for Message { role, parts, tool_calls, tool_call_id, verbatim } in messages {
        let mut loaded = Vec::with_capacity(parts.len());
        for part in parts {
            loaded.push(match part {
                MessagePart::Text(text) => SentPart::Text(text),
                MessagePart::File(file) => SentPart::Media(load_file(&file, sending, &mut left).await?),
            });
        }
        sent.push(SentMessage { role, parts: loaded, tool_calls, tool_call_id, verbatim });
    }
    Ok(sent)
}

async fn load_file(part: &FilePart, sending: Sending<'_>, left: &mut u64) -> Result<Media, ModelError> {
    let text = |key: &str| text_of(part, key);
    let format = text("extension").ok_or_else(|| ModelError::value("Missing file extension"))?;
    let mime_type = text("mime_type").ok_or_else(|| ModelError::value("Missing file mime_type"))?;
    let filename = text("filename").unwrap_or_default();
    // A provider cannot reach a file in this system's storage.
    let source = match remote(part) {
        Some(url) if (sending.as_url)(part.kind) => Source::Url(url.to_owned()),
        remote => {
            let file_source = match remote {
                Some(url) => FileSource::Remote(url),
                None => FileSource::Stored(reference(part).ok_or_else(|| {
                    unreadable(sending.label, filename, "it has neither a URL nor a reference")
                })?),
            };
            let bytes = bytes_of(file_source, sending, *left).await;
            let bytes = bytes.map_err(|reason| unreadable(sending.label, filename, &reason))?;
            *left = left.saturating_sub(bytes.len() as u64);
            Source::Bytes(bytes)
        }
    };
    Ok(Media {
        kind: part.kind,
        format: format.trim_start_matches('.').to_owned(),
        mime_type: mime_type.to_owned(),
        filename: filename.to_owned(),
        detail: part.detail.clone(),
        source,
    })
}

fn text_of<'a>(part: &'a FilePart, key: &str) -> Option<&'a str> {
    part.file.get(key).and_then(Json::as_str).filter(|text| !text.is_empty())
}

/// The URL of a file of another server.
fn remote(part: &FilePart) -> Option<&str> {
    let url = text_of(part, "remote_url").or_else(|| text_of(part, "url"));
    url.filter(|_| text_of(part, "transfer_method") == Some("remote_url"))
}

/// The reference of a file in the storage; `None` for a file of another server.
pub(super) fn reference(part: &FilePart) -> Option<&str> {
    match remote(part) {
        Some(_) => None,
        None => text_of(part, "reference").or_else(|| text_of(part, "related_id")),
    }
}

/// The location of a file.
enum FileSource<'a> {
    Remote(&'a str),
    Stored(&'a str),
}

async fn bytes_of(file_source: FileSource<'_>, sending: Sending<'_>, max: u64) -> Result<Bytes, String> {
    let Some(file_access) = sending.file_access else {
        return Err("this program cannot access files".into());
    };
    let bytes_max = sending.bytes_max;
    let too_large = || format!("the files of the prompt have more than {bytes_max} bytes (files_bytes_max)");
    match file_source {
        FileSource::Stored(reference) => {
            let read = file_access.files.read(reference, max).await;
            read.map_err(|error| match error {
                tidemill_common::files::FilesError::TooLarge { .. } => too_large(),
                other => other.to_string(),
            })
        }
        FileSource::Remote(url) => {
            let mut answer = send::get(url, &file_access.http).await.map_err(|failure| failure.message)?;
            let status = answer.response.status();
            if !status.is_success() {
                return Err(format!("its server answered with status {}", status.as_u16()));
            }
            match read(&mut answer, Largest { text: max, file: max }).await {
                Ok((_, bytes)) => Ok(bytes.into()),
                Err(ReadError::TooLarge { .. }) => Err(too_large()),
                Err(ReadError::Call(error)) => Err(error.to_string()),
            }
        }
    }
}

pub(super) fn unreadable(label: &str, filename: &str, reason: &str) -> ModelError {
    let named = if filename.is_empty() { "without a name" } else { filename };
    let cause = format!("the file {named} cannot be sent: {reason}");
    ModelError::new(label, ErrorClass::BadRequest, &cause)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::outside::providers::ChatRequest;
    use serde_json::json;
    use tidemill_common::config::HttpConfig;
    use tidemill_common::files::Folder;
    use tidemill_common::nodes::llm::ModelMode;
    use tidemill_common::value::JsonMap;

    /// A message with one text.
    pub(crate) fn text(role: Role, text: &str) -> SentMessage {
        let parts = vec![SentPart::Text(text.to_owned())];
        SentMessage { role, parts, tool_calls: Vec::new(), tool_call_id: None, verbatim: Vec::new() }
    }

    /// A file with `bytes`, or at a URL.
    pub(crate) fn media(kind: MediaKind, mime_type: &str, format: &str, url: Option<&str>) -> SentPart {
        SentPart::Media(Media {
            kind,
            format: format.into(),
            mime_type: mime_type.into(),
            filename: format!("name.{format}"),
            detail: "high".into(),
            source: match url {
                Some(url) => Source::Url(url.into()),
                None => Source::Bytes(Bytes::from_static(b"bytes")),
            },
        })
    }

    pub(crate) fn document() -> SentPart {
        media(MediaKind::Document, "application/pdf", "pdf", None)
    }

    /// A streaming question with only these messages.
    pub(crate) fn request(messages: Vec<SentMessage>) -> ChatRequest {
        ChatRequest {
            label: "p".into(),
            model: "m".into(),
            messages,
            params: JsonMap::new(),
            stop: Vec::new(),
            tools: Vec::new(),
            mode: ModelMode::Chat,
            stream: true,
            reasoning: None,
            context_size: None,
        }
    }

    async fn loaded(file: Json, as_url: bool, bytes_max: u64) -> Result<Source, String> {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}", folder.path().display());
        let files = Folder::at(&url).unwrap();
        let run = tidemill_common::ids::RunId::generate(tidemill_common::ids::ShardId(0));
        let reference = files.keep(&run, Bytes::from_static(b"kept")).await.unwrap();
        let Json::Object(mut file) = file else { panic!("a file is an object") };
        if file.get("related_id") == Some(&json!("kept")) {
            file.insert("related_id".into(), json!(reference));
        }
        let http = Http::new(&HttpConfig::default()).unwrap();
        let file_access = FileAccess { http: Arc::new(http), files: Arc::new(files) };
        let part = FilePart { kind: MediaKind::Image, file, detail: "low".into() };
        let message = Message { parts: vec![MessagePart::File(part)], ..Message::text(Role::User, "") };
        let takes = move |_| as_url;
        let sending = Sending { label: "p", as_url: &takes, bytes_max, file_access: Some(&file_access) };
        let sent = load(vec![message], sending).await.map_err(|error| error.message)?;
        let media = sent[0].media().next().unwrap();
        assert_eq!((media.format.as_str(), media.detail.as_str()), ("png", "low"));
        Ok(media.source.clone())
    }

    #[tokio::test]
    async fn a_file_is_sent_as_its_url_or_as_its_bytes() {
        let here = json!({
            "transfer_method": "local_file", "related_id": "kept", "extension": ".png", "mime_type": "image/png",
            "remote_url": "http://inside/kept"
        });
        let there = json!({
            "transfer_method": "remote_url", "remote_url": "https://h/a.png", "extension": ".png",
            "mime_type": "image/png"
        });
        let kept = Source::Bytes(Bytes::from_static(b"kept"));
        assert_eq!(loaded(here.clone(), true, 4).await, Ok(kept.clone()));
        assert_eq!(loaded(here.clone(), false, 4).await, Ok(kept));
        assert_eq!(loaded(there, true, 0).await, Ok(Source::Url("https://h/a.png".into())));
        let error = loaded(here, false, 3).await.unwrap_err();
        assert!(error.contains("more than 3 bytes (files_bytes_max)"), "{error}");
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_sent_says_why() {
        for (file, said) in [
            (json!({"mime_type": "image/png"}), "Missing file extension"),
            (json!({"extension": ".png"}), "Missing file mime_type"),
            (
                json!({"extension": ".png", "mime_type": "m", "filename": "a"}),
                "the file a cannot be sent: it has",
            ),
            (
                json!({
                    "extension": ".png", "mime_type": "m", "transfer_method": "remote_url",
                    "remote_url": "http://127.0.0.1:1/"
                }),
                "blocked by SSRF protection",
            ),
        ] {
            let error = loaded(file.clone(), false, 9).await.unwrap_err();
            assert!(error.contains(said), "{file}: {error}");
        }
    }
}
