//! Lets a model choose the dataset for a question. The datasets are offered like tools, and the model replies with an
//! action.

use serde_json::{Value as Json, json};

use crate::nodes::llm::Role;
use crate::nodes::llm::message::Message;
use crate::nodes::question_classifier::answer::block;
use tidemill_base::value::pyjson;

/// A dataset offered to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice<'a> {
    pub id: &'a str,
    pub name: &'a str,
    /// A description of its content; can be empty.
    pub description: &'a str,
}

const TASK: &str = "You decide where the answer to a question is looked up. You are given knowledge bases, each with its name \
    and what it holds, and a question.\n\
    Choose the one knowledge base that most likely holds the answer. Do not answer the question.\n\
    Reply with one JSON object and nothing else:\n\
    ```json\n{\"action\": \"<name of the knowledge base, unchanged>\", \"action_input\": \"<the question>\"}\n```\n\
    If none of them has anything to do with the question, the action is \"Final Answer\".";

/// The messages that ask for a choice.
pub fn messages(query: &str, choices: &[Choice<'_>]) -> Vec<Message> {
    let offered = |choice: &Choice<'_>| {
        let description = match choice.description.trim() {
            "" => format!("useful for questions about {}", choice.name),
            text => text.replace(['\n', '\r'], ""),
        };
        json!({"name": choice.id, "description": description})
    };
    let tools: Json = choices.iter().map(offered).collect();
    let question = format!("Knowledge bases: {tools}\nQuestion: {query}");
    vec![Message::text(Role::System, TASK), Message::text(Role::User, question)]
}

/// The index of the chosen dataset. `None` when the reply names none of them.
pub fn chosen(reply: &str, choices: &[Choice<'_>]) -> Option<usize> {
    let action = block(reply).and_then(|block| pyjson::loads(block.trim()).ok()).and_then(action);
    let named = action.as_deref().unwrap_or(reply).trim();
    choices.iter().position(|choice| choice.id == named)
}

fn action(answer: Json) -> Option<String> {
    match answer {
        Json::Object(map) => map.get("action").and_then(Json::as_str).map(str::to_owned),
        // Some models reply with a list of one action.
        Json::Array(items) => items.into_iter().next().and_then(action),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}
