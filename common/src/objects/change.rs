//! What can be done to a message list.

use super::Message;
use crate::nodes::llm::Role;

/// A change of one list.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageChange {
    /// Its name.
    pub list: String,
    /// Whose list of that name.
    pub target: Target,
    /// What changes.
    pub change: ListChange,
}

/// Whose lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Target {
    /// Those of the node's run.
    #[default]
    Own,
    /// Those of the run around: within a container the same run's, else those of the run that has called this one.
    Parent,
}

/// The kinds of changes. Where a change says `visible_only`, it is about the visible messages; otherwise about all that
/// are stored, and those that it keeps are visible behind it.
#[derive(Debug, Clone, PartialEq)]
pub enum ListChange {
    /// Messages behind the last, in the present batch.
    Append(Vec<Message>),
    /// Only some stay.
    Truncate {
        /// Which.
        by: Truncate,
        /// See [`ListChange`].
        visible_only: bool,
    },
    /// Messages come in between.
    Insert {
        /// In front of which, counted from 0; −1: behind the last, in the present batch.
        position: i64,
        /// What.
        messages: Vec<Message>,
        /// See [`ListChange`].
        visible_only: bool,
    },
    /// One takes the place of another.
    Replace {
        /// Which, counted from 0.
        index: u64,
        /// By what.
        message: Message,
        /// See [`ListChange`].
        visible_only: bool,
    },
    /// None stays.
    Clear {
        /// But for the first of role `system`.
        keep_system_message: bool,
        /// See [`ListChange`].
        visible_only: bool,
    },
    /// Only those stay that meet conditions.
    Filter {
        /// Which.
        by: Filter,
        /// See [`ListChange`].
        visible_only: bool,
    },
    /// A batch begins with what was stored from an index on.
    StartBatch {
        /// The index among all messages.
        boundary: u64,
        /// See [`ListChange`].
        visible_only: bool,
    },
    /// An earlier batch is the present one again, with what was visible when it was left.
    Rollback {
        /// Its number.
        target_batch: u64,
    },
}

impl ListChange {
    /// The name of the operation.
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

/// Which messages stay. What is given applies in the order of the fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Truncate {
    /// Only those of this role.
    pub role: Option<Role>,
    /// Only so many of the first.
    pub keep_first: Option<u64>,
    /// Only so many of the last.
    pub keep_last: Option<u64>,
    /// Without so many of the first.
    pub remove_first: Option<u64>,
    /// Without so many of the last.
    pub remove_last: Option<u64>,
    /// Only those from the first place to before the second.
    pub range: Option<(u64, u64)>,
}

/// Which messages stay: those that meet all of what is given. An empty list is not given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Those of one of these roles.
    pub roles: Vec<Role>,
    /// Those in which one of these occurs.
    pub content_contains: Vec<String>,
    /// Those in which none of these occurs.
    pub content_excludes: Vec<String>,
}
