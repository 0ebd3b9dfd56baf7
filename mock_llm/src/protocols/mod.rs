//! The formats of the protocols; one file per protocol.

pub mod anthropic;
pub mod ollama;
pub mod openai;
pub mod vectors;

use std::borrow::Cow;

use serde_json::{Map, Value as Json, json};

use super::reply::Reply;
use super::rules::Rule;

/// A protocol of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI's chat.
    OpenAi,
    /// OpenAI's completions, which continue a text.
    Completions,
    /// OpenAI's chat on Azure, with the results of its filter.
    Azure,
    /// Anthropic's messages.
    Anthropic,
    /// Ollama's chat.
    Ollama,
}

impl Protocol {
    /// Returns the request in the form of OpenAI's chat, which the rules are applied to.
    pub fn heard(self, body: &Json) -> Cow<'_, Json> {
        let with = |key: &str, value: Json| {
            let mut map: Map<String, Json> = body.as_object().cloned().unwrap_or_default();
            map.insert(key.to_owned(), value);
            Cow::Owned(Json::Object(map))
        };
        match self {
            Self::OpenAi | Self::Azure => Cow::Borrowed(body),
            Self::Completions => {
                let prompt = body.get("prompt").cloned().unwrap_or(Json::Null);
                with("messages", json!([{"role": "user", "content": prompt}]))
            }
            Self::Anthropic => with("messages", anthropic::messages(body)),
            // Ollama streams by default.
            Self::Ollama if body.get("stream").is_none() => with("stream", json!(true)),
            Self::Ollama => Cow::Borrowed(body),
        }
    }

    /// The media type of streams.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Completions | Self::Azure | Self::Anthropic => "text/event-stream",
            Self::Ollama => "application/x-ndjson",
        }
    }

    /// Builds a refusal.
    pub fn refusal(self, status: u16, message: &str) -> Json {
        match self {
            Self::OpenAi | Self::Completions | Self::Azure => json!({"error": {"message": message}}),
            Self::Anthropic => anthropic::refusal(status, message),
            Self::Ollama => json!({"error": message}),
        }
    }

    /// Builds the error of a rule, with its type and code.
    pub(super) fn failure(self, rule: &Rule, message: &str) -> Json {
        let mut body = self.refusal(rule.status.unwrap_or(500), message);
        // In Ollama the error is a text.
        if let Some(error) = body.get_mut("error").and_then(Json::as_object_mut) {
            let kind = rule.error_type.as_ref().map(|kind| ("type".to_owned(), json!(kind)));
            let code = rule.error_code.clone().map(|code| ("code".to_owned(), code));
            error.extend(kind.into_iter().chain(code));
        }
        body
    }

    /// Returns why the real provider would refuse a request, independent of the rules.
    pub(super) fn complaint(self, body: &Json) -> Option<&'static str> {
        match self {
            Self::Anthropic => anthropic::complaint(body),
            Self::OpenAi | Self::Completions | Self::Azure | Self::Ollama => None,
        }
    }

    /// Builds the object of an answer without a stream.
    pub(super) fn whole(self, reply: &Reply<'_>) -> Json {
        match self {
            Self::OpenAi | Self::Azure => openai::whole(reply),
            Self::Completions => openai::completion(reply),
            Self::Anthropic => anthropic::whole(reply),
            Self::Ollama => ollama::whole(reply),
        }
    }

    /// Builds the first objects of a stream.
    pub(super) fn begin(self, reply: &Reply<'_>) -> Vec<Json> {
        match self {
            Self::OpenAi => [vec![openai::greeting(reply)], openai::thoughts(reply)].concat(),
            Self::Azure => vec![openai::filtered(reply), openai::greeting(reply)],
            Self::Completions => Vec::new(),
            Self::Ollama => ollama::thoughts(reply),
            Self::Anthropic => anthropic::begin(reply),
        }
    }

    /// Builds a piece of text.
    pub(super) fn piece(self, reply: &Reply<'_>, text: &str) -> Json {
        match self {
            Self::OpenAi | Self::Azure => openai::delta(reply, &json!({"content": text}), &Json::Null),
            Self::Completions => openai::completion_piece(reply, text, &Json::Null),
            Self::Anthropic => anthropic::piece(reply, text),
            Self::Ollama => ollama::piece(reply, text),
        }
    }

    /// Builds everything after the text.
    pub(super) fn end(self, reply: &Reply<'_>) -> Vec<Json> {
        match self {
            Self::OpenAi | Self::Azure => openai::end(reply),
            Self::Completions => openai::completion_end(reply),
            Self::Anthropic => anthropic::end(reply),
            Self::Ollama => ollama::end(reply),
        }
    }

    /// Encodes an object for a stream.
    pub(super) fn framed(self, object: &Json) -> String {
        let text = super::reply::dump(object);
        match self {
            Self::OpenAi | Self::Completions | Self::Azure => format!("data: {text}\n\n"),
            Self::Anthropic => {
                format!("event: {}\ndata: {text}\n\n", object["type"].as_str().unwrap_or_default())
            }
            Self::Ollama => format!("{text}\n"),
        }
    }

    /// Returns a piece of a stream that no client can parse.
    pub(super) fn garbage(self) -> String {
        match self {
            Self::OpenAi | Self::Completions | Self::Azure | Self::Anthropic => {
                format!("data: {GARBAGE}\n\n")
            }
            Self::Ollama => format!("{GARBAGE}\n"),
        }
    }

    /// Returns the last line of a stream.
    pub(super) const fn last(self) -> Option<&'static str> {
        match self {
            Self::OpenAi | Self::Completions | Self::Azure => Some("data: [DONE]\n\n"),
            Self::Anthropic | Self::Ollama => None,
        }
    }
}

/// A text that begins like JSON but is not JSON.
pub const GARBAGE: &str = "{\"choices\": [oops";

/// Splits a text into `count` pieces of about the same length; fewer if it has fewer characters.
pub(super) fn pieces(text: &str, count: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let size = chars.len().div_ceil(count.max(1)).max(1);
    let pieces: Vec<String> = chars.chunks(size).map(|piece| piece.iter().collect()).collect();
    if pieces.is_empty() { vec![String::new()] } else { pieces }
}
