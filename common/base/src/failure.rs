//! Failures inside a run, as data: they are stored and outlive the process in which they happened.

use std::fmt;

use crate::need::Need;

/// A node's failure as the run records it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NodeFailure {
    /// The message for people. Never holds a secret.
    pub message: String,
    /// The class name that Dify would report, such as `InvokeRateLimitError`; workflows branch on it. Empty
    /// where Dify leaves it empty.
    pub error_type: String,
    /// True when another attempt could help.
    pub retryable: bool,
    /// The wait that the remote side asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// What the worker's set-up lacks, if that is the reason. Not stored.
    pub lacks: Option<Box<Need>>,
}

impl NodeFailure {
    /// A failure that another attempt will not fix.
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            error_type: error_type.into(),
            retryable: false,
            retry_after_ms: None,
            lacks: None,
        }
    }
    /// A failure that another attempt may fix.
    pub fn passing(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::new(error_type, message) }
    }
    /// Marks it as caused by the set-up of this worker.
    #[must_use]
    pub fn lacking(self, need: Need) -> Self {
        Self { lacks: Some(Box::new(need)), ..self }
    }
    /// The failure that Dify reports for an exception that escapes a node: class `WorkflowNodeError`.
    pub fn escaped(message: impl Into<String>) -> Self {
        Self::new("WorkflowNodeError", message)
    }
}

/// The beginning of the error of a job that no worker can read.
pub const JOB_REFUSED: &str = "a worker cannot run the job";

/// The class of a failure that the engine itself reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineErrorType {
    /// The job was delivered as often as allowed, and no worker reported a result.
    WorkerLost,
    /// The engine met a state that it did not expect. The run ends, the process continues.
    Engine,
    /// A worker hit a defect in its own code while it ran the node.
    WorkerPanic,
    /// A value is larger than the hard limit.
    ValueTooLarge,
    /// A value that was stored as a blob no longer exists.
    BlobMissing,
    /// No worker took the job within the time that its node allows.
    QueueTimeout,
    /// An attempt ran longer than its node allows.
    Timeout,
    /// The run has spent more than its budget.
    BudgetExceeded,
    /// The run had not ended by the deadline that its caller set.
    DeadlineExceeded,
    /// A worker ended the attempt, because the working time of the run was over. It stops the run.
    RunTimeOver,
}

impl EngineErrorType {
    /// Every class, for the documentation pages.
    pub const ALL: [Self; 10] = [
        Self::WorkerLost,
        Self::Engine,
        Self::WorkerPanic,
        Self::ValueTooLarge,
        Self::BlobMissing,
        Self::QueueTimeout,
        Self::Timeout,
        Self::BudgetExceeded,
        Self::DeadlineExceeded,
        Self::RunTimeOver,
    ];

    /// Returns the class name that events and records carry.
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
            Self::RunTimeOver => "RunTimeOverError",
        }
    }
}

impl fmt::Display for EngineErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
