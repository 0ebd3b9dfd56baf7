//! What the mock is to say: rules from a JSON file, checked key by key, so that a mistake is named with its place.

mod reading;

use std::path::Path;

use serde_json::{Map, Value as Json};

/// The rules of a server, in order; the first that matches serves a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Rules {
    /// No rules at all: the last user message is repeated in a friendly sentence.
    #[default]
    Friendly,
    /// These; a request that none of them matches is refused.
    List(Vec<Rule>),
}

/// When to say something, and what.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rule {
    /// Which requests it serves.
    pub matches: Match,
    /// What it answers.
    pub says: Says,
    /// Tools that the reply calls: name, and arguments as JSON text.
    pub tool_calls: Vec<(String, String)>,
    /// What it thinks before; Anthropic's models are asked for it, and sign it.
    pub thinking: String,
    /// Pictures behind its text, as URLs; only OpenAI's chat has them.
    pub images: Vec<String>,
    /// Why the reply ends; absent: `tool_calls` when it calls tools, else `stop`.
    pub finish_reason: Option<Json>,
    /// Fields that replace or join the usual token counts.
    pub usage: Map<String, Json>,
    /// Wait before the answer begins, in milliseconds.
    pub delay_ms: u64,
    /// Wait before every piece of text but the first, in milliseconds.
    pub chunk_delay_ms: u64,
    /// How many calls fail before one succeeds; absent with a status: all.
    pub fail_times: Option<u64>,
    /// Status of a failing call; absent: 500, and only as long as `fail_times` says.
    pub status: Option<u16>,
    /// Message of a failing call.
    pub error: Option<String>,
    /// The `type` of its error, and of one within a stream; Ollama's have none.
    pub error_type: Option<String>,
    /// Their `code`, a text or a number.
    pub error_code: Option<Json>,
    /// Headers of the answer, whether it fails or not.
    pub headers: Vec<(String, String)>,
    /// Ends a stream after its text, without what belongs behind it; the answer as such comes to its end.
    pub break_stream: bool,
    /// Resets the connection there; an answer without a stream is torn in two.
    pub reset: bool,
    /// Where a stream breaks instead; it breaks then even if nothing else says so.
    pub break_in: Option<Place>,
    /// How many calls break off before one does not; absent: all.
    pub break_times: Option<u64>,
    /// Wait before the first piece of text, in milliseconds; the answer has begun by then.
    pub first_delay_ms: u64,
    /// Pieces that the arguments of each tool call come in; 0 is 1.
    pub tool_call_pieces: usize,
    /// After its text comes something that is no JSON.
    pub invalid_json: bool,
    /// After its text comes an error with this message.
    pub stream_error: Option<String>,
}

impl Rule {
    /// Whether a stream ends without its end.
    pub fn breaks(&self) -> bool {
        let ends_otherwise = self.invalid_json || self.stream_error.is_some();
        self.break_stream || self.reset || (self.break_in.is_some() && !ends_otherwise)
    }
}

/// What a request must have; absent conditions hold always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {
    /// Exactly this model.
    pub model: Option<String>,
    /// The last user message contains this.
    pub contains: Option<String>,
    /// The last user message is this.
    pub equals: Option<String>,
    /// Some system message contains this.
    pub system_contains: Option<String>,
    /// Whether tools are offered.
    pub has_tools: Option<bool>,
    /// So many messages in all: a round of an agent.
    pub messages: Option<u64>,
}

/// The text of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// A text per call; the last one repeats.
    Texts(Vec<String>),
    /// The pieces of a stream; joined without streaming.
    Chunks(Vec<String>),
    /// Something of the request.
    Echo(Echo),
}

impl Default for Says {
    fn default() -> Self {
        Self::Texts(vec![String::new()])
    }
}

/// Where a stream breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the middle of what follows the text: with calls of tools, within them.
    Calls,
    /// Within an event.
    Event,
    /// Within a character of an event.
    Character,
}

/// What of a request is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    /// All messages, as a JSON list of `[role, content]`.
    Messages,
    /// The text of the last user message.
    LastUser,
    /// The text of the last message.
    LastMessage,
    /// All further fields, as a JSON object with sorted keys.
    Params,
    /// The tools, as JSON.
    Tools,
}

/// A rules file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The file cannot be read.
    #[error("cannot read the rules file {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The text is not JSON.
    #[error("the rules are not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The document as a whole is something else.
    #[error("{0}; write a list of rules, or {{\"llm\": [rules]}}, or {{\"mocks\": {{\"llm\": [rules]}}}}")]
    Shape(String),
    /// A rule is wrong.
    #[error("rule {index}, key {key:?}: {reason}")]
    Rule {
        /// Which one, from 0.
        index: usize,
        /// Which key of it, with a dot before a key within.
        key: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

/// Reads a rules file.
///
/// # Errors
/// [`RulesError`], naming the first mistake.
pub fn load(path: &Path) -> Result<Rules, RulesError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| RulesError::Read { path: path.display().to_string(), source })?;
    parse(&serde_json::from_str(&text)?)
}

/// Reads rules from a list of rules, an object with `llm`, or a conformance case.
///
/// # Errors
/// [`RulesError`], naming the first mistake.
pub fn parse(document: &Json) -> Result<Rules, RulesError> {
    let list = match document {
        Json::Array(items) => items,
        Json::Object(map) => {
            let holder = match map.get("mocks") {
                Some(mocks) => mocks,
                None => document,
            };
            match holder.get("llm") {
                Some(Json::Array(items)) => items,
                Some(_) => return Err(RulesError::Shape("\"llm\" is not a list".into())),
                None if map.contains_key("mocks") => return Ok(Rules::List(Vec::new())),
                None => return Err(RulesError::Shape("there are no rules in the document".into())),
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            return Err(RulesError::Shape("the document is neither a list nor an object".into()));
        }
    };
    let rule = |(index, item)| {
        reading::rule(item).map_err(|reading::Wrong { key, reason }| RulesError::Rule { index, key, reason })
    };
    list.iter().enumerate().map(rule).collect::<Result<_, _>>().map(Rules::List)
}
