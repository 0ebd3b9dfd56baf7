//! What the mock is to say: rules from a JSON file, checked key by key, so that a mistake is named with its place.

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
    /// Headers of the answer, whether it fails or not.
    pub headers: Vec<(String, String)>,
    /// Ends a stream after its text, as a broken connection does.
    pub break_stream: bool,
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
        read_rule(item).map_err(|Wrong { key, reason }| RulesError::Rule { index, key, reason })
    };
    list.iter().enumerate().map(rule).collect::<Result<_, _>>().map(Rules::List)
}

/// A mistake within a rule.
struct Wrong {
    key: String,
    reason: String,
}

fn read_rule(value: &Json) -> Result<Rule, Wrong> {
    let Json::Object(map) = value else {
        return Err(Wrong { key: String::new(), reason: "a rule must be an object".into() });
    };
    let mut rule = Rule::default();
    for (key, value) in map {
        set(&mut rule, key, value).map_err(|wrong| Wrong {
            key: if wrong.key.is_empty() { key.clone() } else { format!("{key}.{}", wrong.key) },
            reason: wrong.reason,
        })?;
    }
    let sources =
        ["reply", "chunks", "echo"].into_iter().filter(|key| map.contains_key(*key)).collect::<Vec<_>>();
    match sources.as_slice() {
        [_, second, ..] => {
            Err(Wrong { key: (*second).into(), reason: format!("stands beside {:?}", sources[0]) })
        }
        [] | [_] => Ok(rule),
    }
}

fn set(rule: &mut Rule, key: &str, value: &Json) -> Result<(), Wrong> {
    match key {
        "match" => rule.matches = read_match(value)?,
        "reply" => {
            let texts = if value.is_string() { vec![text(value)?] } else { texts(value)? };
            if texts.is_empty() {
                return Err(wrong("a text, or a list of at least one text", value));
            }
            rule.says = Says::Texts(texts);
        }
        "chunks" => rule.says = Says::Chunks(texts(value)?),
        "echo" => rule.says = Says::Echo(echo(value)?),
        "tool_calls" => {
            rule.tool_calls = list(value)?.iter().map(tool_call).collect::<Result<_, _>>()?;
        }
        "thinking" => rule.thinking = text(value)?,
        "images" => rule.images = texts(value)?,
        "finish_reason" => rule.finish_reason = Some(value.clone()),
        "usage" => rule.usage = usage(value)?,
        "delay_ms" => rule.delay_ms = number(value)?,
        "chunk_delay_ms" => rule.chunk_delay_ms = number(value)?,
        "fail_times" => rule.fail_times = Some(number(value)?),
        "status" => rule.status = Some(status(value)?),
        "error" => rule.error = Some(text(value)?),
        "headers" => rule.headers = headers(value)?,
        "break_stream" => rule.break_stream = truth(value)?,
        "break_times" => rule.break_times = Some(number(value)?),
        "first_delay_ms" => rule.first_delay_ms = number(value)?,
        "tool_call_pieces" => {
            rule.tool_call_pieces = usize::try_from(number(value)?).unwrap_or(usize::MAX);
        }
        "invalid_json" => rule.invalid_json = truth(value)?,
        "stream_error" => rule.stream_error = Some(text(value)?),
        // People leave notes in their files.
        "description" => {}
        _ => {
            return Err(unknown(
                "match, reply, chunks, echo, tool_calls, thinking, images, finish_reason, usage, delay_ms, chunk_delay_ms, \
                 fail_times, status, error, headers, break_stream, break_times, first_delay_ms, tool_call_pieces, invalid_json, \
                 stream_error, description",
            ));
        }
    }
    Ok(())
}

