//! Anthropic's messages.

use serde_json::{Value as Json, json};

use super::super::reply::Reply;
use super::pieces;

/// The messages with the instructions before them.
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

pub(super) fn whole(reply: &Reply<'_>) -> Json {
    let mut content = vec![json!({"type": "text", "text": reply.text()})];
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
    vec![
        json!({"type": "message_start", "message": message(reply)}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
    ]
}

pub(super) fn piece(text: &str) -> Json {
    delta(0, json!({"type": "text_delta", "text": text}))
}

pub(super) fn end(reply: &Reply<'_>) -> Vec<Json> {
    let mut objects = vec![json!({"type": "content_block_stop", "index": 0})];
    for (at, (name, arguments)) in reply.rule.tool_calls.iter().enumerate() {
        let index = at + 1;
        let block = json!({"type": "tool_use", "id": id(at), "name": name, "input": {}});
        objects.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        for piece in pieces(arguments, reply.rule.tool_call_pieces) {
            objects.push(delta(index, json!({"type": "input_json_delta", "partial_json": piece})));
        }
        objects.push(json!({"type": "content_block_stop", "index": index}));
    }
    objects.push(json!({
        "type": "message_delta", "delta": {"stop_reason": stop_reason(reply), "stop_sequence": null},
        "usage": {"output_tokens": reply.usage()["completion_tokens"]}
    }));
    objects.push(json!({"type": "message_stop"}));
    objects
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
