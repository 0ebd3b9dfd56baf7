//! Tool calls written in a model's text, for models whose API has no tool calls: the instructions, the parser, and a
//! conversation with calls as plain text.
//!
//! A call is `<tool_use><tool_name>…</tool_name><parameters>…</parameters></tool_use>`, or JSON between
//! `<<<TOOL_CALL>>>` and `<<<END_TOOL_CALL>>>`. Both are read, whichever the instructions named.

use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::super::Role;
use super::super::message::{Message, MessagePart, ToolCall, ToolSpec};
use super::tool_mode::ToolMode;
use tidemill_base::value::JsonMap;

const XML: (&str, &str) = ("<tool_use>", "</tool_use>");
const JSON: (&str, &str) = ("<<<TOOL_CALL>>>", "<<<END_TOOL_CALL>>>");

/// Instructions for the model: the tools and how to call them.
pub fn instructions(tools: &[ToolSpec], mode: ToolMode) -> String {
    let example =
        ToolCall { id: String::new(), name: "NAME".into(), arguments: r#"{"argument":"value"}"#.into() };
    let mut text = format!(
        "You can use the tools below. To use one, write exactly this, for each call, with the tool's name and arguments:\n{}\n\
         The results follow in the next message. Without such a block your reply is the answer.\n\nTools:\n",
        written(&example, mode)
    );
    for tool in tools {
        let _ = writeln!(
            text,
            "- {}: {}\n  arguments (JSON schema): {}",
            tool.name, tool.description, tool.parameters
        );
    }
    text
}

/// The calls in a text, and the text without them. A call's id is built from `round` and its position.
pub fn read(text: &str, round: u64) -> (String, Vec<ToolCall>) {
    for (marks, arguments) in [(XML, of_xml as fn(&str) -> Found), (JSON, of_json)] {
        let (rest, found) = cut(text, marks);
        if !found.is_empty() {
            let call = |(at, block): (usize, &str)| {
                let (name, arguments) = arguments(block);
                ToolCall { id: format!("call_{round}_{}", at + 1), name, arguments }
            };
            return (rest.trim().to_owned(), found.into_iter().enumerate().map(call).collect());
        }
    }
    (text.to_owned(), Vec::new())
}

/// A conversation for a model without tool calls: calls are in the assistant's text, results in user messages.
pub fn as_text(messages: Vec<Message>, mode: ToolMode) -> Vec<Message> {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut texts: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        let calls = message.tool_calls;
        names.extend(calls.iter().map(|call| (call.id.clone(), call.name.clone())));
        if message.role == Role::Tool {
            let id = message.tool_call_id.unwrap_or_default();
            let name =
                names.iter().rev().find(|(known, _)| *known == id).map_or("", |(_, name)| name.as_str());
            let text: String = message.parts.iter().filter_map(text_of).collect();
            let line = format!("Result of {name}: {text}");
            match texts.last_mut() {
                // Results of one reply become one message.
                Some(last) if last.role == Role::User && is_results(last) => {
                    last.parts.push(MessagePart::Text(format!("\n{line}")))
                }
                _ => texts.push(Message::text(Role::User, line)),
            }
            continue;
        }
        let mut parts = message.parts;
        parts.extend(calls.iter().map(|call| MessagePart::Text(format!("\n{}", written(call, mode)))));
        texts.push(Message { tool_calls: Vec::new(), parts, ..Message::text(message.role, "") });
    }
    texts
}

fn is_results(message: &Message) -> bool {
    message.parts.first().and_then(text_of).is_some_and(|text| text.starts_with("Result of "))
}

fn text_of(part: &MessagePart) -> Option<&str> {
    match part {
        MessagePart::Text(text) => Some(text),
        MessagePart::File(_) => None,
    }
}

/// A call in the format that the model must write.
fn written(call: &ToolCall, mode: ToolMode) -> String {
    let arguments: Json =
        serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.as_str().into());
    match mode {
        ToolMode::Json => {
            format!("{}\n{}\n{}", JSON.0, json!({"tool": call.name, "parameters": arguments}), JSON.1)
        }
        ToolMode::Xml | ToolMode::FunctionCall => format!(
            "{}<tool_name>{}</tool_name><parameters>{arguments}</parameters>{}",
            XML.0, call.name, XML.1
        ),
    }
}

/// The name, and the arguments as JSON text.
type Found = (String, String);

/// The text without its blocks, and the contents of the blocks.
fn cut<'a>(text: &'a str, (open, close): (&str, &str)) -> (String, Vec<&'a str>) {
    let (mut rest, mut found, mut at) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = at.split_once(open) {
        let Some((block, rest_of_text)) = after.split_once(close) else { break };
        rest.push_str(before);
        found.push(block);
        at = rest_of_text;
    }
    rest.push_str(at);
    (rest, found)
}

fn of_xml(block: &str) -> Found {
    let within = |tag: &str| {
        let (_, after) = block.split_once(&format!("<{tag}>"))?;
        after.rsplit_once(&format!("</{tag}>")).map(|(text, _)| text.trim())
    };
    let parameters = within("parameters").unwrap_or_default();
    let name = within("tool_name").unwrap_or_default();
    (name.to_owned(), if parameters.starts_with('<') { of_tags(parameters) } else { parameters.to_owned() })
}

