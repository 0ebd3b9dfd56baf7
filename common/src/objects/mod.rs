//! What a run keeps beside its variables and shares among its nodes: lists of messages, a few values about its steps
//! (`rt`), and a history of what was done.
//!
//! Pure: a node says what is to change ([`Effects`]), the engine applies it with the node's end, and whoever reads finds
//! it in the pool under names that no workflow can write ([`MESSAGES`], [`RUNTIME`], [`HISTORY`]). How it travels is
//! in [`crate::wire::objects`].

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

use crate::value::{JsonMap, Variables};

pub use change::{Filter, ListChange, MessageChange, Target, Truncate};
pub use context::{context_of, from_context};
pub use error::ObjectError;
pub use history::{View, history_status, view};
pub use limits::{ObjectLimits, TOKENS_WARNING_PERCENT};
pub use list::{Batch, Index, MarkMap, MessageList, Outcome, Stats, TokenSum};
pub use message::{Kept, Message};
pub use ranges::{read_ranges, write_ranges};
pub use runtime::{PARTS, merge};
pub use safety::sendable;

/// The pool's node of message lists; the name is the list's.
pub const MESSAGES: &str = "#messages";
/// The pool's node of `rt`.
pub const RUNTIME: &str = "#rt";
/// The pool's name of `rt`.
pub const RUNTIME_NAME: &str = "rt";
/// The pool's node of the history; the name says how many of the last records.
pub const HISTORY: &str = "#history";
/// The list that nodes use which name none. That of a chat's run is the chat's own.
pub const MAIN: &str = "main";
/// Records of the history that the engine holds and nodes can read; all of them lie in the store.
pub const HISTORY_HELD: usize = 200;
/// Longest name of a list, in bytes.
pub const LIST_NAME_BYTES_MAX: usize = 64;

/// What a node's end changes of what its run keeps. Applied with the end, once: all of it or nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effects {
    /// Changes of message lists, in order. Not applied when the node failed.
    pub messages: Vec<MessageChange>,
    /// What changes in `rt`, see [`merge`]. Not applied when the node failed.
    pub runtime: JsonMap,
    /// Records for the history; what they leave out, such as the node and the time, is put in. Those of a failure are
    /// kept as well.
    pub history: Vec<JsonMap>,
}

impl Effects {
    /// True when nothing changes.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.runtime.is_empty() && self.history.is_empty()
    }
    /// Messages behind the end of a list of the run.
    pub fn appending(list: impl Into<String>, messages: Vec<Message>) -> Self {
        let change = ListChange::Append(messages);
        let change = MessageChange { list: list.into(), target: Target::Own, change };
        Self { messages: vec![change], ..Self::default() }
    }
}

/// All that a run keeps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Objects {
    /// Lists by their names.
    pub lists: BTreeMap<String, MessageList>,
    /// `rt`.
    pub runtime: JsonMap,
    /// The last records of the history, at most [`HISTORY_HELD`], oldest first.
    pub history: VecDeque<JsonMap>,
    /// How many records there are in all.
    pub recorded: u64,
}

impl Objects {
    /// The names of its parts in the store: `messages:<list>`, `rt`, `history`.
    pub fn parts(&self) -> Vec<String> {
        let lists = self.lists.keys().map(|name| format!("messages:{name}"));
        let rest = [("rt", !self.runtime.is_empty()), ("history", self.recorded > 0)];
        lists.chain(rest.into_iter().filter(|(_, is)| *is).map(|(part, _)| part.to_string())).collect()
    }
    /// About how many bytes it takes in memory.
    pub fn size_estimate(&self) -> usize {
        let of = |map: &JsonMap| map.values().map(|value| 32 + crate::value::json_size(value)).sum::<usize>();
        let lists: usize = self.lists.values().map(MessageList::size_estimate).sum();
        lists + of(&self.runtime) + self.history.iter().map(of).sum::<usize>() + 256
    }
}

/// Lists of messages that a run is given.
pub type GivenMessages = BTreeMap<String, Vec<Message>>;

/// Reads `{list: [message, …]}`; none when it is something else.
pub fn given_messages(value: &serde_json::Value) -> Option<GivenMessages> {
    let list = |(name, items): (&String, &serde_json::Value)| {
        let messages = items.as_array()?.iter().map(Message::from_json).collect::<Option<Vec<_>>>()?;
        is_list_name(name).then(|| (name.clone(), messages))
    };
    value.as_object()?.iter().map(list).collect()
}

/// Whether a text can name a list: letters, digits, `-` and `_`.
pub fn is_list_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= LIST_NAME_BYTES_MAX && name.chars().all(is_plain)
}

/// The visible messages of a list as a node reads them; it must mention `(MESSAGES, list)`.
pub fn visible(variables: &dyn Variables, list: &str) -> Vec<Message> {
    let Some(segment) = variables.found(&[MESSAGES.into(), list.into()]) else { return Vec::new() };
    let items = segment.value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Message::from_json).collect()
}
