//! Adds a part of a plugin's reply to the growing reply.

use serde_json::json;
use tidemill_common::nodes::llm::message::MediaKind;
use tidemill_common::nodes::llm::usage::Tokens;
use tidemill_plugins::model::chunk::{Chunk, Piece};

use super::body::OPAQUE;
use crate::outside::providers::ModelError;
use crate::outside::providers::model_file::{ModelFile, decoded};
use crate::outside::providers::reply::Growing;
use crate::outside::providers::source::Source;
use crate::outside::providers::tool_calls::Fragment;

/// Adds a part.
///
/// # Errors
/// A file in it is damaged, a piece of a call belongs to no call, or the reply is too large.
pub(super) fn take(reply: &mut Growing<'_>, chunk: Chunk) -> Result<(), ModelError> {
    for piece in chunk.content {
        match piece {
            Piece::Text(text) => reply.text(&text)?,
            Piece::File { kind, mime_type, format, base64, url } => {
                let kind = kind_of(&kind)?;
                let file = if base64.is_empty() {
                    ModelFile::at_url(kind, &url)?
                } else {
                    let source = Source::Bytes(decoded(&base64)?);
                    ModelFile { at: 0, kind, mime_type: String::new(), format: String::new(), source }
                };
                let mime_type = if mime_type.is_empty() { file.mime_type } else { mime_type };
                reply.media(ModelFile { mime_type, format, ..file })?;
            }
        }
    }
    for call in &chunk.calls {
        let (id, name, arguments) = (call.id.as_str(), call.name.as_str(), call.arguments.as_str());
        reply.call(Fragment { index: None, id, name, arguments })?;
    }
    if let Some((prompt, completion)) = chunk.tokens.filter(|tokens| *tokens != (0, 0)) {
        *reply.tokens() = Tokens { prompt, completion };
    }
    if let Some(reason) = &chunk.finish_reason {
        reply.finish_reason(reason);
    }
    if let Some(opaque) = chunk.opaque {
        reply.keep(json!({OPAQUE: opaque}))?;
    }
    Ok(())
}

fn kind_of(word: &str) -> Result<MediaKind, ModelError> {
    match word {
        "image" => Ok(MediaKind::Image),
        "document" => Ok(MediaKind::Document),
        "audio" => Ok(MediaKind::Audio),
        "video" => Ok(MediaKind::Video),
        _ => Err(ModelError::value(format!("the reply has a file of the unknown kind {word:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::providers::{ModelReply, RateFacts};
    use serde_json::Value as Json;
    use tidemill_plugins::model::chunk;

    fn reply(deltas: &[Json]) -> (Result<ModelReply, ModelError>, Vec<String>) {
        let mut said = Vec::new();
        let mut on_delta = |text: &str| said.push(text.to_owned());
        let mut reply = Growing::new("p", &mut on_delta);
        reply.begin();
        let taken = deltas.iter().try_for_each(|delta| {
            take(&mut reply, chunk::read(&json!({"delta": delta})).expect("it is a part"))
        });
        let ended = taken.and_then(|()| {
            reply.done();
            reply.end(RateFacts::default())?;
            Ok(reply.into_reply())
        });
        (ended, said)
    }

    #[test]
    fn words_calls_counts_and_files_come_together() {
        let call = |id: &str, name: &str, arguments: &str| {
            let function = json!({"name": name, "arguments": arguments});
            json!({"message": {"content": "", "tool_calls": [{"id": id, "type": "function", "function": function}]}})
        };
        let (reply, said) = reply(&[
            json!({"message": {"content": "Hel"}}),
            json!({"message": {"content": "lo"}}),
            call("c", "f", ""),
            call("c", "", "{\"a\""),
            call("", "", ": 1}"),
            call("", "g", "{}"),
            json!({"message": {"content": [{"type": "image", "format": "png", "mime_type": "image/png", "base64_data": "AAE="}]}}),
            json!({"message": {"content": "", "opaque_body": [1]}, "finish_reason": "stop",
                "usage": {"prompt_tokens": 7, "completion_tokens": 4}}),
        ]);
        let reply = reply.unwrap();
        assert_eq!((reply.text.as_str(), said.join("|").as_str()), ("Hello", "Hel|lo"));
        let calls: Vec<_> =
            reply.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("f", "{\"a\": 1}"), ("g", "{}")]);
        assert_eq!(reply.tool_calls[0].id, "c");
        assert_eq!((reply.tokens.prompt, reply.tokens.completion), (7, 4));
        assert_eq!((reply.media.len(), reply.media[0].mime_type.as_str()), (1, "image/png"));
        assert_eq!(reply.finish_reason.as_deref(), Some("stop"));
        assert_eq!(reply.verbatim, [json!({OPAQUE: [1]})]);
    }

    #[test]
    fn a_reply_without_a_reason_for_its_end_is_complete_when_the_session_ends() {
        assert_eq!(reply(&[json!({"message": {"content": "a"}})]).0.unwrap().text, "a");
        let file = json!({"type": "smell", "format": "x", "mime_type": "y", "base64_data": "AA=="});
        let error = reply(&[json!({"message": {"content": [file]}})]).0.unwrap_err();
        assert!(error.message.contains("unknown kind \"smell\""), "{error}");
    }
}