/// `<q>x</q><n>2</n>`: one tag per parameter; its value is JSON if it can be parsed as such.
fn of_tags(mut text: &str) -> String {
    let mut map = JsonMap::new();
    while let Some((name, after)) = text.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        let Some((value, rest_of_text)) = after.split_once(&format!("</{name}>")) else { break };
        let value = serde_json::from_str(value.trim()).unwrap_or_else(|_| value.into());
        map.insert(name.trim().to_owned(), value);
        text = rest_of_text.trim_start();
    }
    if text.is_empty() { Json::Object(map).to_string() } else { text.to_owned() }
}

/// Text that cannot be parsed becomes the arguments, so that the call fails on them.
fn of_json(block: &str) -> Found {
    let Ok(Json::Object(map)) = serde_json::from_str::<Json>(block.trim()) else {
        return (String::new(), block.trim().to_owned());
    };
    let name = map.get("tool").and_then(Json::as_str).unwrap_or_default().to_owned();
    (name, map.get("parameters").map_or_else(|| "{}".into(), Json::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(text: &str) -> (String, Vec<(String, String)>) {
        let (rest, calls) = read(text, 2);
        (rest, calls.into_iter().map(|call| (call.name, call.arguments)).collect())
    }

    #[test]
    fn calls_are_read_out_of_either_form() {
        let pair = |name: &str, arguments: &str| (name.to_owned(), arguments.to_owned());
        let q = r#"{"q":"x"}"#;
        for (text, rest, found) in [
            ("plain <b>text</b>", "plain <b>text</b>", vec![]),
            (
                r#"Look. <tool_use><tool_name> search </tool_name><parameters>{"q":"x"}</parameters></tool_use> Bye"#,
                "Look.  Bye",
                vec![pair("search", q)],
            ),
            (
                "<tool_use><tool_name>f</tool_name><parameters><q>x</q> <n>2</n></parameters></tool_use>",
                "",
                vec![pair("f", r#"{"n":2,"q":"x"}"#)],
            ),
            (
                "<<<TOOL_CALL>>>\n{\"tool\":\"a\",\"parameters\":{\"q\":\"x\"}}\n<<<END_TOOL_CALL>>><<<TOOL_CALL>>>{\"tool\":\"b\"}<<<END_TOOL_CALL>>>",
                "",
                vec![pair("a", q), pair("b", "{}")],
            ),
            ("<<<TOOL_CALL>>>{\"q\":<<<END_TOOL_CALL>>>", "", vec![pair("", "{\"q\":")]),
            (
                "<tool_use><tool_name>f</tool_name><parameters>{\"q\":</parameters></tool_use>",
                "",
                vec![pair("f", "{\"q\":")],
            ),
            ("<tool_use> never closed", "<tool_use> never closed", vec![]),
        ] {
            let (mut got_rest, mut got) = calls(text);
            // The order of keys does not matter here.
            for (_, arguments) in &mut got {
                if let Ok(value) = serde_json::from_str::<Json>(arguments) {
                    let mut pairs: Vec<_> =
                        value.as_object().cloned().unwrap_or_default().into_iter().collect();
                    pairs.sort_by(|a, b| a.0.cmp(&b.0));
                    *arguments = Json::Object(pairs.into_iter().collect()).to_string();
                }
            }
            got_rest.truncate(got_rest.len());
            assert_eq!((got_rest.as_str(), got), (rest, found), "{text}");
        }
        assert_eq!(read("<tool_use></tool_use>", 2).1[0].id, "call_2_1");
    }

    #[test]
    fn a_call_in_the_format_of_the_instructions_is_read() {
        let spec =
            ToolSpec { name: "f".into(), description: "does".into(), parameters: json!({"type": "object"}) };
        for mode in [ToolMode::Xml, ToolMode::Json] {
            let texts = instructions(std::slice::from_ref(&spec), mode);
            assert!(texts.contains("- f: does") && texts.contains(r#"{"type":"object"}"#), "{texts}");
            let (_, calls) = read(&texts, 1);
            assert_eq!(
                (calls[0].name.as_str(), calls[0].arguments.as_str()),
                ("NAME", r#"{"argument":"value"}"#)
            );
        }
    }

    #[test]
    fn a_conversation_with_calls_becomes_text() {
        let call = |id: &str| ToolCall { id: id.into(), name: format!("tool_{id}"), arguments: "{}".into() };
        let with_calls =
            Message { tool_calls: vec![call("a"), call("b")], ..Message::text(Role::Assistant, "Look:") };
        let messages = vec![
            Message::text(Role::User, "Hi"),
            with_calls,
            Message::tool_result("a", "1"),
            Message::tool_result("b", "2"),
        ];
        let texts = as_text(messages, ToolMode::Json);
        let roles: Vec<Role> = texts.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
        assert_eq!(read(&texts[1].joined_text(), 1).1.len(), 2);
        assert_eq!(texts[2].joined_text(), "Result of tool_a: 1\nResult of tool_b: 2");
        assert!(texts.iter().all(|message| message.tool_calls.is_empty() && message.tool_call_id.is_none()));
    }
}
