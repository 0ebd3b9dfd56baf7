//! Messages, and what else a run stores besides its variables for all its nodes: some values about its steps
//! (`rt`), and a history of actions.
//!
//! This module is pure. A node returns its changes as [`Effects`], and the engine applies them together with
//! the node's end. Nodes read all three as variables, under names that no workflow can write ([`MESSAGES`],
//! [`RUNTIME`], [`HISTORY`]). The stored form is in `tidemill_wire::messages`.

mod change;
mod context;
mod error;
mod history;
mod limits;
mod list;
mod message;
mod ranges;
pub mod runtime;
mod safety;
mod select;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::{BTreeMap, VecDeque};

use tidemill_base::value::{JsonMap, Variables};

pub use change::{Filter, ListChange, MessageChange, Target, Truncate};
pub use context::{context_of, from_context};
pub use error::MessageError;
pub use history::{View, history_status, view};
pub use limits::{MessageLimits, TOKENS_WARNING_PERCENT};
pub use list::{Batch, Index, MarkMap, MessageList, Outcome, Stats, TokenSum};
pub use message::{Message, Role, StoredMessage};
pub use ranges::{read_ranges, write_ranges};
pub use runtime::{PARTS, merge};
pub use safety::sendable;

/// The variable namespace of message lists; the name is the list's.
pub const MESSAGES: &str = "#messages";
/// The variable namespace of `rt`.
pub const RUNTIME: &str = "#rt";
/// The variable name of `rt`.
pub const RUNTIME_NAME: &str = "rt";
/// The variable namespace of the history; the name is the number of newest records.
pub const HISTORY: &str = "#history";
/// The list of nodes that name none. In a chat it is the conversation's list.
pub const MAIN: &str = "main";
/// Records of the history that the engine holds and nodes can read; the store has all of them.
pub const HISTORY_HELD: usize = 200;
/// Longest name of a list, in bytes.
pub const LIST_NAME_BYTES_MAX: usize = 64;

/// The changes to a run's messages, `rt` and history by one node. Applied once, with the node's end: all of them or none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effects {
    /// Changes of message lists, in order. Not applied when the node failed.
    pub messages: Vec<MessageChange>,
    /// Changes of `rt`, see [`merge`]. Not applied when the node failed.
    pub runtime: JsonMap,
    /// Records for the history; absent fields such as node and time are filled in. Also stored when the node
    /// failed.
    pub history: Vec<JsonMap>,
}

impl Effects {
    /// True when nothing changes.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.runtime.is_empty() && self.history.is_empty()
    }
    /// Appends messages to a list of the run.
    pub fn appending(list: impl Into<String>, messages: Vec<Message>) -> Self {
        let change = ListChange::Append(messages);
        let change = MessageChange { list: list.into(), target: Target::Own, change };
        Self { messages: vec![change], ..Self::default() }
    }
}

/// The messages, `rt` and history of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MessageState {
    /// Message lists by name.
    pub lists: BTreeMap<String, MessageList>,
    /// The values of `rt`.
    pub runtime: JsonMap,
    /// The newest records of the history, at most [`HISTORY_HELD`], oldest first.
    pub history: VecDeque<JsonMap>,
    /// The total number of records.
    pub recorded: u64,
}

impl MessageState {
    /// Returns the names of its parts in the store: `messages:<list>`, `rt`, `history`.
    pub fn parts(&self) -> Vec<String> {
        let lists = self.lists.keys().map(|name| format!("messages:{name}"));
        let rest = [("rt", !self.runtime.is_empty()), ("history", self.recorded > 0)];
        lists.chain(rest.into_iter().filter(|(_, is)| *is).map(|(part, _)| part.to_string())).collect()
    }
    /// Estimates its size in memory, in bytes.
    pub fn size_estimate(&self) -> usize {
        let of = |map: &JsonMap| {
            map.values().map(|value| 32 + tidemill_base::value::json_size(value)).sum::<usize>()
        };
        let lists: usize = self.lists.values().map(MessageList::size_estimate).sum();
        lists + of(&self.runtime) + self.history.iter().map(of).sum::<usize>() + 256
    }
}

/// Message lists that a run begins with.
pub type GivenMessages = BTreeMap<String, Vec<Message>>;

/// Parses `{list: [message, …]}`; `None` when the value has another form.
pub fn given_messages(value: &serde_json::Value) -> Option<GivenMessages> {
    let list = |(name, items): (&String, &serde_json::Value)| {
        let messages = items.as_array()?.iter().map(Message::from_json).collect::<Option<Vec<_>>>()?;
        is_list_name(name).then(|| (name.clone(), messages))
    };
    value.as_object()?.iter().map(list).collect()
}

/// True when a text is a valid list name: letters, digits, `-` and `_`.
pub fn is_list_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= LIST_NAME_BYTES_MAX && name.chars().all(is_plain)
}

/// Returns the visible messages of a list. The node must mention `(MESSAGES, list)`.
pub fn visible(variables: &dyn Variables, list: &str) -> Vec<Message> {
    let Some(segment) = variables.found(&[MESSAGES.into(), list.into()]) else { return Vec::new() };
    let items = segment.value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Message::from_json).collect()
}
