//! Reads the lines of a stream, or the one object of an answer without a stream, into a reply.

use serde_json::Value as Json;
use tidemill_common::nodes::llm::message::MediaKind;
use tidemill_common::nodes::llm::usage::Tokens;

use crate::outside::providers::errors::ModelError;
use crate::outside::providers::model_file::ModelFile;
use crate::outside::providers::params::text;
use crate::outside::providers::reading::Dialect;
use crate::outside::providers::reply::Growing;
use crate::outside::providers::tool_calls::Fragment;

/// Reads lines; each line is self-contained, so this has no state.
#[derive(Debug, Clone, Copy)]
pub struct Lines;

impl Dialect for Lines {
    fn begin(&mut self) {}

    fn take(&mut self, object: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
        if object.get("error").is_some_and(|error| !error.is_null()) {
            return Err(ModelError::in_stream(reply.label(), object));
        }
        let message = object.get("message").unwrap_or(&Json::Null);
        reply.thought(text(message, "thinking"))?;
        reply.text(text(message, "content"))?;
        for picture in message.get("images").and_then(Json::as_array).into_iter().flatten() {
            let url = format!("data:;base64,{}", picture.as_str().unwrap_or_default());
            reply.media(ModelFile::at_url(MediaKind::Image, &url)?)?;
        }
        for call in message.get("tool_calls").and_then(Json::as_array).into_iter().flatten() {
            take_call(call, reply)?;
        }
        if object.get("done").and_then(Json::as_bool) == Some(true) {
            // A prompt in the server's cache is not counted.
            let count = |key: &str| object.get(key).and_then(Json::as_u64).unwrap_or(0);
            *reply.tokens() = Tokens { prompt: count("prompt_eval_count"), completion: count("eval_count") };
            reply.finish_reason(text(object, "done_reason"));
            reply.done();
        }
        Ok(())
    }
}

/// Adds a complete call. A call without an id gets one later.
fn take_call(call: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
    let function = call.get("function").unwrap_or(&Json::Null);
    let arguments = match function.get("arguments") {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Null) | None => "{}".to_owned(),
        Some(object) => object.to_string(),
    };
    let (id, name) = (text(call, "id"), text(function, "name"));
    reply.call(Fragment { index: None, id, name, arguments: &arguments })
}
