//! The reasons why a submission is refused, with messages for the client.

use tidemill_common::config::nearest;
use tidemill_common::failure::EngineErrorType;
use tidemill_common::ids::RunId;
use tidemill_common::store::{AppState, StoreError, Unconfirmed};

use crate::background::limits::OverLimit;
use crate::workflows::GraphError;

/// Longest `user`, in characters. Dify keeps it in a column of this width.
pub const USER_CHARS_MAX: usize = 255;

/// A submission was refused. No run was created, except perhaps with [`SubmitError::Store`] and
/// [`SubmitError::Unconfirmed`].
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The workflow cannot be loaded or imported.
    #[error(transparent)]
    Workflow(#[from] GraphError),
    /// Inputs that do not fit the start form, in Dify's words.
    #[error("{message}")]
    Inputs {
        message: String,
        /// False where Dify answers with an internal error instead of `invalid_param`.
        invalid_param: bool,
    },
    /// Moderation flagged the inputs of a workflow; the text is the app's preset response.
    #[error("{0}")]
    Moderated(String),
    /// The server that must check the inputs does not, so the run does not begin. The log says why.
    #[error(
        "the inputs could not be checked, because the moderation service could not be reached; try again in a moment"
    )]
    ModerationFailed,
    /// An option that does not exist.
    #[error("unknown option {key} in {origin}{}", nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    UnknownOption {
        key: String,
        /// The request or the workflow.
        origin: &'static str,
        /// The most similar known option.
        nearest: Option<String>,
    },
    /// An option has a wrong value.
    #[error("option {key} in {origin} must be {expected}")]
    Option {
        key: &'static str,
        /// The request or the workflow.
        origin: &'static str,
        /// The valid values.
        expected: String,
    },
    /// A conversation variable of another type.
    #[error("conversation variable {name} must be of type {expected}")]
    Conversation { name: String, expected: &'static str },
    /// A conversation that belongs to another app or user.
    #[error("conversation_id names a conversation of another app or user")]
    ForeignConversation,
    /// A turn of `memory` is invalid; its index.
    #[error("memory[{0}] must be an object with the texts query and answer, and perhaps a list of files")]
    Memory(usize),
    /// A command is invalid.
    #[error("{place} {reason}")]
    Command {
        /// The path in the request, such as `commands[0].after`.
        place: String,
        reason: String,
    },
    /// A run cannot begin at this node.
    #[error("root {0:?} is no node of the workflow that a run can begin at")]
    Root(String),
    /// Another scheduler has already started the run for this time of a schedule, or for this order.
    #[error("another scheduler has started this run")]
    Passed,
    /// The id of the conversation has an invalid form.
    #[error("conversation_id must have at most 64 characters: letters, digits, and - _ .")]
    ConversationId,
    /// Too many workflows call each other in a chain. The text is Dify's.
    #[error("Max workflow call depth {0} reached.")]
    CallDepth(u64),
    /// The user's name is too long.
    #[error("user must have at most {USER_CHARS_MAX} characters")]
    User,
    /// The storage of files does not answer.
    #[error("uploads cannot be read now (files.url); try again in a moment")]
    Uploads,
    /// The request is valid, but this version cannot serve it.
    #[error("{0}")]
    NotSupported(String),
    /// A value is too large.
    #[error("{name} has {size} bytes as JSON, more than run.value_bytes_max ({max} bytes)")]
    ValueTooLarge { name: String, size: usize, max: usize },
    /// The app was switched off.
    #[error("the app {0} is off and accepts no new runs; `tidemill apps enable {0}` switches it on")]
    AppOff(String),
    /// The app is being removed.
    #[error("the app {0} is being removed and accepts no new runs")]
    AppRemoved(String),
    /// The API key that pays for the run has spent its budget.
    #[error("{class}: {0}", class = EngineErrorType::BudgetExceeded)]
    OverBudget(String),
    /// The app or the API key has as many runs as it may have.
    #[error("{0}")]
    OverLimit(OverLimit),
    /// The idempotency key was used by another request.
    #[error("this Idempotency-Key was used before, with another request")]
    KeyTaken,
    /// The inbox of the shard is full.
    #[error("too many facts wait to be applied (scheduler.inbox_max); try again in a moment")]
    Busy,
    /// A queue of the run is full.
    #[error("too many jobs wait for a worker (scheduler.queue_max); try again in a moment")]
    QueueFull,
    /// A value that was stored a moment ago is gone.
    #[error("the store lost a value of this submission; try again")]
    BlobGone,
    /// The snapshot cannot be imported.
    #[error("{0}")]
    Snapshot(String),
    /// The store cannot give the durability that was asked for; what to set. Nothing was created.
    #[error("{0}")]
    Undurable(String),
    /// It is unknown whether the run, the answer or the command will survive a fail-over or a loss of power.
    #[error("{why}; whether the request survives is unknown: repeat it under the same key")]
    Unconfirmed {
        /// The run that it is about, which may exist or not.
        run: RunId,
        why: Box<Unconfirmed>,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SubmitError {
    /// The error for an app in this state; `None` if it accepts runs.
    pub(crate) fn of_state(app: &str, state: AppState) -> Option<Self> {
        match state {
            AppState::On => None,
            AppState::Off => Some(Self::AppOff(app.to_owned())),
            AppState::Removing => Some(Self::AppRemoved(app.to_owned())),
        }
    }

    /// True when the same submission may succeed in a moment.
    pub(super) fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Busy | Self::QueueFull | Self::OverBudget(_) | Self::OverLimit(_) | Self::BlobGone
        )
    }
}

/// The error for an unknown option.
pub(super) fn unknown_option(key: &str, origin: &'static str, known: &[&str]) -> SubmitError {
    let known: Vec<String> = known.iter().map(|k| (*k).to_string()).collect();
    SubmitError::UnknownOption { key: key.into(), origin, nearest: nearest(key, known.iter()) }
}
