//! Selects the files for a prompt, converts them to message parts, and places them.
//!
//! They stay Dify's file objects here; the sender fetches their bytes.

use serde_json::Value as Json;

use super::message::{FilePart, MediaKind, Message, MessagePart, ModelFacts};
use super::{Role, Vision};
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::{Template, TemplatePiece};
use tidemill_base::value::{JsonMap, SegmentType, Variables};

/// Detail of images when no node sets it: those of earlier turns.
pub const DETAIL_DEFAULT: &str = "high";

/// The files that the vision switch adds. None when the variable is absent, null or empty.
///
/// # Errors
/// `InvalidVariableTypeError` when the variable holds no files.
pub fn of_vision(vision: Option<&Vision>, variables: &dyn Variables) -> Result<Vec<JsonMap>, NodeFailure> {
    let Some(segment) = vision.and_then(|vision| variables.found(&vision.selector)) else {
        return Ok(Vec::new());
    };
    match segment.ty {
        SegmentType::None | SegmentType::ArrayAny => Ok(Vec::new()),
        SegmentType::File | SegmentType::ArrayFile => Ok(objects(&segment.value)),
        ty @ (SegmentType::String
        | SegmentType::Secret
        | SegmentType::Integer
        | SegmentType::Float
        | SegmentType::Boolean
        | SegmentType::Object
        | SegmentType::ArrayString
        | SegmentType::ArrayNumber
        | SegmentType::ArrayObject
        | SegmentType::ArrayBoolean) => {
            Err(NodeFailure::new("InvalidVariableTypeError", format!("Invalid variable type: {ty}")))
        }
    }
}

/// The files that a text refers to, as parts. File kinds that models do not accept are skipped.
///
/// # Errors
/// As [`part`].
pub fn of_text(text: &str, variables: &dyn Variables, detail: &str) -> Result<Vec<MessagePart>, NodeFailure> {
    let mut parts = Vec::new();
    for piece in Template::parse(text).parts() {
        let (TemplatePiece::Variable(selector) | TemplatePiece::PerhapsVariable(selector)) = piece else {
            continue;
        };
        let Some(segment) = variables.found(selector) else { continue };
        if !matches!(segment.ty, SegmentType::File | SegmentType::ArrayFile) {
            continue;
        }
        for file in objects(&segment.value).into_iter().filter(|file| kind(file).is_some()) {
            parts.push(part(file, detail)?);
        }
    }
    Ok(parts)
}

/// A file as part of a message. As on Dify a file of an unsupported kind becomes a text that says so.
///
/// # Errors
/// `ValueError` for a file without extension or MIME type.
pub fn part(file: JsonMap, detail: &str) -> Result<MessagePart, NodeFailure> {
    let Some(kind) = kind(&file) else {
        let (name, ty) = (word(&file, "filename"), word(&file, "type"));
        return Ok(MessagePart::Text(format!("[Unsupported file type: {name} ({ty})]")));
    };
    for (key, message) in [("extension", "Missing file extension"), ("mime_type", "Missing file mime_type")] {
        if word(&file, key).is_empty() {
            return Err(NodeFailure::new("ValueError", message));
        }
    }
    Ok(MessagePart::File(FilePart { kind, file, detail: detail.to_owned() }))
}

/// Inserts files before the text of the last message if that is the user's, else as a new message.
pub fn attach(messages: &mut Vec<Message>, parts: Vec<MessagePart>) {
    if parts.is_empty() {
        return;
    }
    match messages.last_mut().filter(|last| last.role == Role::User) {
        Some(last) => {
            last.parts.splice(0..0, parts);
        }
        None => {
            let message = Message::text(Role::User, "");
            messages.push(Message { parts, ..message });
        }
    }
}

/// Removes files that the model cannot read ([`ModelFacts::takes`]), and messages that become empty. Returns the number
/// of removed files.
pub fn keep_allowed(messages: &mut Vec<Message>, facts: &ModelFacts) -> usize {
    let mut left_out = 0;
    for message in &mut *messages {
        message.parts.retain(|part| match part {
            MessagePart::Text(_) => true,
            MessagePart::File(file) => {
                let allowed = facts.takes(file.kind);
                left_out += usize::from(!allowed);
                allowed
            }
        });
    }
    messages.retain(|message| !message.is_empty() || message.tool_call_id.is_some());
    left_out
}

fn objects(value: &Json) -> Vec<JsonMap> {
    match value {
        Json::Object(file) => vec![file.clone()],
        Json::Array(files) => files.iter().filter_map(|file| file.as_object().cloned()).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Vec::new(),
    }
}

fn kind(file: &JsonMap) -> Option<MediaKind> {
    MediaKind::from_name(word(file, "type"))
}

fn word<'a>(file: &'a JsonMap, key: &str) -> &'a str {
    file.get(key).and_then(Json::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn file(ty: &str) -> JsonMap {
        let file = json!({"type": ty, "extension": ".x", "mime_type": "a/x", "filename": "f.x"});
        file.as_object().unwrap().clone()
    }

    fn facts(features: &[&str]) -> ModelFacts {
        ModelFacts {
            features: Some(features.iter().map(ToString::to_string).collect()),
            ..ModelFacts::default()
        }
    }

    #[test]
    fn a_file_needs_an_extension_and_a_mime_type_and_other_kinds_are_named_in_words() {
        for (key, message) in
            [("extension", "Missing file extension"), ("mime_type", "Missing file mime_type")]
        {
            let mut without = file("image");
            without.insert(key.into(), json!(null));
            let failure = part(without, "low").unwrap_err();
            assert_eq!((failure.error_type.as_str(), failure.message.as_str()), ("ValueError", message));
        }
        let other = part(file("custom"), "low").unwrap();
        assert_eq!(other, MessagePart::Text("[Unsupported file type: f.x (custom)]".into()));
    }

    #[test]
    fn files_go_in_front_of_the_users_last_text_or_into_a_message_of_their_own() {
        let picture = part(file("image"), "low").unwrap();
        let mut messages = vec![Message::text(Role::User, "look")];
        attach(&mut messages, vec![picture.clone()]);
        assert_eq!(messages[0].parts, [picture.clone(), MessagePart::Text("look".into())]);
        for role in [Role::System, Role::Assistant] {
            let mut messages = vec![Message::text(role, "x")];
            attach(&mut messages, vec![picture.clone()]);
            assert_eq!((messages.len(), messages[1].role), (2, Role::User));
            attach(&mut messages, Vec::new());
            assert_eq!(messages.len(), 2);
        }
    }

    #[test]
    fn a_model_is_sent_text_and_the_files_that_it_takes() {
        for (kind, facts, kept) in [
            ("image", facts(&["vision"]), true),
            ("document", facts(&["vision"]), false),
            ("document", facts(&["document"]), true),
            ("audio", facts(&["audio"]), true),
            ("video", facts(&["video"]), true),
            ("image", facts(&[]), false),
            // Nothing is known: pictures are sent, and the API refuses if it cannot see them.
            ("image", ModelFacts::default(), true),
            ("document", ModelFacts::default(), false),
            ("audio", ModelFacts::default(), false),
            ("video", ModelFacts::default(), false),
        ] {
            let text = Message::text(Role::User, "look");
            let mut messages =
                vec![text.clone(), Message { parts: vec![part(file(kind), "low").unwrap()], ..text }];
            let left_out = keep_allowed(&mut messages, &facts);
            assert_eq!(
                (messages.len(), left_out),
                (1 + usize::from(kept), usize::from(!kept)),
                "{kind} {facts:?}"
            );
        }
    }
}
