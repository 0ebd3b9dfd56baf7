//! The rules for the mock's answers, read from a JSON file. Every key is checked, so that errors name the place of a
//! mistake.

mod reading;

use std::path::Path;

use serde_json::{Map, Value as Json};

/// The rules of a server, in order. The first one that matches a request is used.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Rules {
    /// No rules: the answer is a friendly sentence with the last user message.
    #[default]
    Friendly,
    /// A list of rules. A request that matches none is refused.
    List(Vec<Rule>),
}

/// A rule: conditions, and the answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rule {
    /// Conditions for a request.
    pub matches: Match,
    /// The text of the answer.
    pub says: Says,
    /// Tool calls in the reply: name, and arguments as JSON text.
    pub tool_calls: Vec<(String, String)>,
    /// Reasoning before the text. Anthropic's models include it only on request, and sign it.
    pub thinking: String,
    /// Images after the text, as URLs; only in OpenAI's chat.
    pub images: Vec<String>,
    /// The finish reason; by default `tool_calls` with tool calls, else `stop`.
    pub finish_reason: Option<Json>,
    /// Fields that replace or extend the default token counts.
    pub usage: Map<String, Json>,
    /// Wait before the answer begins, in milliseconds.
    pub delay_ms: u64,
    /// Wait before each piece of text except the first, in milliseconds.
    pub chunk_delay_ms: u64,
    /// Number of calls that fail before one succeeds; by default all, if `status` is set.
    pub fail_times: Option<u64>,
    /// Status of a failing call; by default 500.
    pub status: Option<u16>,
    pub error: Option<String>,
    /// The `type` of errors, also of those within a stream; Ollama's errors have none.
    pub error_type: Option<String>,
    /// The `code` of errors, a text or a number.
    pub error_code: Option<Json>,
    /// Headers of the answer, also of a failing one.
    pub headers: Vec<(String, String)>,
    /// Ends a stream after its text, without the usual end. The HTTP answer itself ends normally.
    pub break_stream: bool,
    /// Resets the connection at that point. An answer without a stream is cut in the middle.
    pub reset: bool,
    /// Another place where a stream breaks. With this set, a stream breaks even without `break_stream`.
    pub break_in: Option<BreakPoint>,
    /// Number of calls that break before one does not; by default all.
    pub break_times: Option<u64>,
    /// Wait before the first piece of text, in milliseconds. The answer has begun before it.
    pub first_delay_ms: u64,
    /// Number of pieces for the arguments of each tool call; 0 means 1.
    pub tool_call_pieces: usize,
    /// After the text, send something that is not JSON.
    pub invalid_json: bool,
    /// After the text, send an error with this message.
    pub stream_error: Option<String>,
}

impl Rule {
    /// Returns true if a stream breaks off before its end.
    pub fn breaks(&self) -> bool {
        let ends_otherwise = self.invalid_json || self.stream_error.is_some();
        self.break_stream || self.reset || (self.break_in.is_some() && !ends_otherwise)
    }
}

/// Conditions for a request. Absent conditions always hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {
    /// The model is exactly this.
    pub model: Option<String>,
    /// The last user message contains this.
    pub contains: Option<String>,
    /// The last user message is exactly this.
    pub equals: Option<String>,
    /// A system message contains this.
    pub system_contains: Option<String>,
    /// The request has tools, or has none.
    pub has_tools: Option<bool>,
    /// The number of messages; this distinguishes the rounds of an agent.
    pub messages: Option<u64>,
}

/// The text of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// One text per call; the last one is repeated.
    Texts(Vec<String>),
    /// The pieces of a stream; joined for an answer without a stream.
    Chunks(Vec<String>),
    /// A part of the request.
    Echo(Echo),
}

impl Default for Says {
    fn default() -> Self {
        Self::Texts(vec![String::new()])
    }
}

/// The place where a stream breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakPoint {
    /// In the middle of the part after the text, which has the tool calls.
    Calls,
    /// Within an event.
    Event,
    /// Within a character of an event.
    Character,
}

/// The part of a request that is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    /// All messages, as a JSON list of `[role, content]`.
    Messages,
    /// The text of the last user message.
    LastUser,
    /// The text of the last message.
    LastMessage,
    /// All other fields, as a JSON object with sorted keys.
    Params,
    /// The tools, as JSON.
    Tools,
}

/// An error in a rules file.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The file cannot be read.
    #[error("cannot read the rules file {path}: {source}")]
    Read { path: String, source: std::io::Error },
    /// The text is not JSON.
    #[error("the rules are not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The whole document has the wrong form.
    #[error("{0}; write a list of rules, or {{\"llm\": [rules]}}, or {{\"mocks\": {{\"llm\": [rules]}}}}")]
    Shape(String),
    /// A rule has a mistake.
    #[error("rule {index}, key {key:?}: {reason}")]
    Rule {
        /// The number of the rule, from 0.
        index: usize,
        /// The key; inner keys are separated by a dot.
        key: String,
        /// The problem, and the allowed values.
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
                None => return Err(RulesError::Shape("the document has no rules".into())),
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
