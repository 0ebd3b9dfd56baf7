//! Estimates the tokens of a prompt, and the room left for the history.
//!
//! Providers do not count tokens in advance. Four characters per token is Dify's own fallback. The estimate only
//! decides how much of a conversation is included.

use serde_json::Value as Json;

use super::message::{Message, ModelFacts};
use super::params::Params;

/// Characters per token.
const TOKEN_CHARS: u64 = 4;
/// Most tokens of the history when the model's window is unknown (Dify's).
pub const REST_DEFAULT: u64 = 2000;

/// Estimated tokens of these messages: roles and texts.
pub fn estimate(messages: &[Message]) -> u64 {
    messages.iter().map(of_message).sum()
}

/// Estimated tokens of `chars` characters.
pub const fn of_chars(chars: u64) -> u64 {
    chars.div_ceil(TOKEN_CHARS)
}

/// Estimated tokens of one message.
pub(super) fn of_message(message: &Message) -> u64 {
    let calls =
        message.tool_calls.iter().map(|call| call.name.chars().count() + call.arguments.chars().count());
    let text = message.joined_text().chars().count() + calls.sum::<usize>();
    // Counted as a line `role: text`.
    let chars = message.role.name().len() + 2 + text;
    (chars as u64).div_ceil(TOKEN_CHARS)
}

/// Tokens left for the history beside a prompt of `used` tokens and the longest reply (`max_tokens`).
pub fn rest(facts: &ModelFacts, params: &Params, used: u64) -> u64 {
    let Some(size) = facts.context_size else { return REST_DEFAULT };
    let reply = params.values.get("max_tokens").and_then(Json::as_u64).unwrap_or(0);
    size.saturating_sub(reply).saturating_sub(used)
}

/// Fewest tokens left for a reply (Dify's).
const REPLY_MIN: u64 = 16;

/// Lowers `max_tokens` to the room that the window leaves beside a prompt of `used` tokens, if it is set and too large
/// (Dify's rule for agents).
pub fn lower_reply(facts: &ModelFacts, params: &mut Params, used: u64) {
    let (Some(size), Some(reply)) = (facts.context_size, params.values.get_mut("max_tokens")) else { return };
    if reply.as_u64().is_some_and(|reply| used.saturating_add(reply) > size) {
        *reply = size.saturating_sub(used).max(REPLY_MIN).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::llm::Role;
    use serde_json::json;

    #[test]
    fn the_rest_is_the_window_without_the_reply_and_the_prompt() {
        for (size, max_tokens, used, left) in [
            (None, json!(100), 50, 2000),
            (Some(1000), json!(100), 50, 850),
            (Some(1000), json!(null), 50, 950),
            (Some(1000), json!("100"), 0, 1000),
            (Some(100), json!(100), 50, 0),
        ] {
            let facts = ModelFacts { context_size: size, ..ModelFacts::default() };
            let mut params = Params::default();
            params.values.insert("max_tokens".into(), max_tokens.clone());
            assert_eq!(rest(&facts, &params, used), left, "{size:?} {max_tokens} {used}");
        }
    }

    #[test]
    fn a_reply_is_lowered_to_the_room_in_the_window() {
        for (size, max_tokens, used, lowered) in [
            (None, json!(900), 200, json!(900)),
            (Some(1000), json!(800), 200, json!(800)),
            (Some(1000), json!(801), 200, json!(800)),
            (Some(1000), json!(900), 995, json!(16)),
            (Some(1000), json!(900), 5000, json!(16)),
            (Some(1000), json!("900"), 200, json!("900")),
            (Some(1000), json!(null), 200, json!(null)),
        ] {
            let facts = ModelFacts { context_size: size, ..ModelFacts::default() };
            let mut params = Params::default();
            params.values.insert("max_tokens".into(), max_tokens.clone());
            lower_reply(&facts, &mut params, used);
            assert_eq!(params.values["max_tokens"], lowered, "{size:?} {max_tokens} {used}");
        }
        let mut unset = Params::default();
        let facts = ModelFacts { context_size: Some(10), ..ModelFacts::default() };
        lower_reply(&facts, &mut unset, 20);
        assert!(unset.values.is_empty());
    }

    #[test]
    fn four_characters_are_a_token() {
        assert_eq!(estimate(&[]), 0);
        assert_eq!(estimate(&[Message::text(Role::User, "ab")]), 2);
        assert_eq!(estimate(&[Message::text(Role::User, "äöüäöü"), Message::text(Role::User, "")]), 5);
    }
}
