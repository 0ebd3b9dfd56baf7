//! Writes the JSON body of a request to Ollama.

use serde_json::{Map, Value as Json, json};
use tidemill_common::nodes::llm::Role;
use tidemill_common::nodes::llm::message::{MediaKind, ToolCall, ToolSpec};

use crate::outside::providers::media::SentMessage;
use crate::outside::providers::params::{arguments_object, bare_schema, take_schema};
use crate::outside::providers::{ChatRequest, ErrorClass, ModelError};

/// Parameters on the top level of the body; all others are model options.
const BESIDE: [&str; 3] = ["format", "keep_alive", "think"];
/// Fields the client sets itself, and `tool_choice`, which Ollama does not have.
const OWN: [&str; 6] = ["model", "messages", "stream", "stream_options", "response_format", "tool_choice"];

/// Writes the body.
pub(super) fn write(request: &ChatRequest) -> Result<String, ModelError> {
    let mut params = request.params.clone();
    let schema = take_schema(&request.label, &mut params)?.map(bare_schema);
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    let message = |message| write_message(&request.label, message, &request.messages);
    let messages: Vec<Json> = request.messages.iter().map(message).collect::<Result<_, _>>()?;
    body.insert("messages".into(), Json::Array(messages));
    body.insert("stream".into(), json!(request.stream));
    let format = params.get("response_format").and_then(Json::as_str);
    match schema {
        Some(schema) => body.insert("format".into(), schema),
        // Dify's names for any JSON; `text` is the default.
        None if matches!(format, Some("json_object" | "JSON" | "json")) => {
            body.insert("format".into(), json!("json"))
        }
        None => None,
    };
    let mut options = Map::new();
    for (key, value) in params {
        if BESIDE.contains(&key.as_str()) {
            body.entry(key).or_insert(value);
        } else if !OWN.contains(&key.as_str()) {
            options.insert(option_name(&key).into(), value);
        }
    }
    if !request.stop.is_empty() {
        options.insert("stop".into(), json!(request.stop));
    }
    if let Some(size) = request.context_size {
        options.entry("num_ctx").or_insert_with(|| json!(size));
    }
    if !options.is_empty() {
        body.insert("options".into(), Json::Object(options));
    }
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(write_tool).collect());
    }
    Ok(Json::Object(body).to_string())
}

fn option_name(key: &str) -> &str {
    match key {
        "max_tokens" => "num_predict",
        "context_size" => "num_ctx",
        key => key,
    }
}

fn write_message(label: &str, message: &SentMessage, all: &[SentMessage]) -> Result<Json, ModelError> {
    let mut written = json!({"role": message.role.name(), "content": message.joined_text()});
    let mut images = Vec::new();
    for media in message.media() {
        if media.kind != MediaKind::Image {
            let cause = format!("the file {} cannot be sent: the API takes only pictures", media.filename);
            return Err(ModelError::new(label, ErrorClass::BadRequest, &cause));
        }
        images.push(json!(media.base64()));
    }
    if !images.is_empty() {
        written["images"] = Json::Array(images);
    }
    if !message.tool_calls.is_empty() {
        let call = |call: &ToolCall| json!({"function": {"name": call.name, "arguments": arguments_object(&call.arguments)}});
        written["tool_calls"] = message.tool_calls.iter().map(call).collect();
    }
    // Results are matched by tool name, because calls have no ids here.
    if let Some(id) = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool) {
        let mut calls = all.iter().flat_map(|message| &message.tool_calls);
        if let Some(call) = calls.find(|call| call.id == *id) {
            written["tool_name"] = json!(call.name);
        }
    }
    Ok(written)
}

fn write_tool(tool: &ToolSpec) -> Json {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    })
}
