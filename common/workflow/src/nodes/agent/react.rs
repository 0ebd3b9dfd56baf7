//! The strategy `ReAct`: the model writes its thoughts and names an action; we run the action and send back its result.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value as Json, json};

use super::prompt::opening;
use crate::nodes::llm::Role;
use crate::nodes::llm::message::{Message, ToolSpec};
use tidemill_base::value::JsonMap;

/// Stop word: keeps the model from inventing a tool's answer.
pub const STOP: &str = "Observation";
/// The action name that means "no more actions".
const FINAL: &str = "final answer";
/// Keys that models use for an action's name, and for its input.
const NAMES: [&str; 5] = ["action", "tool", "tool_name", "name", "function"];
const INPUTS: [&str; 6] = ["action_input", "tool_input", "input", "arguments", "parameters", "args"];

#[allow(clippy::expect_used)]
static THINK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?is)<think[^>]*>.*?</think>").expect("the pattern is a constant"));
/// A prefix counts at the beginning of a line or after white space.
#[allow(clippy::expect_used)]
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:^|[\s])(thought|action|observation|final\s?answer)\s*:")
        .expect("the pattern is a constant")
});

/// An action that the model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// The tool's name.
    pub name: String,
    /// The tool's arguments.
    pub input: Json,
}

/// A parsed reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    pub thought: String,
    /// The tool call, when the model asks for one.
    pub action: Option<Action>,
    /// The final answer, when the model gives one.
    pub answer: Option<String>,
    /// The reply had neither an action nor an answer, so its thought is the answer.
    pub bare: bool,
}

/// The conversation at the beginning of a round. `scratchpad` is the text of the earlier rounds.
pub fn messages(
    instruction: &str,
    tools: &[ToolSpec],
    history: Vec<Message>,
    query: &str,
    scratchpad: &str,
) -> Vec<Message> {
    let mut messages = opening(&system(instruction, tools), history, query);
    if !scratchpad.is_empty() {
        messages.push(Message::text(Role::Assistant, scratchpad));
        messages.push(Message::text(Role::User, "Go on from there."));
    }
    messages
}

fn system(instruction: &str, tools: &[ToolSpec]) -> String {
    let list: Vec<Json> = tools
        .iter()
        .map(
            |tool| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters}),
        )
        .collect();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    format!(
        "{instruction}\n\nAnswer as helpfully and exactly as you can. These tools can be used:\n\n{}\n\nTo use one, write a \
         JSON object with the keys \"action\" (one of: {}) and \"action_input\" (an object with its parameters), one \
         object at a time. Keep to this form:\n\nThought: what you know and what is missing\nAction:\n```\n{{\"action\": \
         \"<name of a tool>\", \"action_input\": {{\"<parameter>\": \"<value>\"}}}}\n```\nObservation: what the tool \
         answered; it is told to you, never write it yourself\n… (Thought, Action and Observation may come several \
         times)\nThought: I know the answer\nFinalAnswer: the answer to the user, in the user's language\n\nBegin with \
         \"Thought:\". When no tool is needed, go to FinalAnswer at once.",
        Json::Array(list),
        names.join(", ")
    )
    .trim_start()
    .to_owned()
}

/// The text that a round adds to the scratchpad.
pub fn remembered(reply: &Reply, observation: &str) -> String {
    let action =
        reply.action.as_ref().map(|action| json!({"action": action.name, "action_input": action.input}));
    let action = action.map(|action| format!("Action:\n```\n{action}\n```\n")).unwrap_or_default();
    format!("Thought: {}\n{action}Observation: {observation}\n", reply.thought)
}

/// Parses a reply.
pub fn read(text: &str) -> Reply {
    let text = THINK.replace_all(text, "");
    let text = text.trim();
    let marks: Vec<(String, usize, usize)> = PREFIX
        .captures_iter(text)
        .filter_map(|found| {
            let (whole, word) = (found.get(0)?, found.get(1)?);
            let word: String = word.as_str().to_lowercase().split_whitespace().collect();
            Some((word, whole.start(), whole.end()))
        })
        .collect();
    let first = |name: &str| marks.iter().find(|(word, _, _)| word == name);
    let action = action_in(text, first("action").map_or(0, |(_, _, end)| *end));
    // An action before an answer runs first: the model wrote the answer without the tool's result.
    if let Some((_, start, end)) = first("finalanswer")
        && action.as_ref().is_none_or(|(_, at)| at > start)
    {
        let answer = text[*end..].trim().to_owned();
        return Reply { thought: thought(&text[..*start]), action: None, answer: Some(answer), bare: false };
    }
    let Some((action, at)) = action else {
        let all = thought(text);
        return Reply { thought: all.clone(), action: None, answer: Some(all), bare: true };
    };
    let before = first("action").map_or(at, |(_, start, _)| *start).min(at);
    let thought = thought(&text[..before]);
    if action.name.eq_ignore_ascii_case(FINAL) || action.name.eq_ignore_ascii_case("finalanswer") {
        let answer = match action.input {
            Json::String(text) => text,
            other => other.to_string(),
        };
        return Reply { thought, action: None, answer: Some(answer), bare: false };
    }
    Reply { thought, action: Some(action), answer: None, bare: false }
}

/// A thought without its prefixes, and without the opening fence of the action after it.
fn thought(text: &str) -> String {
    let text = PREFIX.replace_all(text, "\n");
    let is_open = |word: &str| word.trim().chars().all(char::is_alphanumeric);
    let unfenced = text.rsplit_once("```").filter(|(before, word)| is_open(word) && !before.contains("```"));
    let text = unfenced.map_or(&*text, |(before, _)| before);
    text.trim().trim_matches('`').trim().to_owned()
}

/// The first action object at or after `from`, and its position.
fn action_in(text: &str, from: usize) -> Option<(Action, usize)> {
    let mut at = from;
    while let Some(found) = text[at..].find('{') {
        at += found;
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Json>();
        if let Some(Ok(value)) = values.next()
            && let Some(action) = action_of(&value)
        {
            return Some((action, at));
        }
        at += 1;
    }
    None
}

/// Reads an object as an action, in any of the spellings that models use.
fn action_of(value: &Json) -> Option<Action> {
    let map = value.as_object()?;
    if let [(_, Json::Object(inner))] = map.iter().collect::<Vec<_>>().as_slice()
        && let Some(action) = from_map(inner)
    {
        // Wrapped, as in {"tool_call": {…}}.
        return Some(action);
    }
    from_map(map)
}

fn from_map(map: &JsonMap) -> Option<Action> {
    let name = NAMES.iter().find_map(|key| map.get(*key)?.as_str())?;
    let input = INPUTS.iter().find_map(|key| map.get(*key)).cloned().unwrap_or_else(|| json!({}));
    Some(Action { name: name.to_owned(), input })
}

/// The arguments of an action: from an object, from an object written as text, or from the value of the first
/// parameter.
pub fn arguments(input: &Json, parameters: &[String]) -> JsonMap {
    let parsed = match input {
        Json::String(text) => serde_json::from_str(text).unwrap_or_else(|_| input.clone()),
        other => other.clone(),
    };
    match (parsed, parameters) {
        (Json::Object(map), _) => map,
        (Json::Null, _) | (_, []) => JsonMap::new(),
        (value, [first, ..]) => JsonMap::from_iter([(first.clone(), value)]),
    }
}
