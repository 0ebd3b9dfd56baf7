//! Messages of a tool's answer, with the kinds of Dify's tools, and their JSON format.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use crate::nodes::Usage;
use crate::nodes::condition::compare::class_name;
use crate::nodes::llm::usage::reported;
use tidemill_base::ids::RunId;
use tidemill_base::value::JsonMap;

/// One message. Files are Dify's file objects.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    Text(String),
    /// A link, or a file presented as a link.
    Link {
        text: String,
        file: Option<Json>,
    },
    /// A stored file, or a file at a URL.
    Image {
        url: String,
        /// The reference of a stored file.
        tool_file_id: Option<String>,
        /// For example `image/png`.
        mime_type: Option<String>,
    },
    /// A file's content.
    Blob {
        bytes: Vec<u8>,
        /// The reference of a stored file; then `bytes` is ignored.
        tool_file_id: Option<String>,
        /// `None` when unknown.
        mime_type: Option<String>,
        filename: Option<String>,
    },
    /// A piece of a file.
    BlobChunk {
        /// Identifies the file.
        id: String,
        bytes: Vec<u8>,
        /// Bytes of the whole file.
        total_length: i64,
        /// True for the last piece.
        end: bool,
        mime_type: Option<String>,
        filename: Option<String>,
    },
    /// A value for the list `json`.
    Json(Json),
    /// An output of the node.
    Variable {
        name: String,
        /// The value, or the next piece of its text.
        value: Json,
        /// True for a piece.
        stream: bool,
    },
    /// A file object in the message's `meta`.
    File(Option<Json>),
    /// The cost of the call, and the sub-workflow run that caused it, if any. It gives no output.
    Spent {
        /// The sub-workflow run.
        run: Option<RunId>,
        usage: Box<Usage>,
    },
    /// The cost of calls that the tool has made through this worker, which are charged already. It gives no output.
    Charged(Box<Usage>),
    /// Logs and passages, which give no output.
    Ignored,
}

impl Message {
    /// Reads `{"type": …}` with its content beside it, or under `message` as in Dify's plugins; details of a file can
    /// be under `meta`.
    ///
    /// # Errors
    /// The missing or invalid field. On Dify these are exceptions that leave the node.
    pub fn from_json(value: &Json) -> Result<Self, String> {
        let Some(outer) = value.as_object() else { return Err("a tool message must be an object".into()) };
        let body = outer.get("message").and_then(Json::as_object).unwrap_or(outer);
        let meta = outer.get("meta").and_then(Json::as_object);
        let about = |names: &[&str]| {
            let places = [meta, Some(body)];
            let mut found =
                places.into_iter().flatten().flat_map(|map| names.iter().filter_map(|n| map.get(*n)));
            found.find_map(Json::as_str).map(str::to_owned)
        };
        let kind = outer.get("type").and_then(Json::as_str).unwrap_or_default();
        let required = |names: &[&str]| {
            let found = names.iter().find_map(|name| body.get(*name));
            found.cloned().ok_or_else(|| format!("a tool message of type {kind} needs `{}`", names[0]))
        };
        let text = || match required(&["text"])? {
            Json::String(text) => Ok(text),
            other => Err(format!("`text` of a tool message must be a text, not {}", class_name(&other))),
        };
        let mime_type = about(&["mime_type", "mimetype"]);
        let filename = about(&["filename"]);
        let tool_file_id = about(&["tool_file_id"]);
        Ok(match kind {
            "text" => Self::Text(text()?),
            "link" => Self::Link { text: text()?, file: meta.and_then(|meta| meta.get("file")).cloned() },
            "image" | "image_link" | "binary_link" => {
                Self::Image { url: about(&["text", "url"]).unwrap_or_default(), tool_file_id, mime_type }
            }
            "blob" if tool_file_id.is_some() => {
                Self::Blob { bytes: Vec::new(), tool_file_id, mime_type, filename }
            }
            "blob" => Self::Blob {
                bytes: bytes(&required(&["blob", "base64"])?)?,
                tool_file_id,
                mime_type,
                filename,
            },
            "blob_chunk" => Self::BlobChunk {
                id: about(&["id"]).unwrap_or_default(),
                bytes: bytes(&required(&["blob", "base64"])?)?,
                total_length: body.get("total_length").and_then(Json::as_i64).unwrap_or(-1),
                end: body.get("end").and_then(Json::as_bool).unwrap_or(false),
                mime_type,
                filename,
            },
            "json" => match required(&["json", "json_object"])? {
                value @ (Json::Object(_) | Json::Array(_)) => Self::Json(value),
                other => {
                    let class = class_name(&other);
                    return Err(format!("`json` of a tool message must be an object or a list, not {class}"));
                }
            },
            "variable" => Self::Variable {
                name: tidemill_base::value::pyrepr::str_of(&required(&["name", "variable_name"])?)
                    .into_owned(),
                value: required(&["value", "variable_value"])?,
                stream: body.get("stream").and_then(Json::as_bool).unwrap_or(false),
            },
            "file" => Self::File(file_of(outer, meta)),
            "usage" => {
                let said = required(&["usage"])?;
                let said = said.as_object().ok_or("`usage` of a tool message must be an object")?;
                Self::Spent { run: None, usage: Box::new(reported(said)) }
            }
            "log" | "retriever_resources" => Self::Ignored,
            other => return Err(format!("unknown tool message {other}")),
        })
    }
}

