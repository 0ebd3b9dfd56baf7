//! Conversations as values: a list of `{role, text, files}`. Nodes that call a model output one (`context`), and
//! prompts can include one message by message.

use serde_json::{Value as Json, json};

use super::Role;
use super::files;
use super::message::{Message, MessagePart};
use super::record::Secrets;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::{Segment, SegmentType};

/// The output with the conversation.
pub const CONTEXT: &str = "context";

/// The conversation: the prompt without instructions, and the reply. Secrets are masked, since it is stored and shown.
pub fn build_context(prompt: &[Message], reply: &str, secrets: &Secrets) -> Segment {
    let said = prompt.iter().filter(|message| matches!(message.role, Role::User | Role::Assistant));
    let said = said.filter(|message| !message.is_empty() && message.tool_calls.is_empty());
    let item = |message: &Message| {
        let files: Vec<Json> = message.files().map(|part| Json::Object(part.file.clone())).collect();
        json!({"role": message.role.name(), "text": secrets.masked(&message.joined_text()), "files": files})
    };
    let mut items: Vec<Json> = said.map(item).collect();
    items.push(json!({"role": Role::Assistant.name(), "text": secrets.masked(reply), "files": []}));
    Segment::new(SegmentType::ArrayAny, Json::Array(items))
}

/// True for a non-empty list of such messages.
pub fn is_conversation(value: &Json) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(is_turn))
}

/// The index of the first item that is not a message.
pub fn first_other(items: &[Json]) -> Option<usize> {
    items.iter().position(|item| !is_turn(item))
}

fn is_turn(item: &Json) -> bool {
    let text = |key: &str| item.get(key).and_then(Json::as_str);
    text("role").is_some_and(|role| role_of(role).is_some()) && text("text").is_some()
}

/// The role by name. A tool's result counts as the user's: without its call it could not be sent.
fn role_of(name: &str) -> Option<Role> {
    match name {
        "system" => Some(Role::System),
        "user" | "tool" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        _ => None,
    }
}

/// The messages of a list that [`is_conversation`], with their files; images get this detail.
///
/// # Errors
/// A file that models do not accept.
pub fn messages(value: &Json, detail: &str) -> Result<Vec<Message>, NodeFailure> {
    let mut messages = Vec::new();
    for item in value.as_array().into_iter().flatten() {
        let text = |key: &str| item.get(key).and_then(Json::as_str).unwrap_or_default();
        let Some(role) = role_of(text("role")) else { continue };
        let mut message = Message::text(role, text("text"));
        if text("text").is_empty() {
            message.parts.clear();
        }
        for file in item.get("files").and_then(Json::as_array).into_iter().flatten() {
            if let Some(file) = file.as_object() {
                message.parts.push(files::part(file.clone(), detail)?);
            }
        }
        if !message.parts.is_empty() {
            messages.push(message);
        }
    }
    Ok(messages)
}

/// Messages as the one text of a completion: a line each, followed by all files.
pub fn as_lines(messages: &[Message]) -> Message {
    let line = |message: &Message| format!("{}: {}", message.role.name(), message.joined_text());
    let text: Vec<String> = messages.iter().map(line).collect();
    let files = messages.iter().flat_map(Message::files).cloned().map(MessagePart::File);
    let parts = [MessagePart::Text(text.join("\n"))].into_iter().chain(files).collect();
    Message { parts, ..Message::text(Role::User, "") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ve_a01_a_context_is_the_conversation_without_the_instructions() {
        let prompt =
            [Message::text(Role::System, "Be brief."), Message::text(Role::User, "find papers on Raft")];
        let context = build_context(&prompt, "Raft is …", &Secrets::default());
        let expected = json!([
            {"role": "user", "text": "find papers on Raft", "files": []},
            {"role": "assistant", "text": "Raft is …", "files": []},
        ]);
        assert_eq!((context.ty, &context.value), (SegmentType::ArrayAny, &expected));
        assert!(is_conversation(&context.value));
        let again = messages(&context.value, "high").unwrap();
        assert_eq!(again, [prompt[1].clone(), Message::text(Role::Assistant, "Raft is …")]);
    }

    #[test]
    fn xc_07_a_secret_in_a_message_is_not_stored() {
        let secret = Segment::new(SegmentType::Secret, json!("sk-marker-0123456789"));
        let pool = tidemill_base::value::pool::Pool::new(json!({})).with("env", "KEY", secret);
        let secrets = Secrets::among(vec![("env".into(), "KEY".into())], &pool);
        let prompt = [Message::text(Role::User, "use sk-marker-0123456789")];
        let context = build_context(&prompt, "I used sk-marker-0123456789", &secrets);
        assert!(!context.value.to_string().contains("marker"), "{}", context.value);
    }

    #[test]
    fn other_lists_are_not_taken_for_lists_of_messages() {
        for value in [
            json!([]),
            json!("x"),
            json!([1]),
            json!([{"role": "user"}]),
            json!([{"role": "cat", "text": "x"}]),
        ] {
            assert!(!is_conversation(&value), "{value}");
        }
        assert_eq!(first_other(&[json!({"role": "user", "text": ""}), json!({"text": ""})]), Some(1));
    }

    #[test]
    fn a_completion_has_a_line_a_message() {
        let said = [Message::text(Role::User, "a"), Message::text(Role::Assistant, "b")];
        assert_eq!(as_lines(&said).joined_text(), "user: a\nassistant: b");
    }
}
