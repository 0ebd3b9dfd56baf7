//! The messages of a tool. Blobs come in pieces and are put together here, within a limit.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

/// Most blobs of a session that are not complete.
const OPEN_BLOBS_MAX: usize = 32;

/// A message of a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    Text(String),
    Json(Json),
    Link(String),
    /// The address of an image.
    Image(String),
    ImageLink(String),
    Blob {
        bytes: Vec<u8>,
        meta: Json,
    },
    /// A file that is known to the host, as its description.
    File {
        meta: Json,
    },
    /// A variable. With `is_piece` its value is to be added to the text so far.
    Variable {
        name: String,
        value: Json,
        is_piece: bool,
    },
    Log(Json),
    RetrieverResources(Json),
}

/// A message that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message of the tool cannot be used: {0}")]
pub struct MessageError(String);

impl MessageError {
    pub(crate) fn new(reason: String) -> Self {
        Self(reason)
    }
}

/// Understands the messages of one session.
#[derive(Debug)]
pub struct Messages {
    bytes_max: usize,
    bytes: usize,
    open: HashMap<String, Vec<u8>>,
}

impl Messages {
    /// For a session whose blobs have this many bytes at most.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, open: HashMap::new() }
    }

    /// Understands one part of the result. `None` for a piece of a blob that is not complete.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn read(&mut self, mut part: Json) -> Result<Option<Message>, MessageError> {
        let kind = part["type"].as_str().unwrap_or_default().to_owned();
        let meta = part.get_mut("meta").map(Json::take).unwrap_or_default();
        let mut inner = part.get_mut("message").map(Json::take).unwrap_or_default();
        let text = |inner: &Json| match inner["text"].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(wrong(&kind, "it has no text")),
        };
        let message = match kind.as_str() {
            "text" => Message::Text(text(&inner)?),
            "link" => Message::Link(text(&inner)?),
            "image" => Message::Image(text(&inner)?),
            "image_link" => Message::ImageLink(text(&inner)?),
            "json" => Message::Json(inner.get_mut("json_object").map(Json::take).unwrap_or_default()),
            "file" => Message::File { meta },
            "log" => Message::Log(inner),
            "retriever_resources" => Message::RetrieverResources(inner),
            "blob" => {
                let bytes = decoded(&kind, &inner)?;
                self.count(bytes.len())?;
                Message::Blob { bytes, meta }
            }
            "blob_chunk" => return self.piece(&inner, meta),
            "variable" => {
                let name = inner["variable_name"].as_str().unwrap_or_default().to_owned();
                if name.is_empty() {
                    return Err(wrong(&kind, "it has no name"));
                }
                let is_piece = inner["stream"].as_bool().unwrap_or(false);
                let value = inner.get_mut("variable_value").map(Json::take).unwrap_or_default();
                Message::Variable { name, value, is_piece }
            }
            other => return Err(MessageError(format!("its type {other:?} is not known"))),
        };
        Ok(Some(message))
    }

    fn piece(&mut self, inner: &Json, meta: Json) -> Result<Option<Message>, MessageError> {
        let kind = "blob_chunk";
        let id = inner["id"].as_str().ok_or_else(|| wrong(kind, "it has no id"))?;
        let bytes = decoded(kind, inner)?;
        self.count(bytes.len())?;
        if !self.open.contains_key(id) && self.open.len() >= OPEN_BLOBS_MAX {
            return Err(wrong(kind, &format!("more than {OPEN_BLOBS_MAX} blobs are not complete")));
        }
        let whole = self.open.entry(id.to_owned()).or_default();
        whole.extend_from_slice(&bytes);
        if !inner["end"].as_bool().unwrap_or(false) {
            return Ok(None);
        }
        let bytes = self.open.remove(id).unwrap_or_default();
        let total = inner["total_length"].as_u64();
        if total.is_some_and(|total| total != bytes.len() as u64) {
            return Err(wrong(kind, &format!("it has {} bytes and states another number", bytes.len())));
        }
        Ok(Some(Message::Blob { bytes, meta }))
    }

    fn count(&mut self, bytes: usize) -> Result<(), MessageError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.bytes_max {
            return Err(MessageError(format!(
                "its blobs have more than {} bytes (blob_bytes_max)",
                self.bytes_max
            )));
        }
        Ok(())
    }
}

