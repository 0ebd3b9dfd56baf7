//! The operations on a message list.

use super::Message;
use super::message::Role;

/// One operation on one list.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageChange {
    pub list: String,
    pub target: Target,
    pub change: ListChange,
}

/// The run or frame whose lists are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Target {
    /// The lists of the node's run.
    #[default]
    Own,
    /// The lists of the surrounding conversation: inside a container those of the same run, else those of the
    /// parent run.
    Parent,
}

/// The operations. With `visible_only` an operation applies to the visible messages. Otherwise it applies to
/// all stored messages, and those that it keeps become visible.
#[derive(Debug, Clone, PartialEq)]
pub enum ListChange {
    /// Adds messages at the end, in the current batch.
    Append(Vec<Message>),
    /// Keeps some messages.
    Truncate { by: Truncate, visible_only: bool },
    /// Inserts messages.
    Insert {
        /// The index of the message before which they are inserted, from 0; −1 appends them, in the current
        /// batch.
        position: i64,
        messages: Vec<Message>,
        visible_only: bool,
    },
    /// Replaces one message by another.
    Replace {
        /// Counted from 0.
        index: u64,
        message: Message,
        visible_only: bool,
    },
    /// Removes all messages from view.
    Clear {
        /// Keeps the first message of role `system`.
        keep_system_message: bool,
        visible_only: bool,
    },
    /// Keeps the messages that match the conditions.
    Filter { by: Filter, visible_only: bool },
    /// Starts a batch with the messages from an index on.
    StartBatch {
        /// The index among all messages.
        boundary: u64,
        visible_only: bool,
    },
    /// Makes an earlier batch the current one again, with the messages that were visible at its end.
    Rollback { target_batch: u64 },
}

impl ListChange {
    /// Returns the name of the operation.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Append(_) => "append",
            Self::Truncate { .. } => "truncate",
            Self::Insert { .. } => "insert",
            Self::Replace { .. } => "replace",
            Self::Clear { .. } => "clear",
            Self::Filter { .. } => "filter",
            Self::StartBatch { .. } => "start_batch",
            Self::Rollback { .. } => "rollback",
        }
    }
}

/// Selects the messages that stay. The fields apply in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Truncate {
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only this many of the first.
    pub keep_first: Option<u64>,
    /// Only this many of the last.
    pub keep_last: Option<u64>,
    /// Without this many of the first.
    pub remove_first: Option<u64>,
    /// Without this many of the last.
    pub remove_last: Option<u64>,
    /// Only those from the first index up to, not including, the second.
    pub range: Option<(u64, u64)>,
}

/// Selects the messages that stay: those that match all conditions. An empty list is no condition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Messages of one of these roles.
    pub roles: Vec<Role>,
    /// Messages that contain one of these texts.
    pub content_contains: Vec<String>,
    /// Messages that contain none of these texts.
    pub content_excludes: Vec<String>,
}
