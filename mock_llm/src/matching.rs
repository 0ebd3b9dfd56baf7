//! Finds the rule for a request.

use serde_json::Value as Json;

use super::rules::{Match, Rule};

/// Returns the first rule that matches, with its index.
pub fn find<'a>(rules: &'a [Rule], body: &Json) -> Option<(usize, &'a Rule)> {
    rules.iter().enumerate().find(|(_, rule)| fits(&rule.matches, body))
}

/// Returns true if all conditions hold.
pub fn fits(matches: &Match, body: &Json) -> bool {
    let last_user = last_user(body);
    let tools = body.get("tools").is_some_and(|tools| match tools {
        Json::Array(items) => !items.is_empty(),
        Json::Null => false,
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => true,
    });
    matches.model.as_ref().is_none_or(|model| body.get("model").and_then(Json::as_str) == Some(model))
        && matches.contains.as_ref().is_none_or(|part| last_user.contains(part.as_str()))
        && matches.equals.as_ref().is_none_or(|whole| last_user == *whole)
        && matches
            .system_contains
            .as_ref()
            .is_none_or(|part| texts_of(body, "system").any(|text| text.contains(part)))
        && matches.has_tools.is_none_or(|wanted| wanted == tools)
        && matches.messages.is_none_or(|wanted| wanted == messages(body).len() as u64)
}

/// Returns the text of the last user message; empty when there is none.
pub fn last_user(body: &Json) -> String {
    texts_of(body, "user").last().unwrap_or_default()
}

/// Returns the messages of a request.
pub fn messages(body: &Json) -> &[Json] {
    body.get("messages").and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the text of a message: plain content, or all text parts joined.
pub fn text_of(content: Option<&Json>) -> String {
    match content {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(parts)) => {
            let text_parts =
                parts.iter().filter(|part| part.get("type").and_then(Json::as_str) == Some("text"));
            text_parts.filter_map(|part| part.get("text")?.as_str()).collect()
        }
        Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) | None => String::new(),
    }
}

fn texts_of<'a>(body: &'a Json, role: &'a str) -> impl Iterator<Item = String> + 'a {
    let of_role = move |message: &&Json| message.get("role").and_then(Json::as_str) == Some(role);
    messages(body).iter().filter(of_role).map(|message| text_of(message.get("content")))
}
