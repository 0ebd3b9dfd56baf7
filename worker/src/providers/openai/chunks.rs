//! From the objects of a chat or completion stream to one reply.
//!
//! Servers differ: usage may come last, with the finish, or with every object; a server that does not stream sends one
//! object with `message` where the others have `delta`. All of that ends in the same reply.

use serde_json::Value as Json;
use tidemill_common::nodes::llm::usage::Tokens;

use crate::providers::errors::ModelError;
use crate::providers::params::text;
use crate::providers::reading::Dialect;
use crate::providers::reply::Growing;
use crate::providers::tool_calls::Fragment;

/// Reads the objects; each says all that is to be known of it.
#[derive(Debug, Clone, Copy)]
pub struct Chunks;

impl Dialect for Chunks {
    fn begin(&mut self) {}

    fn take(&mut self, object: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
        let is_error = object.get("error").is_some_and(|error| !error.is_null());
        if is_error || text(object, "object") == "error" {
            return Err(ModelError::in_stream(reply.label(), object));
        }
        if let Some(usage) = object.get("usage").filter(|usage| usage.is_object()) {
            let count = |key: &str| usage.get(key).and_then(Json::as_u64).unwrap_or(0);
            *reply.tokens() =
                Tokens { prompt: count("prompt_tokens"), completion: count("completion_tokens") };
        }
        // Only the first choice counts; some servers send objects without any.
        let first = |choice: &&Json| choice.get("index").and_then(Json::as_u64).unwrap_or(0) == 0;
        let choices = object.get("choices").and_then(Json::as_array);
        let Some(choice) = choices.and_then(|choices| choices.iter().find(first)) else { return Ok(()) };
        // Completions have their text right here.
        reply.text(text(choice, "text"))?;
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            take_delta(delta, reply)?;
        }
        reply.finish_reason(text(choice, "finish_reason"));
        Ok(())
    }
}

fn take_delta(delta: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
    let thought = ["reasoning_content", "reasoning"].iter().find_map(|key| delta.get(key)?.as_str());
    reply.thought(thought.unwrap_or(""))?;
    match delta.get("content") {
        Some(Json::String(content)) => reply.text(content)?,
        Some(Json::Array(parts)) => {
            for part in parts {
                reply.text(text(part, "text"))?;
            }
        }
        Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) | None => {}
    }
    // A model that refuses says so in words of its own.
    reply.text(text(delta, "refusal"))?;
    for call in delta.get("tool_calls").and_then(Json::as_array).into_iter().flatten() {
        let function = call.get("function").unwrap_or(&Json::Null);
        // Some servers send the arguments as the object that they stand for.
        let object = function.get("arguments").filter(|it| it.is_object()).map(Json::to_string);
        reply.call(Fragment {
            index: call.get("index").and_then(Json::as_u64),
            id: text(call, "id"),
            name: text(function, "name"),
            arguments: object.as_deref().unwrap_or_else(|| text(function, "arguments")),
        })?;
    }
    Ok(())
}
