//! Reads the objects of a chat or completion stream into a reply.
//!
//! Servers differ: usage may come last, with the finish reason, or with every object. A server that does not stream
//! sends one object with `message` instead of `delta`. All variants give the same reply.

use serde_json::Value as Json;
use tidemill_common::nodes::llm::message::MediaKind;
use tidemill_common::nodes::llm::usage::Tokens;
use tidemill_common::value::JsonMap;

use crate::outside::providers::errors::ModelError;
use crate::outside::providers::model_file::ModelFile;
use crate::outside::providers::params::text;
use crate::outside::providers::reading::Dialect;
use crate::outside::providers::reply::Growing;
use crate::outside::providers::tool_calls::Fragment;

/// Reads the objects; each is self-contained.
#[derive(Debug, Clone, Default)]
pub struct Chunks {
    /// The requested sound format.
    sound: String,
}

impl Chunks {
    /// Creates a reader for the answer to a request with these parameters.
    pub fn of(params: &JsonMap) -> Self {
        Self { sound: params.get("audio").map(|audio| text(audio, "format").to_owned()).unwrap_or_default() }
    }
}

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
        // Only the first choice counts; some servers send objects without choices.
        let first = |choice: &&Json| choice.get("index").and_then(Json::as_u64).unwrap_or(0) == 0;
        let choices = object.get("choices").and_then(Json::as_array);
        let Some(choice) = choices.and_then(|choices| choices.iter().find(first)) else { return Ok(()) };
        // Completions have their text here.
        reply.text(text(choice, "text"))?;
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.take_delta(delta, reply)?;
        }
        reply.finish_reason(text(choice, "finish_reason"));
        Ok(())
    }
}

impl Chunks {
    fn take_delta(&self, delta: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
        let thought = ["reasoning_content", "reasoning"].iter().find_map(|key| delta.get(key)?.as_str());
        reply.thought(thought.unwrap_or(""))?;
        match delta.get("content") {
            Some(Json::String(content)) => reply.text(content)?,
            Some(Json::Array(parts)) => {
                for part in parts {
                    take_part(part, reply)?;
                }
            }
            Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) | None => {}
        }
        // Some servers send pictures beside the content.
        for part in delta.get("images").and_then(Json::as_array).into_iter().flatten() {
            take_part(part, reply)?;
        }
        if let Some(audio) = delta.get("audio").filter(|audio| audio.is_object()) {
            // Spoken text also arrives as a transcript.
            reply.text(text(audio, "transcript"))?;
            reply.sound(text(audio, "data"), &self.sound)?;
        }
        // A refusal has its own text field.
        reply.text(text(delta, "refusal"))?;
        for call in delta.get("tool_calls").and_then(Json::as_array).into_iter().flatten() {
            let function = call.get("function").unwrap_or(&Json::Null);
            // Some servers send the arguments as an object.
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
}

/// Adds a content part: a text, or a file that the model made. Unknown kinds are ignored.
fn take_part(part: &Json, reply: &mut Growing<'_>) -> Result<(), ModelError> {
    let url = |key: &str| match part.get(key) {
        Some(Json::String(url)) => url.clone(),
        Some(holder) => text(holder, "url").to_owned(),
        None => String::new(),
    };
    match text(part, "type") {
        "image_url" => reply.media(ModelFile::at_url(MediaKind::Image, &url("image_url"))?),
        "video_url" => reply.media(ModelFile::at_url(MediaKind::Video, &url("video_url"))?),
        "audio_url" => reply.media(ModelFile::at_url(MediaKind::Audio, &url("audio_url"))?),
        "file" => {
            let data = text(part.get("file").unwrap_or(&Json::Null), "file_data");
            reply.media(ModelFile::at_url(MediaKind::Document, data)?)
        }
        _ => reply.text(text(part, "text")),
    }
}
