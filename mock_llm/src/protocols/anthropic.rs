//! The format of Anthropic's messages.

use serde_json::{Value as Json, json};

use super::super::reply::Reply;
use super::pieces;

/// Returns the messages, with the system prompt as the first one.
pub(super) fn messages(body: &Json) -> Json {
    let system = body.get("system").map(|text| json!({"role": "system", "content": text}));
    let messages = body.get("messages").and_then(Json::as_array).into_iter().flatten();
    system.into_iter().chain(messages.cloned()).collect()
}

pub(super) fn refusal(status: u16, message: &str) -> Json {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// Checks the reasoning blocks of a request: a model that always reasons wants its turn to begin with one, and all of
/// them must have their signature.
pub(super) fn complaint(body: &Json) -> Option<&'static str> {
    let messages: Vec<&Json> = body.get("messages").and_then(Json::as_array)?.iter().collect();
    let blocks = |message: &Json| message["content"].as_array().cloned().unwrap_or_default();
    let all: Vec<Json> = messages.iter().flat_map(|message| blocks(message)).collect();
    let forged = |block: &Json| {
        block["type"] == "thinking"
            && block["signature"] != signature(block["thinking"].as_str().unwrap_or(""))
    };
    if all.iter().any(forged) {
        return Some("Invalid `signature` in `thinking` block");
    }
    if body["thinking"]["type"] != "enabled" {
        return None;
    }
    let has_results = |message: &Json| blocks(message).iter().any(|block| block["type"] == "tool_result");
    let amid = messages.last().is_some_and(|last| has_results(last));
    let turn = messages.iter().rev().take_while(|it| it["role"] == "assistant" || has_results(it));
    let first = turn.filter(|message| message["role"] == "assistant").last()?;
    let thinks = blocks(first).first().is_some_and(|block| block["type"] == "thinking");
    (amid && !thinks).then_some("Expected `thinking` or `redacted_thinking`, but found `tool_use`")
}

pub(super) fn whole(reply: &Reply<'_>) -> Json {
    let mut content = Vec::new();
    if let Some(thought) = thought(reply) {
        content.push(json!({"type": "thinking", "thinking": thought, "signature": signature(thought)}));
    }
    content.push(json!({"type": "text", "text": reply.text()}));
    for (at, (name, arguments)) in reply.rule.tool_calls.iter().enumerate() {
        let input: Json = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        content.push(json!({"type": "tool_use", "id": id(at), "name": name, "input": input}));
    }
    let mut message = message(reply);
    message["content"] = Json::Array(content);
    message["stop_reason"] = stop_reason(reply);
    message["usage"]["output_tokens"] = reply.usage()["completion_tokens"].clone();
    message
}

pub(super) fn begin(reply: &Reply<'_>) -> Vec<Json> {
    let mut objects = vec![json!({"type": "message_start", "message": message(reply)})];
    if let Some(thought) = thought(reply) {
        objects.push(start(0, json!({"type": "thinking", "thinking": "", "signature": ""})));
        for piece in pieces(thought, 2) {
            objects.push(delta(0, json!({"type": "thinking_delta", "thinking": piece})));
        }
        objects.push(delta(0, json!({"type": "signature_delta", "signature": signature(thought)})));
        objects.push(stop(0));
    }
    objects.push(start(text_at(reply), json!({"type": "text", "text": ""})));
    objects.push(json!({"type": "ping"}));
    objects
}

pub(super) fn piece(reply: &Reply<'_>, text: &str) -> Json {
    delta(text_at(reply), json!({"type": "text_delta", "text": text}))
}

pub(super) fn end(reply: &Reply<'_>) -> Vec<Json> {
    let mut objects = vec![stop(text_at(reply))];
    for (at, (name, arguments)) in reply.rule.tool_calls.iter().enumerate() {
        let index = text_at(reply) + at + 1;
        objects.push(start(index, json!({"type": "tool_use", "id": id(at), "name": name, "input": {}})));
        for piece in pieces(arguments, reply.rule.tool_call_pieces) {
            objects.push(delta(index, json!({"type": "input_json_delta", "partial_json": piece})));
        }
        objects.push(stop(index));
    }
    objects.push(json!({
        "type": "message_delta", "delta": {"stop_reason": stop_reason(reply), "stop_sequence": null},
        "usage": {"output_tokens": reply.usage()["completion_tokens"]}
    }));
    objects.push(json!({"type": "message_stop"}));
    objects
}

/// Returns the reasoning before the text, if the request asks for it.
fn thought<'a>(reply: &'a Reply<'_>) -> Option<&'a str> {
    let asked = matches!(reply.asked("thinking")["type"].as_str(), Some("enabled" | "adaptive"));
    Some(reply.rule.thinking.as_str()).filter(|thought| asked && !thought.is_empty())
}

fn signature(thought: &str) -> String {
    format!("signed: {}", thought.len())
}

/// The index of the text block.
fn text_at(reply: &Reply<'_>) -> usize {
    usize::from(thought(reply).is_some())
}

fn start(index: usize, block: Json) -> Json {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn stop(index: usize) -> Json {
    json!({"type": "content_block_stop", "index": index})
}

fn message(reply: &Reply<'_>) -> Json {
    json!({
        "id": "msg_mock", "type": "message", "role": "assistant", "model": reply.model(), "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": reply.usage()["prompt_tokens"], "output_tokens": 0}
    })
}

fn delta(index: usize, delta: Json) -> Json {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn id(at: usize) -> String {
    format!("toolu_{at}")
}

fn stop_reason(reply: &Reply<'_>) -> Json {
    reply.finish_reason("end_turn", "tool_use")
}
