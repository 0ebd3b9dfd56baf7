//! The history in a prompt: the last turns that fit, as messages or as one text.

use super::message::{Message, MessagePart};
use super::{Role, files, history, tokens};
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::Variables;

/// Most turns used, whatever the window's size (Dify's limit).
const TURNS_MAX: u64 = 500;
/// Names of the speakers when the node sets none.
pub const PREFIXES: (&str, &str) = ("Human", "Assistant");

/// True when the run belongs to a conversation. As on Dify memory is silently absent otherwise.
pub fn exists(variables: &dyn Variables) -> bool {
    let id = variables.found(&["sys".into(), "conversation_id".into()]);
    id.is_some_and(|id| !id.is_falsy())
}

/// The last turns as messages: at most `window` turns, and of those the last messages with at most `tokens_max` tokens
/// in total. Messages are dropped one by one from the oldest, so an answer can come first; the last message always
/// stays.
///
/// # Errors
/// `ValueError` for a file that cannot be sent.
pub fn messages(
    variables: &dyn Variables,
    window: Option<u64>,
    tokens_max: u64,
) -> Result<Vec<Message>, NodeFailure> {
    if !exists(variables) {
        return Ok(Vec::new());
    }
    let turns = history::turns(variables);
    let most = window.filter(|window| *window > 0).unwrap_or(TURNS_MAX).min(TURNS_MAX);
    let skipped = turns.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
    let mut messages = Vec::new();
    for turn in turns.into_iter().skip(skipped) {
        messages.push(question(turn.query, turn.files)?);
        messages.push(Message::text(Role::Assistant, turn.answer));
    }
    Ok(pruned(messages, tokens_max))
}

fn question(query: String, files: Vec<tidemill_base::value::JsonMap>) -> Result<Message, NodeFailure> {
    let mut parts = Vec::with_capacity(files.len() + 1);
    for file in files {
        parts.push(files::part(file, files::DETAIL_DEFAULT)?);
    }
    parts.push(MessagePart::Text(query));
    Ok(Message { parts, ..Message::text(Role::User, "") })
}

fn pruned(messages: Vec<Message>, tokens_max: u64) -> Vec<Message> {
    let mut sum = tokens::estimate(&messages);
    let mut first = 0;
    while sum > tokens_max && first + 1 < messages.len() {
        sum -= tokens::of_message(&messages[first]);
        first += 1;
    }
    messages.into_iter().skip(first).collect()
}

/// Messages as one text, one line each: `Human: …`. Images become `[image]`; other files are left out.
pub fn text(messages: &[Message], prefixes: (&str, &str)) -> String {
    let line = |message: &Message| {
        let prefix = match message.role {
            Role::User => prefixes.0,
            Role::Assistant => prefixes.1,
            Role::System | Role::Tool => return None,
        };
        let shown = |part: &MessagePart| match part {
            MessagePart::Text(text) => Some(text.clone()),
            MessagePart::File(file) => {
                (file.kind == super::message::MediaKind::Image).then(|| "[image]".to_owned())
            }
        };
        let shown: Vec<String> = message.parts.iter().filter_map(shown).collect();
        Some(format!("{prefix}: {}", shown.join("\n")))
    };
    let lines: Vec<String> = messages.iter().filter_map(line).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidemill_base::value::pool::Pool;

    fn pool(turns: serde_json::Value) -> Pool {
        Pool::new(json!({"sys": {"conversation_id": "c"}, history::NODE: {history::NAME: turns}}))
    }

    fn lines(window: Option<u64>, tokens_max: u64) -> String {
        let turn = |n: u64| json!({"query": format!("question{n}"), "answer": format!("answer{n}")});
        let pool = pool(json!([turn(1), turn(2), turn(3)]));
        text(&messages(&pool, window, tokens_max).unwrap(), ("U", "A"))
    }

    #[test]
    fn the_last_turns_that_fit_are_sent() {
        for (window, tokens_max, expected) in [
            (Some(1), 2000, "U: question3\nA: answer3"),
            (Some(2), 2000, "U: question2\nA: answer2\nU: question3\nA: answer3"),
            (Some(1), 7, "A: answer3"),
            (Some(1), 0, "A: answer3"),
            (None, 14, "A: answer2\nU: question3\nA: answer3"),
        ] {
            assert_eq!(lines(window, tokens_max), expected, "{window:?} {tokens_max}");
        }
        assert_eq!(lines(None, 2000), lines(Some(0), 2000));
        assert_eq!(lines(None, 2000).lines().count(), 6);
    }

    #[test]
    fn files_come_before_their_question_and_images_are_named_in_text() {
        let file = |ty: &str| json!({"type": ty, "extension": ".x", "mime_type": "a/x"});
        let pool = pool(json!([{"query": "q", "answer": "a", "files": [file("image"), file("audio")]}]));
        let messages = messages(&pool, None, 2000).unwrap();
        assert_eq!(messages[0].files().count(), 2);
        assert_eq!(text(&messages, PREFIXES), "Human: [image]\nq\nAssistant: a");
    }

    #[test]
    fn outside_a_conversation_nothing_was_said() {
        let turns = json!([{"query": "q", "answer": "a"}]);
        let pool = Pool::new(json!({history::NODE: {history::NAME: turns}}));
        assert_eq!(messages(&pool, None, 2000).unwrap(), []);
    }
}
