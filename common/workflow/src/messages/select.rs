//! Selects the messages that stay visible: indexes in, indexes out.

use super::change::{Filter, Truncate};
use super::message::Role;
use super::{Message, StoredMessage};
use serde_json::Value as Json;

/// Applies a truncation. A count above the number of messages means all of them; a range is cut to the
/// existing messages.
pub(super) fn truncate(base: Vec<u32>, by: &Truncate, messages: &[StoredMessage]) -> Vec<u32> {
    let mut left = base;
    if let Some(role) = by.role {
        left.retain(|idx| role_of(messages, *idx) == Some(role));
    }
    if let Some(count) = by.keep_first {
        left.truncate(size(count));
    }
    if let Some(count) = by.keep_last {
        left.drain(..left.len().saturating_sub(size(count)));
    }
    if let Some(count) = by.remove_first {
        left.drain(..size(count).min(left.len()));
    }
    if let Some(count) = by.remove_last {
        left.truncate(left.len().saturating_sub(size(count)));
    }
    if let Some((start, end)) = by.range {
        left.truncate(size(end));
        left.drain(..size(start).min(left.len()));
    }
    left
}

/// Applies a filter. Contents that are not texts are searched as JSON.
pub(super) fn filter(base: Vec<u32>, by: &Filter, messages: &[StoredMessage]) -> Vec<u32> {
    let is_kept = |message: &Message| {
        if !by.roles.is_empty() && !by.roles.contains(&message.role) {
            return false;
        }
        if by.content_contains.is_empty() && by.content_excludes.is_empty() {
            return true;
        }
        let json;
        let text = match &message.content {
            Json::String(text) => text.as_str(),
            other => {
                json = other.to_string();
                &json
            }
        };
        let occurs = |word: &String| text.contains(word.as_str());
        (by.content_contains.is_empty() || by.content_contains.iter().any(occurs))
            && !by.content_excludes.iter().any(occurs)
    };
    let mut left = base;
    left.retain(|idx| messages.get(*idx as usize).is_some_and(|kept| is_kept(&kept.message)));
    left
}

/// Applies a clearing: returns nothing, or the first message with role `system`.
pub(super) fn clear(base: &[u32], keep_system_message: bool, messages: &[StoredMessage]) -> Vec<u32> {
    let is_system = |idx: &&u32| role_of(messages, **idx) == Some(Role::System);
    base.iter().filter(|_| keep_system_message).find(is_system).copied().into_iter().collect()
}

fn role_of(messages: &[StoredMessage], idx: u32) -> Option<Role> {
    messages.get(idx as usize).map(|kept| kept.message.role)
}

fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
