//! Why something that a node wants to change cannot be. Deterministic: another try would meet the same.

use crate::failure::NodeFailure;

/// See the module. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// An insertion behind the end.
    #[error("Insert position {position} is out of range. Visible messages count: {visible_count}")]
    InsertPositionOutOfRange {
        /// Where it was to be.
        position: i64,
        /// How many messages there are.
        visible_count: usize,
    },
    /// A place that has no message.
    #[error("Visible index {index} out of bounds. Visible messages count: {visible_count}")]
    VisibleIndexOutOfBounds {
        /// The place.
        index: u64,
        /// How many messages there are.
        visible_count: usize,
    },
    /// A batch that is not there, or not any more.
    #[error("Target batch {target} not found. Available batches: {available}")]
    TargetBatchNotFound {
        /// Its number.
        target: u64,
        /// The numbers that there are.
        available: String,
    },
    /// A batch cannot begin there.
    #[error("Invalid boundary index: {boundary}. Messages count: {count}")]
    InvalidBoundaryIndex {
        /// Where.
        boundary: u64,
        /// How many messages are stored.
        count: usize,
    },
    /// A list name that is none.
    #[error("{0:?} cannot name a list of messages: letters, digits, - and _, at most 64")]
    InvalidConversationId(String),
    /// There is no run around.
    #[error(
        "there is no parent conversation: the run was not called by another, and the node lies in no iteration or loop"
    )]
    ParentConversationNotFound,
    /// Too many messages.
    #[error(
        "list {list} of messages would have {count} messages, and may have {max} (run.messages_max); \
         messages that are not visible any more count as well"
    )]
    ConversationTooLong {
        /// The list.
        list: String,
        /// How many there would be.
        count: usize,
        /// How many there may be.
        max: u64,
    },
    /// Too many batches.
    #[error("list {list} of messages would have {count} batches, and may have {max} (run.messages_max)")]
    TooManyBatches {
        /// The list.
        list: String,
        /// How many there would be.
        count: usize,
        /// How many there may be.
        max: u64,
    },
    /// Too many bytes.
    #[error("list {list} of messages would have {bytes} bytes, and may have {max} (run.messages_bytes_max)")]
    ConversationTooLarge {
        /// The list.
        list: String,
        /// How many bytes it would have.
        bytes: usize,
        /// How many it may have.
        max: u64,
    },
    /// Too many lists.
    #[error("the run would have {count} lists of messages, and may have {max}")]
    TooManyConversations {
        /// How many there would be.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// `rt` is too large.
    #[error("rt would have {bytes} bytes, and may have {max} (run.runtime_bytes_max)")]
    RuntimeTooLarge {
        /// How many bytes it would have.
        bytes: usize,
        /// How many it may have.
        max: u64,
    },
    /// A record is too large, or there are too many.
    #[error("a history record has {bytes} bytes, and may have {max} (run.history_record_bytes_max)")]
    HistoryRecordTooLarge {
        /// How many bytes it has.
        bytes: usize,
        /// How many it may have.
        max: u64,
    },
    /// Too many records.
    #[error(
        "the history of the run would have {count} records, and may have {max} (run.history_records_max)"
    )]
    HistoryTooLong {
        /// How many there would be.
        count: u64,
        /// How many there may be.
        max: u64,
    },
}

macro_rules! names {
    ($($variant:ident)*) => {
        impl ObjectError {
            /// The names of all of them.
            pub const NAMES: &[&str] = &[$(stringify!($variant),)*];
            /// The name that runs and workflows know it by.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => stringify!($variant),)* }
            }
        }
    };
}

names! {
    InsertPositionOutOfRange VisibleIndexOutOfBounds TargetBatchNotFound InvalidBoundaryIndex InvalidConversationId
    ParentConversationNotFound ConversationTooLong TooManyBatches ConversationTooLarge TooManyConversations
    RuntimeTooLarge HistoryRecordTooLarge HistoryTooLong
}

impl From<ObjectError> for NodeFailure {
    fn from(error: ObjectError) -> Self {
        Self::new(error.name(), error.to_string())
    }
}
