//! What can go wrong inside a run, as data: it must survive the process in which it happened.

use std::fmt;

/// A node's failure as the run records it. `error_type` is the class name that Dify would report, so that a
/// workflow can branch on it; it may be empty, where Dify leaves it empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NodeFailure {
    /// What happened, for people. Never holds a secret.
    pub message: String,
    /// The class of it, such as `InvokeRateLimitError`.
    pub error_type: String,
    /// Whether another try could help.
    pub retryable: bool,
    /// How long the other side asked to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl NodeFailure {
    /// A failure that another try will not mend.
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            error_type: error_type.into(),
            retryable: false,
            retry_after_ms: None,
        }
    }
    /// A failure that may pass.
    pub fn passing(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::new(error_type, message) }
    }
    /// What Dify reports for an exception that escapes a node: class `WorkflowNodeError`.
    pub fn escaped(message: impl Into<String>) -> Self {
        Self::new("WorkflowNodeError", message)
    }
}

/// What the error of a job begins with that no worker can read.
pub const JOB_REFUSED: &str = "a worker cannot run the job";

/// The class of a failure that the engine itself reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineErrorType {
    /// The job was handed out again and again and no worker brought a result.
    WorkerLost,
    /// The engine met a state it did not expect; the run ends, the process goes on.
    Engine,
    /// A worker met a defect of its own while running the node.
    WorkerPanic,
    /// A value is larger than the hard limit.
    ValueTooLarge,
    /// A value that was stored apart is no longer there.
    BlobMissing,
    /// No worker took the job in the time that its node allows.
    QueueTimeout,
    /// An attempt ran longer than its node allows.
    Timeout,
    /// The run has spent more than it may.
    BudgetExceeded,
    /// The run was not over by the time that its caller has set.
    DeadlineExceeded,
}

impl EngineErrorType {
    /// Every class, for the pages that explain them.
    pub const ALL: [Self; 9] = [
        Self::WorkerLost,
        Self::Engine,
        Self::WorkerPanic,
        Self::ValueTooLarge,
        Self::BlobMissing,
        Self::QueueTimeout,
        Self::Timeout,
        Self::BudgetExceeded,
        Self::DeadlineExceeded,
    ];

    /// The name that events and records carry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WorkerLost => "WorkerLostError",
            Self::Engine => "EngineError",
            Self::WorkerPanic => "WorkerPanicError",
            Self::ValueTooLarge => "ValueTooLargeError",
            Self::BlobMissing => "BlobMissingError",
            Self::QueueTimeout => "QueueTimeoutError",
            Self::Timeout => "TimeoutError",
            Self::BudgetExceeded => "BudgetExceededError",
            Self::DeadlineExceeded => "DeadlineExceededError",
        }
    }
}

impl fmt::Display for EngineErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
