//! The answers of a mock without rules. It repeats the user's message, so that one sees what was asked; where a request
//! wants something of a certain form, it gives that, so that a first try of a workflow reaches its end: `asked.rs` decides
//! what is wanted, `fitting.rs` makes up values.

mod asked;
mod fitting;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value as Json, json};

use self::asked::{Asked, asked};
use super::matching;
use super::reply::dump;
use super::rules::{Rule, Says};

/// Texts that fit where some are wanted, such as questions.
const QUESTIONS: [&str; 3] = ["What does that mean?", "Can you give an example?", "What comes next?"];
/// Longest part of a tool's answer that is repeated, in characters.
const RESULT_CHARS_MAX: usize = 500;

/// The rule for a request to a server without rules.
pub fn rule(body: &Json) -> Rule {
    let (text, tool_calls) = reply(&asked(body), body);
    let chunks: Vec<String> = text.split_inclusive(' ').map(str::to_owned).collect();
    let words = |text: &str| json!(text.split_whitespace().count());
    let prompt: String = matching::messages(body)
        .iter()
        .map(|message| matching::text_of(message.get("content")) + " ")
        .collect();
    let mut usage = Map::new();
    usage.insert("prompt_tokens".into(), words(&prompt));
    usage.insert("completion_tokens".into(), words(&text));
    Rule { says: Says::Chunks(chunks), tool_calls, usage, ..Rule::default() }
}

/// The text of the reply and its tool calls.
fn reply(asked: &Asked, body: &Json) -> (String, Vec<(String, String)>) {
    let text = match asked {
        Asked::Call { tool, schema } => {
            let arguments = dump(&fitting::object(schema));
            return (String::new(), vec![(tool.clone(), arguments)]);
        }
        Asked::Action { tool, schema } => {
            let action = json!({"action": tool, "action_input": fitting::object(schema)});
            format!("Thought: I try the first tool.\nAction:\n```\n{}\n```\n", dump(&action))
        }
        Asked::FinalAnswer => {
            // The last message is the engine's own after a tool has answered.
            let answer = asked::observed(body).map_or_else(|| sentence(body), |result| answered(&result));
            format!("Thought: I know the answer.\nFinalAnswer: {answer}")
        }
        Asked::WrittenCall { tool, schema, is_xml } => written(tool, &fitting::object(schema), *is_xml),
        Asked::Fitting(schema) => dump(&fitting::value(schema, "value")),
        Asked::AnyObject => dump(&json!({"answer": sentence(body)})),
        Asked::Class { id, name } => {
            let class = json!({"keywords": [], "category_id": id, "category_name": name});
            format!("```json\n{}\n```", dump(&class))
        }
        Asked::Texts => dump(&json!(QUESTIONS)),
        Asked::Answer => sentence(body),
    };
    (text, Vec::new())
}

/// A friendly sentence with the answer of the tool, or with the user's message.
fn sentence(body: &Json) -> String {
    if let Some(result) = asked::result(body) {
        return answered(&result);
    }
    let said = matching::last_user(body);
    match said.trim() {
        "" => "Hello! You have not said anything yet.".to_owned(),
        said => format!("You said: {said}"),
    }
}

fn answered(result: &str) -> String {
    let begin: String = result.chars().take(RESULT_CHARS_MAX).collect();
    format!("The tool answered: {begin}")
}

/// A call as text, in the form of a profile's `tool_mode`.
fn written(tool: &str, arguments: &Json, is_xml: bool) -> String {
    if is_xml {
        format!(
            "<tool_use><tool_name>{tool}</tool_name><parameters>{}</parameters></tool_use>",
            dump(arguments)
        )
    } else {
        let call = json!({"tool": tool, "parameters": arguments});
        format!("<<<TOOL_CALL>>>{}<<<END_TOOL_CALL>>>", dump(&call))
    }
}
