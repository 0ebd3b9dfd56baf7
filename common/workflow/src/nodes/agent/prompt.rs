//! Messages of the strategies to a model, and the text that a model gets for a tool's answer.

use serde_json::{Value as Json, json};

use super::parameters::AgentTool;
use crate::nodes::llm::Role;
use crate::nodes::llm::message::{Message, MessagePart, ToolSpec};
use crate::nodes::tool::{Declaration, Message as ToolMessage};
use tidemill_base::value::JsonMap;

/// The answer to a tool call after the last round (Dify's words).
pub fn limit_reached(iterations_max: u64, tool: &str) -> String {
    format!(
        "Maximum iteration limit ({iterations_max}) reached. Cannot call tool '{tool}'. Please consider increasing the \
         iteration limit."
    )
}

/// The answer to a call of an unknown tool (Dify's words).
pub fn unknown_tool(tool: &str) -> String {
    format!("there is not a tool named {tool}")
}

/// The answer to a failed tool call (Dify's words).
pub fn failed_tool(error: &str) -> String {
    format!("tool invoke error: {error}")
}

/// The first messages of the conversation: instruction, history, question.
pub fn opening(instruction: &str, history: Vec<Message>, query: &str) -> Vec<Message> {
    let system = (!instruction.is_empty()).then(|| Message::text(Role::System, instruction));
    system.into_iter().chain(history).chain([Message::text(Role::User, query)]).collect()
}

/// The tool's specification for the model, without fixed parameters.
pub fn spec(tool: &AgentTool, declaration: Option<&Declaration>) -> ToolSpec {
    let said = declaration.map(|declaration| declaration.description.clone()).unwrap_or_default();
    let mut parameters =
        declaration.map_or_else(|| json!({"type": "object", "properties": {}}), Declaration::schema);
    if let Some(properties) = parameters.get_mut("properties").and_then(Json::as_object_mut) {
        properties.retain(|name, _| !tool.fixed.contains_key(name));
    }
    if let Some(required) = parameters.get_mut("required").and_then(Json::as_array_mut) {
        required.retain(|name| name.as_str().is_none_or(|name| !tool.fixed.contains_key(name)));
    }
    ToolSpec { name: tool.name.clone(), description: tool.description.clone().unwrap_or(said), parameters }
}

/// Replaces files of earlier messages by words, so that they are not sent again.
pub fn without_files(messages: &mut [Message]) {
    for message in messages.iter_mut().filter(|message| message.role == Role::User) {
        for part in &mut message.parts {
            if let MessagePart::File(file) = part {
                let word = if file.kind == crate::nodes::llm::message::MediaKind::Image {
                    "[image]"
                } else {
                    "[file]"
                };
                *part = MessagePart::Text(word.into());
            }
        }
    }
}

/// The arguments of a call: those from the model, overridden by the fixed ones.
///
/// # Errors
/// The arguments are not a JSON object.
pub fn arguments(tool: &AgentTool, text: &str) -> Result<JsonMap, String> {
    let mut arguments = match text.trim() {
        "" => JsonMap::new(),
        text => match serde_json::from_str(text) {
            Ok(Json::Object(map)) => map,
            Ok(_) => return Err(format!("the arguments of {} are not a JSON object: {text}", tool.name)),
            Err(error) => return Err(format!("the arguments of {} are not JSON: {error}", tool.name)),
        },
    };
    arguments.extend(tool.fixed.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(arguments)
}

/// The text of a tool's message for the model. `None` when the message is not meant for the model.
pub fn words(message: &ToolMessage) -> Option<String> {
    match message {
        ToolMessage::Text(text) => Some(text.clone()),
        ToolMessage::Link { text, .. } => {
            Some(format!("result link: {text}. please tell user to check it."))
        }
        ToolMessage::Image { .. } => Some(
            "An image was made and is shown to the user already; do not make another one, and tell the user to look at it."
                .into(),
        ),
        ToolMessage::Json(value) => Some(format!("tool response: {value}.")),
        ToolMessage::Blob { filename, .. } => {
            Some(format!("Generated file {}.", filename.as_deref().unwrap_or("without a name")))
        }
        ToolMessage::File(file) => {
            let name = file.as_ref().and_then(|file| file.get("filename")?.as_str());
            Some(format!("Generated file {}.", name.unwrap_or("without a name")))
        }
        ToolMessage::Variable { name, value, .. } => {
            Some(format!("tool response: {}.", json!({name.as_str(): value})))
        }
        ToolMessage::BlobChunk { .. }
        | ToolMessage::Spent { .. }
        | ToolMessage::Charged(_)
        | ToolMessage::Ignored => None,
    }
}
