//! A part of the reply of an LLM, as the SDK writes it.

use serde_json::Value as Json;

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chunk {
    pub content: Vec<Piece>,
    pub calls: Vec<CallPiece>,
    /// Prompt and completion. Those of the last part that has them hold.
    pub tokens: Option<(u64, u64)>,
    pub finish_reason: Option<String>,
    /// What must be sent back unchanged with this message.
    pub opaque: Option<Json>,
}

/// A piece of the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// A file.
    File {
        /// `image`, `audio`, `video` or `document`.
        kind: String,
        mime_type: String,
        format: String,
        base64: String,
        url: String,
    },
}

/// A piece of a call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPiece {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// Reads a part.
///
/// # Errors
/// It has no message; in words.
pub fn read(part: &Json) -> Result<Chunk, String> {
    let delta = &part["delta"];
    let message = delta.get("message").filter(|message| message.is_object());
    let message = message.ok_or("a part of the reply has no delta.message")?;
    let usage = &delta["usage"];
    let tokens =
        usage.is_object().then(|| (count(&usage["prompt_tokens"]), count(&usage["completion_tokens"])));
    Ok(Chunk {
        content: content(&message["content"])?,
        calls: message["tool_calls"].as_array().into_iter().flatten().map(call).collect(),
        tokens,
        finish_reason: delta["finish_reason"].as_str().filter(|reason| !reason.is_empty()).map(str::to_owned),
        opaque: message.get("opaque_body").filter(|body| !body.is_null()).cloned(),
    })
}

fn count(value: &Json) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn content(content: &Json) -> Result<Vec<Piece>, String> {
    match content {
        Json::Null => Ok(Vec::new()),
        Json::String(text) => Ok(vec![Piece::Text(text.clone())]),
        Json::Array(items) => items.iter().map(piece).collect(),
        Json::Bool(_) | Json::Number(_) | Json::Object(_) => {
            Err("the content of a part of the reply is neither a text nor a list".into())
        }
    }
}

fn piece(item: &Json) -> Result<Piece, String> {
    let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
    match item["type"].as_str().unwrap_or_default() {
        "text" => Ok(Piece::Text(text("data"))),
        "" => Err("a piece of the content has no type".into()),
        kind => Ok(Piece::File {
            kind: kind.to_owned(),
            mime_type: text("mime_type"),
            format: text("format"),
            base64: text("base64_data"),
            url: text("url"),
        }),
    }
}

fn call(call: &Json) -> CallPiece {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let function = &call["function"];
    CallPiece {
        id: text(&call["id"]),
        name: text(&function["name"]),
        arguments: text(&function["arguments"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_of_the_sdk_are_read() {
        let part = json!({"model": "m", "prompt_messages": [], "system_fingerprint": null, "delta": {
            "index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Hi", "name": null, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\""}},
            ]},
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_price": "0.1", "currency": "USD"},
        }});
        let chunk = read(&part).unwrap();
        assert_eq!(chunk.content, [Piece::Text("Hi".into())]);
        let call = CallPiece { id: "c".into(), name: "f".into(), arguments: "{\"a\"".into() };
        assert_eq!((chunk.calls, chunk.tokens), (vec![call], Some((3, 2))));
        assert_eq!((chunk.finish_reason.as_deref(), chunk.opaque), (Some("stop"), None));

        let image = json!({"type": "image", "format": "png", "base64_data": "AA==", "url": "", "mime_type": "image/png", "detail": "low"});
        let content = json!([{"type": "text", "data": "see"}, image]);
        let part =
            json!({"delta": {"message": {"content": content, "opaque_body": {"a": 1}}, "usage": null}});
        let chunk = read(&part).unwrap();
        assert_eq!(chunk.content.len(), 2);
        assert!(
            matches!(&chunk.content[1], Piece::File { kind, base64, .. } if kind == "image" && base64 == "AA==")
        );
        assert_eq!((chunk.tokens, chunk.opaque), (None, Some(json!({"a": 1}))));
        let empty = read(&json!({"delta": {"message": {"content": null}}})).unwrap();
        assert_eq!(empty, Chunk::default());
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for part in [
            json!({}),
            json!(1),
            json!({"delta": {"message": "x"}}),
            json!({"delta": {"message": {"content": 1}}}),
            json!({"delta": {"message": {"content": [{}]}}}),
        ] {
            assert!(read(&part).is_err(), "{part}");
        }
    }
}
