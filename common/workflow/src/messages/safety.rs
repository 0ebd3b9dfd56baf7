//! Selects the messages that can be sent to a model. Providers refuse tool results without their calls, and
//! calls without results; a shortened list may have both. The list itself is not changed.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::Message;
use super::message::Role;

/// Drops tool results whose call is in no earlier message, calls without a later result, and messages that
/// are empty after that.
pub fn sendable(messages: &[Message]) -> Vec<Message> {
    let mut requested = HashSet::new();
    let mut answered = HashSet::new();
    for message in messages {
        requested.extend(message.call_ids());
        if let Some(id) = message.tool_call_id.as_deref().filter(|id| requested.contains(id)) {
            answered.insert(id);
        }
    }
    messages.iter().filter_map(|message| safe(message, &answered)).collect()
}

fn safe(message: &Message, answered: &HashSet<&str>) -> Option<Message> {
    if message.role == Role::Tool {
        let is_answer = message.tool_call_id.as_deref().is_some_and(|id| answered.contains(id));
        return is_answer.then(|| message.clone());
    }
    let Some(Json::Array(calls)) = &message.tool_calls else { return Some(message.clone()) };
    let is_answered =
        |call: &&Json| call.get("id").and_then(Json::as_str).is_some_and(|id| answered.contains(id));
    let left: Vec<Json> = calls.iter().filter(is_answered).cloned().collect();
    let says_nothing = message.content.is_null() || message.content.as_str() == Some("");
    if left.is_empty() && says_nothing && !calls.is_empty() {
        return None;
    }
    Some(Message { tool_calls: (!left.is_empty()).then_some(Json::Array(left)), ..message.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(id: &str) -> Message {
        Message { tool_call_id: Some(id.into()), ..Message::text(Role::Tool, "r") }
    }
    fn calls(text: &str, ids: &[&str]) -> Message {
        let calls = ids.iter().map(|id| json!({"id": id, "type": "function"})).collect();
        Message { tool_calls: Some(calls), ..Message::text(Role::Assistant, text) }
    }

    #[test]
    fn cx_a14_results_without_their_calls_and_calls_without_results_are_left_out() {
        let user = Message::text(Role::User, "q");
        for (given, sent) in [
            (vec![result("1"), user.clone()], vec![user.clone()]),
            (
                vec![calls("", &["1"]), result("1"), user.clone()],
                vec![calls("", &["1"]), result("1"), user.clone()],
            ),
            (vec![calls("a", &["1", "2"]), result("2")], vec![calls("a", &["2"]), result("2")]),
            (vec![calls("a", &["1"]), user.clone()], vec![Message::text(Role::Assistant, "a"), user.clone()]),
            (vec![calls("", &["1"]), user.clone()], vec![user.clone()]),
            // A result before its call does not count.
            (vec![result("1"), calls("a", &["1"])], vec![Message::text(Role::Assistant, "a")]),
        ] {
            assert_eq!(sendable(&given), sent);
        }
    }
}
