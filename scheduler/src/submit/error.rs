//! Why a submission is refused, in words for the client.

use tidemill_common::config::nearest;
use tidemill_common::failure::EngineErrorType;
use tidemill_common::store::StoreError;

use crate::workflows::GraphError;

/// Longest `user`, in characters. Dify keeps it in a column of this width.
pub const USER_CHARS_MAX: usize = 255;

/// Why nothing was submitted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The workflow cannot be had.
    #[error(transparent)]
    Workflow(#[from] GraphError),
    /// Inputs that the start form does not take, in Dify's words.
    #[error("{message}")]
    Inputs {
        /// What is wrong.
        message: String,
        /// False for what Dify takes for an error of its own.
        invalid_param: bool,
    },
    /// An option that does not exist.
    #[error("unknown option {key} in {origin}{}", nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    UnknownOption {
        /// Its name.
        key: String,
        /// The request or the workflow.
        origin: &'static str,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// An option's value does not fit.
    #[error("option {key} in {origin} must be {expected}")]
    Option {
        /// Its name.
        key: &'static str,
        /// The request or the workflow.
        origin: &'static str,
        /// What would fit.
        expected: String,
    },
    /// A conversation variable of another type.
    #[error("conversation variable {name} must be of type {expected}")]
    Conversation {
        /// Its name.
        name: String,
        /// The type that the workflow gives it.
        expected: &'static str,
    },
    /// A conversation that belongs to another app or user.
    #[error("conversation_id names a conversation of another app or user")]
    ForeignConversation,
    /// A turn that does not fit.
    #[error("memory[{0}] must be an object with the texts query and answer, and perhaps a list of files")]
    Memory(usize),
    /// A command that does not fit.
    #[error("{place} {reason}")]
    Command {
        /// Where in the request.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// A node that no run can begin at.
    #[error("root {0:?} is no node of the workflow that a run can begin at")]
    Root(String),
    /// The time of a schedule, or a called run, that another scheduler has dealt with.
    #[error("another scheduler has dealt with it")]
    Passed,
    /// An id that no conversation can have.
    #[error("conversation_id must have at most 64 characters: letters, digits, and - _ .")]
    ConversationId,
    /// Workflows that call workflows, too deep. Dify's text.
    #[error("Max workflow call depth {0} reached.")]
    CallDepth(u64),
    /// The user's name is too long.
    #[error("user must have at most {USER_CHARS_MAX} characters")]
    User,
    /// Well said, and not possible yet.
    #[error("{0}")]
    NotSupported(String),
    /// A value over the bound.
    #[error("{name} has {size} bytes as JSON, more than run.value_bytes_max ({max} bytes)")]
    ValueTooLarge {
        /// Which value.
        name: String,
        /// Its size.
        size: usize,
        /// The bound.
        max: usize,
    },
    /// The key that pays has spent all it may.
    #[error("{class}: {0}", class = EngineErrorType::BudgetExceeded)]
    OverBudget(String),
    /// The idempotency key belongs to another request.
    #[error("this Idempotency-Key was used before, with another request")]
    KeyTaken,
    /// The shard has too much to do.
    #[error("too many facts wait to be applied (scheduler.inbox_max); try again in a moment")]
    Busy,
    /// The workers are behind.
    #[error("too many jobs wait for a worker (scheduler.queue_max); try again in a moment")]
    QueueFull,
    /// A value that was stored a moment ago is gone.
    #[error("the store lost a value of this submission; try again")]
    BlobGone,
    /// A snapshot that cannot be taken up.
    #[error("{0}")]
    Snapshot(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The error for a key that is not among the known ones.
pub(super) fn unknown_option(key: &str, origin: &'static str, known: &[&str]) -> SubmitError {
    let known: Vec<String> = known.iter().map(|k| (*k).to_string()).collect();
    SubmitError::UnknownOption { key: key.into(), origin, nearest: nearest(key, known.iter()) }
}
