//! The format of Ollama's chat.

use serde_json::{Value as Json, json};

use super::super::reply::Reply;

pub(super) fn whole(reply: &Reply<'_>) -> Json {
    let mut message = json!({"role": "assistant", "content": reply.text()});
    if !reply.rule.tool_calls.is_empty() {
        message["tool_calls"] = tool_calls(reply);
    }
    if !reply.rule.thinking.is_empty() {
        message["thinking"] = json!(reply.rule.thinking);
    }
    finished(reply, message)
}

/// Builds the reasoning before the text.
pub(super) fn thoughts(reply: &Reply<'_>) -> Vec<Json> {
    let thinking = Some(&reply.rule.thinking).filter(|thinking| !thinking.is_empty());
    let thought = |text: &String| line(reply, json!({"role": "assistant", "content": "", "thinking": text}));
    thinking.map(thought).into_iter().collect()
}

pub(super) fn piece(reply: &Reply<'_>, text: &str) -> Json {
    line(reply, json!({"role": "assistant", "content": text}))
}

/// Builds the end. Tool calls come as a whole and without ids.
pub(super) fn end(reply: &Reply<'_>) -> Vec<Json> {
    let mut objects = Vec::new();
    if !reply.rule.tool_calls.is_empty() {
        let message = json!({"role": "assistant", "content": "", "tool_calls": tool_calls(reply)});
        objects.push(line(reply, message));
    }
    objects.push(finished(reply, json!({"role": "assistant", "content": ""})));
    objects
}

fn line(reply: &Reply<'_>, message: Json) -> Json {
    json!({"model": reply.model(), "created_at": "1970-01-01T00:00:00Z", "message": message, "done": false})
}

fn finished(reply: &Reply<'_>, message: Json) -> Json {
    let usage = reply.usage();
    let mut last = line(reply, message);
    last["done"] = json!(true);
    last["done_reason"] = reply.finish_reason("stop", "stop");
    last["prompt_eval_count"] = usage["prompt_tokens"].clone();
    last["eval_count"] = usage["completion_tokens"].clone();
    last
}

fn tool_calls(reply: &Reply<'_>) -> Json {
    let call = |(name, arguments): &(String, String)| {
        let arguments: Json = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        json!({"function": {"name": name, "arguments": arguments}})
    };
    reply.rule.tool_calls.iter().map(call).collect()
}