fn read_match(value: &Json) -> Result<Match, Wrong> {
    let mut matches = Match::default();
    for (key, value) in object(value)? {
        let read = || text(value).map(Some);
        let set = match key.as_str() {
            "model" => read().map(|text| matches.model = text),
            "contains" => read().map(|text| matches.contains = text),
            "equals" => read().map(|text| matches.equals = text),
            "system_contains" => read().map(|text| matches.system_contains = text),
            "has_tools" => truth(value).map(|truth| matches.has_tools = Some(truth)),
            "messages" => match value.as_u64() {
                Some(count) => {
                    matches.messages = Some(count);
                    Ok(())
                }
                None => Err(Wrong { key: String::new(), reason: format!("must be a number, not {value}") }),
            },
            _ => Err(unknown("model, contains, equals, system_contains, has_tools, messages")),
        };
        set.map_err(|wrong| Wrong { key: key.clone(), ..wrong })?;
    }
    Ok(matches)
}

fn echo(value: &Json) -> Result<Echo, Wrong> {
    match value.as_str() {
        Some("messages") => Ok(Echo::Messages),
        Some("last_user") => Ok(Echo::LastUser),
        Some("last_message") => Ok(Echo::LastMessage),
        Some("params") => Ok(Echo::Params),
        Some("tools") => Ok(Echo::Tools),
        _ => Err(wrong("one of messages, last_user, last_message, params, tools", value)),
    }
}

fn tool_call(value: &Json) -> Result<(String, String), Wrong> {
    let name = value.get("name").and_then(Json::as_str);
    let (Some(name), Some(arguments)) = (name, value.get("arguments")) else {
        return Err(wrong("a list of {\"name\": text, \"arguments\": text or object}", value));
    };
    let arguments = arguments.as_str().map_or_else(|| super::reply::dump(arguments), str::to_owned);
    Ok((name.to_owned(), arguments))
}

fn usage(value: &Json) -> Result<Map<String, Json>, Wrong> {
    let map = object(value)?;
    for key in ["prompt_tokens", "completion_tokens"] {
        if let Some(count) = map.get(key) {
            number(count).map_err(|wrong| Wrong { key: key.into(), ..wrong })?;
        }
    }
    Ok(map.clone())
}

fn headers(value: &Json) -> Result<Vec<(String, String)>, Wrong> {
    let header = |(name, value): (&String, &Json)| {
        let value = text(value).map_err(|wrong| Wrong { key: name.clone(), ..wrong })?;
        let sendable = name.parse::<axum::http::HeaderName>().is_ok()
            && value.parse::<axum::http::HeaderValue>().is_ok();
        if sendable {
            Ok((name.clone(), value))
        } else {
            Err(Wrong { key: name.clone(), reason: "cannot be sent".into() })
        }
    };
    object(value)?.iter().map(header).collect()
}

fn status(value: &Json) -> Result<u16, Wrong> {
    let status = value.as_u64().and_then(|status| u16::try_from(status).ok());
    status
        .filter(|status| (200..600).contains(status))
        .ok_or_else(|| wrong("a status from 200 to 599", value))
}

fn number(value: &Json) -> Result<u64, Wrong> {
    value.as_u64().ok_or_else(|| wrong("a whole number from 0 up", value))
}

fn truth(value: &Json) -> Result<bool, Wrong> {
    value.as_bool().ok_or_else(|| wrong("true or false", value))
}

fn text(value: &Json) -> Result<String, Wrong> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong("a text", value))
}

fn texts(value: &Json) -> Result<Vec<String>, Wrong> {
    list(value)?.iter().map(text).collect()
}

fn list(value: &Json) -> Result<&Vec<Json>, Wrong> {
    value.as_array().ok_or_else(|| wrong("a list", value))
}

fn object(value: &Json) -> Result<&Map<String, Json>, Wrong> {
    value.as_object().ok_or_else(|| wrong("an object", value))
}

fn wrong(expected: &str, value: &Json) -> Wrong {
    Wrong { key: String::new(), reason: format!("must be {expected}, not {value}") }
}

fn unknown(known: &str) -> Wrong {
    Wrong { key: String::new(), reason: format!("there is no such key; known are {known}") }
}
