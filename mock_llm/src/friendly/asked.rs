//! Decides what a request asks the mock for: a call of a tool, JSON of a form, one of some classes, or just an answer.
//!
//! Fields of the request decide first: `tools`, `response_format`, `format`, `stop`. Where a node asks in words, the marks
//! and the JSON that its prompt carries decide (a schema between tags, categories with their ids), never the words
//! around them, which the author of a workflow may write, too.

use serde_json::Value as Json;

use crate::matching::{messages, text_of};

/// The wish of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Asked {
    /// A call of this tool by the API.
    Call { tool: String, schema: Json },
    /// A call of this tool as text, as the strategy ReAct reads it.
    Action { tool: String, schema: Json },
    /// The end of such a conversation.
    FinalAnswer,
    /// A call of this tool as text, between the marks of a profile's `tool_mode`.
    WrittenCall { tool: String, schema: Json, is_xml: bool },
    /// JSON that fits a schema.
    Fitting(Json),
    /// Any JSON object.
    AnyObject,
    /// One of some classes; the first one.
    Class { id: Json, name: Json },
    /// A JSON array of some texts.
    Texts,
    /// Text.
    Answer,
}

/// The stop word of the strategy ReAct.
const REACT_STOP: &str = "Observation";
/// How a scratchpad of ReAct names the answer of a tool.
const REACT_RESULT: &str = "\nObservation:";
/// The marks of calls as text, in XML and in JSON.
const XML_CALL: &str = "<tool_use>";
const JSON_CALL: &str = "<<<TOOL_CALL>>>";
/// How the results of such calls begin.
const WRITTEN_RESULT: &str = "Result of ";
/// The array with which a prompt shows that it wants one of texts.
const TEXTS: &str = "[\"…\", \"…\", \"…\"]";
/// Before the schema of a tool in the instructions for calls as text.
const WRITTEN_SCHEMA: &str = "arguments (JSON schema): ";

/// Decides for a request in the form of OpenAI's chat.
pub(super) fn asked(body: &Json) -> Asked {
    if let Some((tool, schema)) = tool_to_call(body) {
        return Asked::Call { tool, schema };
    }
    let format = &body["response_format"];
    if format["type"] == "json_schema" {
        let schema = &format["json_schema"];
        return Asked::Fitting(schema.get("schema").unwrap_or(schema).clone());
    }
    if body["format"].is_object() {
        return Asked::Fitting(body["format"].clone());
    }
    if let Some(asked) = in_words(body) {
        return asked;
    }
    match format["type"] == "json_object" || body["format"] == "json" {
        true => Asked::AnyObject,
        false => Asked::Answer,
    }
}

/// The tool that the request has for the mock: the one that it must call, else the first. None after a result, so that
/// each question leads to one call and then to an answer.
fn tool_to_call(body: &Json) -> Option<(String, Json)> {
    let tools = body["tools"].as_array()?;
    let choice = &body["tool_choice"];
    if choice == "none" || choice["type"] == "none" || has_result(body) {
        return None;
    }
    let forced = choice["function"]["name"].as_str().or_else(|| choice["name"].as_str());
    let tool = tools.iter().find(|tool| forced.is_some_and(|name| name_of(tool) == Some(name)));
    let tool = tool.or_else(|| tools.first())?;
    let schema = tool["function"].get("parameters").or_else(|| tool.get("input_schema"));
    Some((name_of(tool)?.to_owned(), schema.cloned().unwrap_or_default()))
}

fn name_of(tool: &Json) -> Option<&str> {
    tool["function"]["name"].as_str().or_else(|| tool["name"].as_str())
}

/// Returns true if a tool has answered since the last message of the user.
fn has_result(body: &Json) -> bool {
    let after = messages(body).iter().rev().take_while(|message| !is_question(message));
    after.into_iter().any(is_result)
}

/// The text of the tool that answered last, since the last message of the user.
pub(super) fn result(body: &Json) -> Option<String> {
    let found =
        messages(body).iter().rev().take_while(|message| !is_question(message)).find(|it| is_result(it))?;
    let blocks = found["content"].as_array().into_iter().flatten();
    let of_block = |block: &Json| text_of(block.get("content"));
    let from_blocks: String = blocks.filter(|block| block["type"] == "tool_result").map(of_block).collect();
    Some(if from_blocks.is_empty() { text_of(found.get("content")) } else { from_blocks })
}

/// The last answer of a tool in the scratchpad of ReAct, if the conversation ends with one.
pub(super) fn observed(body: &Json) -> Option<String> {
    let [.., past, _] = messages(body) else { return None };
    let text = text_of(past.get("content"));
    let (_, observed) = text.rsplit_once(REACT_RESULT).filter(|_| past["role"] == "assistant")?;
    Some(observed.trim().to_owned())
}

