//! A prompt that continues a list of messages of the run. The visible messages of the list are sent before the prompt's
//! own messages. The prompt's messages and the reply are then appended to the list. System messages of the prompt are
//! sent first and not stored.

use serde_json::{Value as Json, json};

use super::Role;
use super::blocks::INVALID;
use super::message::{FilePart, MediaKind, Message, MessagePart, ToolCall};
use super::prompt::Prompt;
use crate::dsl::Problems;
use crate::dsl::fields::Fields;
use crate::messages::{self, Effects, MAIN, MESSAGES};
use tidemill_base::value::Variables;

/// The key `conversation` of a node: the list, and the role under which the reply is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub list: String,
    /// The role of the stored reply.
    pub output_as: Role,
}

/// Reads the key. `Some(None)` when it is absent or off, `None` after reporting a problem.
pub(super) fn parse(value: Option<&Json>, problems: &mut Problems) -> Option<Option<Conversation>> {
    let map = match value {
        None | Some(Json::Bool(false)) => return Some(None),
        Some(Json::Bool(true)) => {
            return Some(Some(Conversation { list: MAIN.into(), output_as: Role::Assistant }));
        }
        Some(Json::Object(map)) => map,
        Some(_) => {
            problems.error(INVALID, "conversation must be a mapping with id, or true");
            return None;
        }
    };
    let fields = Fields::new(map, INVALID);
    let enabled = fields.boolean("enabled", true, problems)?;
    let list = match map.get("id").or_else(|| map.get("conversation_id")) {
        None | Some(Json::Null) => MAIN.to_string(),
        Some(Json::String(name)) if messages::is_list_name(name) => name.clone(),
        Some(_) => {
            fields.wrong("id", "a name of letters, digits, - and _, at most 64 of them", problems);
            return None;
        }
    };
    let output_as = match map.get("output_as") {
        None | Some(Json::Null) => Role::Assistant,
        Some(_) => Role::from_name(fields.one_of("output_as", &["assistant", "user"], problems)?)?,
    };
    Some(enabled.then_some(Conversation { list, output_as }))
}

impl Conversation {
    /// Adds the variables that it reads.
    pub(super) fn mentions(&self, into: &mut Vec<(String, String)>) {
        into.push((MESSAGES.into(), self.list.clone()));
    }

    /// Inserts the list's visible messages after the prompt's system messages. Returns the prompt's own messages, to be
    /// appended to the list.
    pub fn join(&self, prompt: &mut Prompt, variables: &dyn Variables) -> Vec<messages::Message> {
        let instructions = prompt.messages.iter().take_while(|message| message.role == Role::System).count();
        let own = prompt.messages[instructions..].iter().map(stored).collect();
        let before = messages::sendable(&messages::visible(variables, &self.list));
        prompt.messages.splice(instructions..instructions, before.iter().map(sent));
        own
    }

    /// The changes after a reply: appends the prompt's own messages and the reply to the list.
    pub fn effects(&self, mut own: Vec<messages::Message>, reply: &str) -> Effects {
        own.push(messages::Message::text(self.output_as, reply));
        Effects::appending(&self.list, own)
    }
}

/// Converts a message of a list for sending.
fn sent(message: &messages::Message) -> Message {
    let file = |file: &Json| {
        let map = file.as_object()?;
        let kind = MediaKind::from_name(map.get("type")?.as_str()?)?;
        Some(MessagePart::File(FilePart { kind, file: map.clone(), detail: "high".into() }))
    };
    let mut parts: Vec<MessagePart> = message.files().iter().filter_map(file).collect();
    let words = message.words();
    let calls = message.tool_calls.as_ref().and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    if !words.is_empty() || (parts.is_empty() && calls.is_empty()) {
        parts.push(MessagePart::Text(words));
    }
    let call = |call: &Json| {
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let function = &call["function"];
        ToolCall {
            id: text(&call["id"]),
            name: text(&function["name"]),
            arguments: text(&function["arguments"]),
        }
    };
    Message {
        role: message.role,
        parts,
        tool_calls: calls.iter().map(call).collect(),
        tool_call_id: message.tool_call_id.clone(),
        verbatim: Vec::new(),
    }
}

/// Converts a message of a prompt for the list.
fn stored(message: &Message) -> messages::Message {
    let files: Vec<Json> = message.files().map(|part| Json::Object(part.file.clone())).collect();
    let mut stored = messages::Message::text(message.role, message.joined_text());
    if !files.is_empty() {
        stored.content = json!({"text": message.joined_text(), "files": files});
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::value::pool::Pool;

    fn pool(visible: Json) -> Pool {
        Pool::new(json!({MESSAGES: {"main": visible}}))
    }

    fn prompt() -> Prompt {
        let messages = vec![Message::text(Role::System, "be kind"), Message::text(Role::User, "next")];
        Prompt { messages, ..Prompt::default() }
    }

    fn said(prompt: &Prompt) -> Vec<(Role, String)> {
        prompt.messages.iter().map(|message| (message.role, message.joined_text())).collect()
    }

    fn main() -> Conversation {
        Conversation { list: "main".into(), output_as: Role::Assistant }
    }

    #[test]
    fn cx_a12_visible_messages_are_sent_between_the_instructions_and_the_question() {
        let visible = json!([
            {"idx": 3, "role": "user", "content": "bar baz"}, {"idx": 4, "role": "assistant", "content": "A2"},
        ]);
        let mut prompt = prompt();
        let own = main().join(&mut prompt, &pool(visible));
        let (system, user, assistant) = (Role::System, Role::User, Role::Assistant);
        let expected = [(system, "be kind"), (user, "bar baz"), (assistant, "A2"), (user, "next")];
        assert_eq!(said(&prompt), expected.map(|(role, text)| (role, text.to_string())));
        let effects = main().effects(own, "yes");
        let added = vec![messages::Message::text(user, "next"), messages::Message::text(assistant, "yes")];
        assert_eq!(effects, Effects::appending("main", added));
    }

    #[test]
    fn cx_a14_a_result_whose_call_was_cut_off_is_not_sent() {
        let visible = json!([
            {"idx": 2, "role": "tool", "content": "r", "tool_call_id": "gone"},
            {"idx": 3, "role": "user", "content": {"text": "see", "files": [{"type": "image", "url": "u"}]}},
        ]);
        let mut prompt = prompt();
        main().join(&mut prompt, &pool(visible));
        assert_eq!(said(&prompt).len(), 3);
        assert_eq!(
            (prompt.messages[1].files().count(), prompt.messages[1].joined_text().as_str()),
            (1, "see")
        );
    }

    #[test]
    fn the_key_names_a_list_and_may_be_switched_off() {
        let read = |value: Json| {
            let mut problems = Problems::new();
            let found = parse(Some(&value), &mut problems);
            assert_eq!(found.is_none(), problems.has_errors(), "{value}");
            found
        };
        assert_eq!(read(json!({})), Some(Some(main())));
        assert_eq!(read(json!(true)), Some(Some(main())));
        assert_eq!(read(json!({"enabled": false, "id": "x"})), Some(None));
        let other = Conversation { list: "x".into(), output_as: Role::User };
        assert_eq!(read(json!({"id": "x", "output_as": "user"})), Some(Some(other)));
        for wrong in [json!(3), json!({"id": "a b"}), json!({"output_as": "tool"})] {
            assert_eq!(read(wrong), None);
        }
    }
}
