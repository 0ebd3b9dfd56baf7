//! Messages as a variable for other nodes: `[{role, text, files}]`.

use serde_json::{Value as Json, json};

use super::Message;
use super::message::Role;

/// Converts messages to that form, without those of role `system`: a node that uses them in a prompt adds its
/// own instructions.
pub fn context_of<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Json {
    let item = |message: &Message| json!({"role": message.role.name(), "text": message.words(), "files": message.files()});
    messages.into_iter().filter(|message| message.role != Role::System).map(item).collect()
}

/// Converts a value of that form to messages; `None` when it is not a list of objects with `role` and `text`.
pub fn from_context(value: &Json) -> Option<Vec<Message>> {
    let one = |item: &Json| {
        let role = Role::from_name(item.get("role")?.as_str()?)?;
        let text = item.get("text")?.as_str()?;
        let files = item.get("files").and_then(Json::as_array).filter(|files| !files.is_empty());
        let mut message = Message::text(role, text);
        if let Some(files) = files {
            message.content = json!({"text": text, "files": files});
        }
        Some(message)
    };
    value.as_array()?.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_reads_back_but_for_its_instructions() {
        let with_file = Message {
            content: json!({"text": "see", "files": [{"type": "image"}]}),
            ..Message::text(Role::User, "")
        };
        let messages =
            [Message::text(Role::System, "S"), with_file.clone(), Message::text(Role::Assistant, "A")];
        let context = context_of(&messages);
        assert_eq!(
            context,
            json!([
                {"role": "user", "text": "see", "files": [{"type": "image"}]},
                {"role": "assistant", "text": "A", "files": []},
            ])
        );
        assert_eq!(from_context(&context), Some(vec![with_file, Message::text(Role::Assistant, "A")]));
    }

    #[test]
    fn other_values_are_not_read_as_a_context() {
        for value in [json!("x"), json!([1]), json!([{"role": "user"}]), json!([{"role": "god", "text": ""}])]
        {
            assert_eq!(from_context(&value), None, "{value}");
        }
    }
}