impl Message {
    /// The message as JSON for people and programs. The bytes of a blob are only counted.
    pub fn as_json(&self) -> Json {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Json(value) => json!({"type": "json", "json": value}),
            Self::Link(text) => json!({"type": "link", "link": text}),
            Self::Image(text) => json!({"type": "image", "image": text}),
            Self::ImageLink(text) => json!({"type": "image_link", "image_link": text}),
            Self::Blob { bytes, meta } => json!({"type": "blob", "bytes": bytes.len(), "meta": meta}),
            Self::File { meta } => json!({"type": "file", "meta": meta}),
            Self::Variable { name, value, is_piece } => {
                json!({"type": "variable", "name": name, "value": value, "stream": is_piece})
            }
            Self::Log(value) => json!({"type": "log", "log": value}),
            Self::RetrieverResources(value) => json!({"type": "retriever_resources", "resources": value}),
        }
    }
}

fn decoded(kind: &str, inner: &Json) -> Result<Vec<u8>, MessageError> {
    let text = inner["blob"].as_str().ok_or_else(|| wrong(kind, "it has no bytes"))?;
    STANDARD.decode(text).map_err(|_| wrong(kind, "its bytes are not base64"))
}

fn wrong(kind: &str, reason: &str) -> MessageError {
    MessageError(format!("{kind}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(id: &str, text: &str, end: bool) -> Json {
        let blob = STANDARD.encode(text);
        json!({
            "type": "blob_chunk", "meta": {"mime_type": "text/plain"},
            "message": {"id": id, "sequence": 0, "total_length": 4, "blob": blob, "end": end},
        })
    }

    #[test]
    fn messages_are_understood() {
        let mut messages = Messages::new(100);
        let cases = [
            (json!({"type": "text", "message": {"text": "a"}}), Message::Text("a".into())),
            (json!({"type": "json", "message": {"json_object": [1]}}), Message::Json(json!([1]))),
            (
                json!({"type": "variable", "message": {"variable_name": "v", "variable_value": 1}}),
                Message::Variable { name: "v".into(), value: json!(1), is_piece: false },
            ),
            (
                json!({"type": "blob", "message": {"blob": "YQ=="}}),
                Message::Blob { bytes: b"a".into(), meta: Json::Null },
            ),
        ];
        for (part, expected) in cases {
            assert_eq!(messages.read(part.clone()).unwrap(), Some(expected), "{part}");
        }
        for part in [
            json!({"type": "text"}),
            json!({"type": "new"}),
            json!(1),
            json!({"type": "blob", "message": {"blob": "!"}}),
        ] {
            assert!(messages.read(part.clone()).is_err(), "{part}");
        }
    }

    #[test]
    fn pieces_of_blobs_are_put_together_within_the_limit() {
        let mut messages = Messages::new(10);
        assert_eq!(messages.read(piece("a", "ab", false)).unwrap(), None);
        assert_eq!(messages.read(piece("b", "xy", false)).unwrap(), None);
        assert_eq!(messages.read(piece("a", "cd", false)).unwrap(), None);
        let whole = Message::Blob { bytes: b"abcd".into(), meta: json!({"mime_type": "text/plain"}) };
        assert_eq!(messages.read(piece("a", "", true)).unwrap(), Some(whole));
        assert!(messages.read(piece("b", "", true)).is_err(), "two bytes instead of four");
        assert!(
            messages.read(piece("c", "12345", false)).unwrap_err().to_string().contains("blob_bytes_max")
        );
    }

    proptest::proptest! {
        #[test]
        fn however_a_blob_is_cut_it_comes_out_whole(bytes in proptest::collection::vec(0_u8..=255, 0..200), size in 1_usize..40) {
            let mut messages = Messages::new(1000);
            let part = |blob: &[u8], end: bool| json!({"type": "blob_chunk", "message":
                {"id": "x", "total_length": bytes.len(), "blob": STANDARD.encode(blob), "end": end}});
            for cut in bytes.chunks(size) {
                proptest::prop_assert_eq!(messages.read(part(cut, false)).unwrap(), None);
            }
            let whole = messages.read(part(&[], true)).unwrap();
            proptest::prop_assert_eq!(whole, Some(Message::Blob { bytes, meta: Json::Null }));
        }
    }
}
