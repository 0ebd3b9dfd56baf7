//! The reasons why a node's change is refused. They are deterministic: another attempt would fail in the same
//! way.

use tidemill_base::failure::NodeFailure;

/// See the module. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The position is after the end.
    #[error("Insert position {position} is out of range. Visible messages count: {visible_count}")]
    InsertPositionOutOfRange {
        position: i64,
        /// The number of messages.
        visible_count: usize,
    },
    /// No message has this index.
    #[error("Visible index {index} out of bounds. Visible messages count: {visible_count}")]
    VisibleIndexOutOfBounds {
        index: u64,
        /// The number of messages.
        visible_count: usize,
    },
    /// The batch does not exist, or no longer.
    #[error("Target batch {target} not found. Available batches: {available}")]
    TargetBatchNotFound {
        target: u64,
        /// The existing batch numbers.
        available: String,
    },
    /// A batch cannot start at this index.
    #[error("Invalid boundary index: {boundary}. Messages count: {count}")]
    InvalidBoundaryIndex {
        boundary: u64,
        /// The number of stored messages.
        count: usize,
    },
    /// Invalid list name.
    #[error("{0:?} is not a valid name of a message list: use letters, digits, - and _, at most 64")]
    InvalidConversationId(String),
    /// There is no surrounding conversation.
    #[error(
        "there is no parent conversation: the run has no parent run, and the node is in no iteration or loop"
    )]
    ParentConversationNotFound,
    #[error(
        "message list {list} would have {count} messages; the limit is {max} (run.messages_max); \
         messages that are no longer visible count as well"
    )]
    ConversationTooLong { list: String, count: usize, max: u64 },
    #[error("message list {list} would have {count} batches; the limit is {max} (run.messages_max)")]
    TooManyBatches { list: String, count: usize, max: u64 },
    #[error("message list {list} would have {bytes} bytes; the limit is {max} (run.messages_bytes_max)")]
    ConversationTooLarge { list: String, bytes: usize, max: u64 },
    #[error("the run would have {count} message lists; the limit is {max}")]
    TooManyConversations { count: usize, max: usize },
    #[error("rt would have {bytes} bytes; the limit is {max} (run.runtime_bytes_max)")]
    RuntimeTooLarge { bytes: usize, max: u64 },
    #[error("a history record has {bytes} bytes; the limit is {max} (run.history_record_bytes_max)")]
    HistoryRecordTooLarge { bytes: usize, max: u64 },
    #[error(
        "the history of the run would have {count} records; the limit is {max} (run.history_records_max)"
    )]
    HistoryTooLong { count: u64, max: u64 },
}

macro_rules! names {
    ($($variant:ident)*) => {
        impl MessageError {
            /// The names of all errors.
            pub const NAMES: &[&str] = &[$(stringify!($variant),)*];
            /// Returns the name that runs and workflows see.
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

impl From<MessageError> for NodeFailure {
    fn from(error: MessageError) -> Self {
        Self::new(error.name(), error.to_string())
    }
}
