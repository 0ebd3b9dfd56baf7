//! The formats of OpenAI's chat and completions.

use serde_json::{Value as Json, json};

use super::super::reply::Reply;
use super::pieces;

pub(super) fn whole(reply: &Reply<'_>) -> Json {
    let mut message = json!({"role": "assistant", "content": reply.text()});
    if !reply.rule.tool_calls.is_empty() {
        message["tool_calls"] = tool_calls(reply).collect();
    }
    if !reply.rule.images.is_empty() {
        message["images"] = images(reply);
    }
    if !reply.rule.thinking.is_empty() {
        message["reasoning_content"] = json!(reply.rule.thinking);
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason(reply)});
    let mut body = head(reply, "chat.completion", json!([choice]));
    body["usage"] = reply.usage();
    body
}

pub(super) fn greeting(reply: &Reply<'_>) -> Json {
    delta(reply, &json!({"role": "assistant", "content": ""}), &Json::Null)
}

/// Builds the reasoning before the text, in the way of most servers.
pub(super) fn thoughts(reply: &Reply<'_>) -> Vec<Json> {
    let thinking = Some(&reply.rule.thinking).filter(|thinking| !thinking.is_empty());
    let thought = |piece: String| delta(reply, &json!({"reasoning_content": piece}), &Json::Null);
    thinking.map_or_else(Vec::new, |thinking| pieces(thinking, 2).into_iter().map(thought).collect())
}

/// Builds the first object of Azure.
pub(super) fn filtered(reply: &Reply<'_>) -> Json {
    let mut object = head(reply, "", json!([]));
    object["prompt_filter_results"] = json!([{"prompt_index": 0, "content_filter_results": {}}]);
    object
}

pub(super) fn delta(reply: &Reply<'_>, delta: &Json, finish_reason: &Json) -> Json {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    head(reply, "chat.completion.chunk", json!([choice]))
}

pub(super) fn end(reply: &Reply<'_>) -> Vec<Json> {
    let mut objects = Vec::new();
    if !reply.rule.images.is_empty() {
        objects.push(delta(reply, &json!({"images": images(reply)}), &Json::Null));
    }
    for (index, call) in tool_calls(reply).enumerate() {
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        for (at, piece) in pieces(arguments, reply.rule.tool_call_pieces).into_iter().enumerate() {
            let fragment = if at == 0 {
                json!({"index": index, "id": call["id"], "type": "function",
                    "function": {"name": call["function"]["name"], "arguments": piece}})
            } else {
                json!({"index": index, "function": {"arguments": piece}})
            };
            objects.push(delta(reply, &json!({"tool_calls": [fragment]}), &Json::Null));
        }
    }
    objects.push(delta(reply, &json!({}), &finish_reason(reply)));
    objects.push(usage_alone(reply, "chat.completion.chunk"));
    objects
}

pub(super) fn completion(reply: &Reply<'_>) -> Json {
    let mut body = completion_piece(reply, &reply.text(), &finish_reason(reply));
    body["usage"] = reply.usage();
    body
}

pub(super) fn completion_piece(reply: &Reply<'_>, text: &str, finish_reason: &Json) -> Json {
    let choice = json!({"index": 0, "text": text, "finish_reason": finish_reason});
    head(reply, "text_completion", json!([choice]))
}

pub(super) fn completion_end(reply: &Reply<'_>) -> Vec<Json> {
    let last = completion_piece(reply, "", &finish_reason(reply));
    vec![last, usage_alone(reply, "text_completion")]
}

fn usage_alone(reply: &Reply<'_>, object: &str) -> Json {
    let mut last = head(reply, object, json!([]));
    last["usage"] = reply.usage();
    last
}

fn head(reply: &Reply<'_>, object: &str, choices: Json) -> Json {
    json!({
        "id": "chatcmpl-mock", "created": 0, "model": reply.model(), "object": object, "choices": choices
    })
}

fn finish_reason(reply: &Reply<'_>) -> Json {
    reply.finish_reason("stop", "tool_calls")
}

fn tool_calls(reply: &Reply<'_>) -> impl Iterator<Item = Json> {
    reply.rule.tool_calls.iter().enumerate().map(|(at, (name, arguments))| {
        json!({"id": format!("call_{at}"), "type": "function", "function": {"name": name, "arguments": arguments}})
    })
}

/// Builds images in the form of servers that pass them on.
fn images(reply: &Reply<'_>) -> Json {
    let image = |url: &String| json!({"type": "image_url", "image_url": {"url": url}});
    reply.rule.images.iter().map(image).collect()
}
