//! A model chooses the dataset that a question is for. It is told of each as of a tool, and answers with an action.

use serde_json::{Value as Json, json};

use crate::nodes::llm::Role;
use crate::nodes::llm::message::Message;
use crate::nodes::question_classifier::answer::block;
use crate::value::pyjson;

/// A dataset as the model is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What it holds; perhaps empty.
    pub description: &'a str,
}

const TASK: &str = "You decide where the answer to a question is looked up. You are given knowledge bases, each with its name \
    and what it holds, and a question.\n\
    Choose the one knowledge base that most likely holds the answer. Do not answer the question.\n\
    Reply with one JSON object and nothing else:\n\
    ```json\n{\"action\": \"<name of the knowledge base, unchanged>\", \"action_input\": \"<the question>\"}\n```\n\
    If none of them has anything to do with the question, the action is \"Final Answer\".";

/// The conversation that asks for a choice.
pub fn messages(query: &str, choices: &[Choice<'_>]) -> Vec<Message> {
    let told = |choice: &Choice<'_>| {
        let description = match choice.description.trim() {
            "" => format!("useful for questions about {}", choice.name),
            text => text.replace(['\n', '\r'], ""),
        };
        json!({"name": choice.id, "description": description})
    };
    let tools: Json = choices.iter().map(told).collect();
    let question = format!("Knowledge bases: {tools}\nQuestion: {query}");
    vec![Message::text(Role::System, TASK), Message::text(Role::User, question)]
}

/// The place of the dataset that a reply chooses; none: it chooses none that there is.
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
