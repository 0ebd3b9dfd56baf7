//! A pause: the wait of a node for a person. A pause is only state; no process holds anything while it lasts.

use std::sync::Arc;

use uuid::Uuid;

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{ExecutionId, FramePath};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::PauseRequest;

/// The status of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseStatus {
    /// Waits for an answer.
    Pending,
    Answered,
    /// No answer came in time.
    Expired,
    /// Cancelled by a client, or the run ended first.
    Cancelled,
}

impl PauseStatus {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Answered, Self::Expired, Self::Cancelled];
    /// The name of the status on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A node's wait for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Pause {
    /// The id of the pause (Dify: session id, form id).
    pub id: Arc<str>,
    pub frame: FramePath,
    pub node: NodeIx,
    pub execution: ExecutionId,
    /// The journal entry that asks; `None` when the node itself waits.
    pub step: Option<Arc<str>>,
    /// The question.
    pub request: Box<PauseRequest>,
    pub opened_at: Timestamp,
    /// The time when the wait ends, if it is limited.
    pub expires_at: Option<Timestamp>,
    pub status: PauseStatus,
}

/// Derives the id of a pause from execution and attempt, so that a step that is computed again opens the same pause.
pub(crate) fn id_of(execution: &ExecutionId, attempt: u32) -> Arc<str> {
    named(&format!("{execution}/pause/{attempt}"))
}

/// Derives the id of a question from execution and journal entry, so that the next worker of the job finds the answer.
pub fn id_in_job(execution: &ExecutionId, step: &str) -> Arc<str> {
    named(&format!("{execution}/ask/{step}"))
}

fn named(name: &str) -> Arc<str> {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).to_string().into()
}
