//! The node's message list: its visible part precedes the prompt, and new messages are added when the node ends.

use serde_json::Value as Json;
use tidemill_common::messages;
use tidemill_common::nodes::llm::Role;
use tidemill_common::nodes::llm::files::{self, DETAIL_DEFAULT};
use tidemill_common::nodes::llm::message::{Message, MessagePart, ToolCall};
use tidemill_common::nodes::llm::profile::Conversation;
use tidemill_common::nodes::llm::record::{Secrets, tool_call};

/// Converts a message of the list for the model. Files no model accepts are left out.
pub(super) fn sent(message: &messages::Message) -> Message {
    let file = |file: &Json| files::part(file.as_object().cloned()?, DETAIL_DEFAULT).ok();
    let mut parts = vec![MessagePart::Text(message.words())];
    parts.extend(message.files().iter().filter_map(file));
    let text = |value: &Json, key: &str| value.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let call = |call: &Json| {
        let function = call.get("function").unwrap_or(call);
        ToolCall {
            id: text(call, "id"),
            name: text(function, "name"),
            arguments: text(function, "arguments"),
        }
    };
    let calls = message.tool_calls.as_ref().and_then(Json::as_array);
    Message {
        parts,
        tool_calls: calls.map(|calls| calls.iter().map(call).collect()).unwrap_or_default(),
        tool_call_id: message.tool_call_id.clone(),
        ..Message::text(message.role, "")
    }
}

/// Converts a message for the list, with secrets masked.
pub(super) fn kept(message: &Message, secrets: &Secrets) -> messages::Message {
    let calls: Vec<Json> = message.tool_calls.iter().map(tool_call).collect();
    messages::Message {
        tool_calls: (!calls.is_empty()).then_some(Json::Array(calls)),
        tool_call_id: message.tool_call_id.clone(),
        ..messages::Message::text(message.role, secrets.masked(&message.joined_text()))
    }
}

/// Converts the new messages for the list. The answer gets the role the node sets.
pub(super) fn said(
    messages: &[Message],
    secrets: &Secrets,
    conversation: Option<&Conversation>,
) -> Vec<messages::Message> {
    let mut kept: Vec<messages::Message> = messages.iter().map(|message| kept(message, secrets)).collect();
    let is_answer =
        |message: &&mut messages::Message| message.role == Role::Assistant && message.tool_calls.is_none();
    if let (Some(answer), Some(conversation)) = (kept.iter_mut().rfind(is_answer), conversation) {
        answer.role = conversation.output_as;
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_the_same_after_it_was_kept() {
        let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{}".into() };
        let messages = [
            Message::text(Role::User, "Hi"),
            Message { tool_calls: vec![call], ..Message::text(Role::Assistant, "Look") },
            Message::tool_result("c", "1"),
        ];
        for message in messages {
            assert_eq!(sent(&kept(&message, &Secrets::default())), message);
        }
    }

    #[test]
    fn files_of_a_message_are_sent_as_far_as_models_take_them() {
        let picture =
            json!({"type": "image", "extension": ".png", "mime_type": "image/png", "filename": "p"});
        let content = json!({"text": "see", "files": [picture, 5]});
        let message = messages::Message { content, ..messages::Message::text(Role::User, "") };
        let sent = sent(&message);
        assert_eq!((sent.joined_text().as_str(), sent.files().count()), ("see", 1));
    }

    #[test]
    fn the_answer_may_stand_as_a_message_of_the_user() {
        let conversation = Conversation { id: "main".into(), output_as: Role::User };
        let messages = [Message::text(Role::User, "Q"), Message::text(Role::Assistant, "A")];
        let kept = said(&messages, &Secrets::default(), Some(&conversation));
        assert_eq!(kept.iter().map(|message| message.role).collect::<Vec<_>>(), [Role::User, Role::User]);
    }
}