/// Anthropic's results of tools are in messages of the user.
fn is_result(message: &Json) -> bool {
    let blocks = message["content"].as_array().into_iter().flatten();
    message["role"] == "tool" || blocks.into_iter().any(|block| block["type"] == "tool_result")
}

fn is_question(message: &Json) -> bool {
    message["role"] == "user" && !is_result(message)
}

/// A wish that the texts of the messages carry.
fn in_words(body: &Json) -> Option<Asked> {
    let last = crate::matching::last_user(body);
    let system: Vec<String> = texts(body, "system").collect();
    if stops_at(body, REACT_STOP) {
        return Some(of_react(body, &system));
    }
    if let Some(asked) = written_call(&system, &last) {
        return Some(asked);
    }
    if last.contains(TEXTS) {
        return Some(Asked::Texts);
    }
    if let Some((id, name)) = first_class(&last) {
        return Some(Asked::Class { id, name });
    }
    let within = |text: &str, tag: &str| last_within(text, tag).map(Asked::Fitting);
    let tags = ["structure", "schema"];
    let by_user = tags.into_iter().find_map(|tag| within(&last, tag));
    by_user.or_else(|| system.iter().find_map(|text| within(text, "schema")))
}

fn texts<'a>(body: &'a Json, role: &'a str) -> impl Iterator<Item = String> + 'a {
    let of_role = messages(body).iter().filter(move |message| message["role"] == role);
    of_role.map(|message| text_of(message.get("content")))
}

/// Returns true if the reply is to end before this word. Anthropic and Ollama have other names for the field.
fn stops_at(body: &Json, word: &str) -> bool {
    let stops = [&body["stop"], &body["stop_sequences"], &body["options"]["stop"]];
    stops.into_iter().any(|stop| match stop {
        Json::String(text) => text == word,
        Json::Array(texts) => texts.iter().any(|text| text == word),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => false,
    })
}

fn of_react(body: &Json, system: &[String]) -> Asked {
    let has_acted = texts(body, "assistant").last().is_some_and(|text| text.contains(REACT_RESULT));
    let tool = system.iter().find_map(|text| listed_tool(text)).filter(|_| !has_acted);
    tool.map_or(Asked::FinalAnswer, |(tool, schema)| Asked::Action { tool, schema })
}

/// The first tool of a list of tools that a text carries as JSON.
fn listed_tool(text: &str) -> Option<(String, Json)> {
    text.match_indices("[{").find_map(|(at, _)| {
        let list: Json = first_json(&text[at..])?;
        let tool = &list[0];
        Some((tool["name"].as_str()?.to_owned(), tool.get("parameters")?.clone()))
    })
}

/// A call as text, if the instructions describe tools in this form and none has answered.
fn written_call(system: &[String], last: &str) -> Option<Asked> {
    let instructions = system.iter().find(|text| text.contains(WRITTEN_SCHEMA))?;
    let is_xml = instructions.contains(XML_CALL);
    if !(is_xml || instructions.contains(JSON_CALL)) || last.starts_with(WRITTEN_RESULT) {
        return None;
    }
    let at = instructions.find(WRITTEN_SCHEMA)?;
    let schema = first_json(&instructions[at + WRITTEN_SCHEMA.len()..])?;
    let line = instructions[..at].trim_end().lines().rev().find_map(|line| line.strip_prefix("- "))?;
    let (tool, _) = line.split_once(':')?;
    Some(Asked::WrittenCall { tool: tool.to_owned(), schema, is_xml })
}

/// The first of the categories that a classifier's question carries. The last list counts: examples are before it.
fn first_class(text: &str) -> Option<(Json, Json)> {
    const MARK: &str = "\"categories\": ";
    text.rmatch_indices(MARK).find_map(|(at, _)| {
        let list = first_json(&text[at + MARK.len()..])?;
        let class = &list[0];
        Some((class.get("category_id")?.clone(), class.get("category_name")?.clone()))
    })
}

/// The last JSON object between two tags.
fn last_within(text: &str, tag: &str) -> Option<Json> {
    let open = format!("<{tag}>");
    text.rmatch_indices(&open)
        .find_map(|(at, _)| first_json(&text[at + open.len()..]).filter(Json::is_object))
}

/// The JSON at the beginning of a text; what is after it does not matter.
fn first_json(text: &str) -> Option<Json> {
    serde_json::Deserializer::from_str(text).into_iter::<Json>().next()?.ok()
}
