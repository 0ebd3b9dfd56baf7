//! Writes the call of an LLM as the SDK reads it. Parameters are sent as the workflow has them: the SDK checks them by the
//! rules of the model, and plugins take `response_format` and `json_schema` as Dify writes them.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::message::{MediaKind, ToolCall, ToolSpec};

use crate::outside::providers::ChatRequest;
use crate::outside::providers::media::{Media, SentMessage, SentPart};
use crate::outside::providers::source::Source;

/// The name under which the opaque body of a plugin's message is kept with the message.
pub(super) const OPAQUE: &str = "plugin_opaque_body";

/// Writes the fields of the action.
pub(super) fn write(request: &ChatRequest) -> Json {
    let stop = (!request.stop.is_empty()).then_some(&request.stop);
    let tools: Vec<Json> = request.tools.iter().map(tool).collect();
    json!({
        "prompt_messages": request.messages.iter().map(message).collect::<Vec<_>>(),
        "model_parameters": request.params,
        "stop": stop,
        "tools": (!tools.is_empty()).then_some(tools),
        "stream": request.stream,
    })
}

fn tool(tool: &ToolSpec) -> Json {
    json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
}

fn message(message: &SentMessage) -> Json {
    let mut written = json!({"role": message.role.name(), "content": content(message)});
    if !message.tool_calls.is_empty() {
        written["tool_calls"] = message.tool_calls.iter().map(call).collect();
    }
    if let Some(call) = &message.tool_call_id {
        written["tool_call_id"] = json!(call);
    }
    if let Some(opaque) = message.verbatim.iter().find_map(|part| part.get(OPAQUE)) {
        written["opaque_body"] = opaque.clone();
    }
    written
}

fn call(call: &ToolCall) -> Json {
    json!({
        "id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}
    })
}

/// The content as a plain text if it has no files.
fn content(message: &SentMessage) -> Json {
    if message.media().next().is_none() {
        return json!(message.joined_text());
    }
    let part = |part: &SentPart| match part {
        SentPart::Text(text) => json!({"type": "text", "data": text}),
        SentPart::Media(media) => file(media),
    };
    message.parts.iter().map(part).collect()
}

fn file(media: &Media) -> Json {
    let url = match &media.source {
        Source::Url(url) => url.as_str(),
        Source::Bytes(_) => "",
    };
    let mut file = json!({
        "type": kind(media.kind), "format": media.format, "mime_type": media.mime_type,
        "filename": media.filename, "url": url, "base64_data": media.base64(),
    });
    if media.kind == MediaKind::Image && ["low", "high"].contains(&media.detail.as_str()) {
        file["detail"] = json!(media.detail);
    }
    file
}

const fn kind(kind: MediaKind) -> &'static str {
    match kind {
        MediaKind::Image => "image",
        MediaKind::Document => "document",
        MediaKind::Audio => "audio",
        MediaKind::Video => "video",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::providers::media::tests::{media, request, text};
    use tidemill_common::nodes::llm::Role;

    #[test]
    fn a_call_is_written_as_the_sdk_reads_it() {
        let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{}".into() };
        let picture = media(MediaKind::Image, "image/png", "png", None);
        let there = media(MediaKind::Video, "video/mp4", "mp4", Some("https://h/a.mp4"));
        let messages = vec![
            text(Role::System, "be kind"),
            SentMessage {
                parts: vec![SentPart::Text("look".into()), picture, there],
                ..text(Role::User, "")
            },
            SentMessage {
                tool_calls: vec![call],
                verbatim: vec![json!({OPAQUE: {"a": 1}})],
                ..text(Role::Assistant, "")
            },
            SentMessage { tool_call_id: Some("c".into()), ..text(Role::Tool, "42") },
        ];
        let tool =
            ToolSpec { name: "f".into(), description: "adds".into(), parameters: json!({"type": "object"}) };
        let mut request = ChatRequest { tools: vec![tool], stop: vec!["END".into()], ..request(messages) };
        request.params.insert("temperature".into(), json!(0.5));
        assert_eq!(
            write(&request),
            json!({
                "prompt_messages": [
                    {"role": "system", "content": "be kind"},
                    {"role": "user", "content": [
                        {"type": "text", "data": "look"},
                        {"type": "image", "format": "png", "mime_type": "image/png", "filename": "name.png",
                            "url": "", "base64_data": "Ynl0ZXM=", "detail": "high"},
                        {"type": "video", "format": "mp4", "mime_type": "video/mp4", "filename": "name.mp4",
                            "url": "https://h/a.mp4", "base64_data": ""},
                    ]},
                    {"role": "assistant", "content": "", "opaque_body": {"a": 1}, "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                    ]},
                    {"role": "tool", "content": "42", "tool_call_id": "c"},
                ],
                "model_parameters": {"temperature": 0.5}, "stop": ["END"], "stream": true,
                "tools": [{"name": "f", "description": "adds", "parameters": {"type": "object"}}],
            })
        );
        let plain = write(&ChatRequest { tools: Vec::new(), stop: Vec::new(), ..request });
        assert_eq!((&plain["tools"], &plain["stop"]), (&Json::Null, &Json::Null));
    }
}