fn file_of(outer: &JsonMap, meta: Option<&JsonMap>) -> Option<Json> {
    let Some(meta) = meta else { return outer.get("file").map(|file| serde_json::json!({"file": file})) };
    Some(Json::Object(meta.clone()))
}

fn bytes(value: &Json) -> Result<Vec<u8>, String> {
    let text = value.as_str().ok_or("the content of a file must be base64 text")?;
    STANDARD.decode(text).map_err(|error| format!("the content of a file is not base64: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_read_in_both_forms() {
        for (value, message) in [
            (json!({"type": "text", "text": "a"}), Message::Text("a".into())),
            (json!({"type": "text", "message": {"text": "a"}}), Message::Text("a".into())),
            (json!({"type": "json", "json": []}), Message::Json(json!([]))),
            (json!({"type": "json", "message": {"json_object": {"a": 1}}}), Message::Json(json!({"a": 1}))),
            (
                json!({"type": "link", "text": "http://x"}),
                Message::Link { text: "http://x".into(), file: None },
            ),
            (
                json!({"type": "variable", "message": {"variable_name": "v", "variable_value": 1, "stream": false}}),
                Message::Variable { name: "v".into(), value: json!(1), stream: false },
            ),
            (
                json!({"type": "image_link", "message": {"text": "/f/1"}, "meta": {"tool_file_id": "1"}}),
                Message::Image { url: "/f/1".into(), tool_file_id: Some("1".into()), mime_type: None },
            ),
            (
                json!({"type": "blob", "base64": "YQ==", "meta": {"mime_type": "text/plain", "filename": "a.txt"}}),
                Message::Blob {
                    bytes: b"a".to_vec(),
                    tool_file_id: None,
                    mime_type: Some("text/plain".into()),
                    filename: Some("a.txt".into()),
                },
            ),
            (
                json!({"type": "blob_chunk", "message": {"id": "c", "blob": "YQ==", "total_length": 2, "end": false}}),
                Message::BlobChunk {
                    id: "c".into(),
                    bytes: b"a".to_vec(),
                    total_length: 2,
                    end: false,
                    mime_type: None,
                    filename: None,
                },
            ),
            (json!({"type": "file"}), Message::File(None)),
            (json!({"type": "log", "message": {"label": "x"}}), Message::Ignored),
        ] {
            assert_eq!(Message::from_json(&value), Ok(message), "{value}");
        }
    }

    #[test]
    fn an_invalid_message_says_which_field_is_missing() {
        for (value, reason) in [
            (json!("text"), "a tool message must be an object"),
            (json!({"type": "dance"}), "unknown tool message dance"),
            (json!({"type": "text"}), "a tool message of type text needs `text`"),
            (json!({"type": "text", "text": 5}), "`text` of a tool message must be a text, not int"),
            (json!({"type": "link", "text": null}), "`text` of a tool message must be a text, not NoneType"),
            (
                json!({"type": "json", "json": true}),
                "`json` of a tool message must be an object or a list, not bool",
            ),
            (json!({"type": "blob", "base64": "?"}), "the content of a file is not base64"),
        ] {
            let found = Message::from_json(&value).unwrap_err();
            assert!(found.starts_with(reason), "{found}");
        }
    }
}
