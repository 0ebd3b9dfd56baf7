//! The prompt messages of the SDK as a conversation of ours.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::Role;
use tidemill_common::nodes::llm::message::{FilePart, MediaKind, Message, MessagePart, ToolCall, ToolSpec};
use tidemill_common::nodes::tool::outputs::file_object;

use super::{Answering, text};

impl Answering<'_> {
    /// Understands the messages of a prompt. Content in base64 is stored as a file of the run, because that is what our clients
    /// send.
    pub(super) async fn messages(&self, request: &Json) -> Result<Vec<Message>, String> {
        let given = request["prompt_messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut messages = Vec::with_capacity(given.len());
        for one in given {
            messages.push(self.message(one).await?);
        }
        if messages.is_empty() { Err("the request has no prompt messages".into()) } else { Ok(messages) }
    }

    async fn message(&self, given: &Json) -> Result<Message, String> {
        let role = match text(given, "role")? {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            other => return Err(format!("the role {other:?} of a prompt message is not known")),
        };
        let mut parts = Vec::new();
        match &given["content"] {
            Json::String(text) if text.is_empty() => {}
            Json::String(text) => parts.push(MessagePart::Text(text.clone())),
            Json::Array(items) => {
                for item in items {
                    parts.push(self.part(item).await?);
                }
            }
            _ => {}
        }
        let calls = given["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tool_call_id = given["tool_call_id"].as_str().map(str::to_owned);
        let tool_calls = calls.iter().map(call).collect::<Result<Vec<_>, String>>()?;
        // A message must say something, besides one with calls or a result.
        if parts.is_empty() && tool_calls.is_empty() {
            parts.push(MessagePart::Text(String::new()));
        }
        Ok(Message { role, parts, tool_calls, tool_call_id, verbatim: Vec::new() })
    }

    async fn part(&self, given: &Json) -> Result<MessagePart, String> {
        let kind = text(given, "type")?;
        if kind == "text" {
            return Ok(MessagePart::Text(text(given, "data")?.to_owned()));
        }
        let kind = MediaKind::from_name(kind)
            .ok_or_else(|| format!("content of the type {kind:?} of a prompt message is not known"))?;
        let field = |key: &str| given[key].as_str().unwrap_or_default();
        let (format, mime_type, url) = (field("format"), field("mime_type"), field("url"));
        let name = match field("filename") {
            "" => format!("{}.{format}", kind.name()),
            name => name.to_owned(),
        };
        let mut file = if url.starts_with("http") {
            let mut file = file_object(mime_type, Some(&name), None, "");
            file["transfer_method"] = json!("remote_url");
            file["reference"] = Json::Null;
            file["remote_url"] = json!(url);
            file
        } else {
            // A `data:` address has the content after a comma.
            let encoded = match field("base64_data") {
                "" => url.split_once(',').map(|(_, data)| data).unwrap_or_default(),
                data => data,
            };
            let bytes = STANDARD.decode(encoded);
            let bytes = bytes.map_err(|_| format!("the content of {name} is not base64"))?;
            let size = bytes.len();
            let reference = self.keep_bytes(bytes.into()).await?;
            file_object(mime_type, Some(&name), Some(size), &reference)
        };
        file["type"] = json!(kind.name());
        if !format.is_empty() {
            file["extension"] = json!(format!(".{}", format.trim_start_matches('.')));
        }
        let file = file.as_object().cloned().unwrap_or_default();
        let detail = given["detail"].as_str().unwrap_or("low").to_owned();
        Ok(MessagePart::File(FilePart { kind, file, detail }))
    }
}

fn call(given: &Json) -> Result<ToolCall, String> {
    let function = &given["function"];
    Ok(ToolCall {
        id: given["id"].as_str().unwrap_or_default().to_owned(),
        name: text(function, "name")?.to_owned(),
        arguments: function["arguments"].as_str().unwrap_or_default().to_owned(),
    })
}

/// The tools that a model may call.
pub(super) fn tools(request: &Json) -> Result<Vec<ToolSpec>, String> {
    let given = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let tool = |tool: &Json| {
        Ok(ToolSpec {
            name: text(tool, "name")?.to_owned(),
            description: tool["description"].as_str().unwrap_or_default().to_owned(),
            parameters: match &tool["parameters"] {
                parameters @ Json::Object(_) => parameters.clone(),
                _ => json!({"type": "object", "properties": {}}),
            },
        })
    };
    given.iter().map(tool).collect()
}

/// The calls of a reply as the SDK reads them.
pub(super) fn calls(calls: &[ToolCall]) -> Vec<Json> {
    let call = |call: &ToolCall| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}});
    calls.iter().map(call).collect()
}
