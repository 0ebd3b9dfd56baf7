//! The state of one node in one frame.

use std::sync::Arc;

use crate::state::clock::Clock;
use crate::state::container::BodyState;
use crate::state::cost::Cost;
use crate::state::record::Record;
use crate::state::totals::Tally;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, RunId};
use tidemill_workflow::nodes::Phase;

/// The status of a node; docs/lifecycle.md has the diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NodeStatus {
    /// Some edge to it is not decided. Never stored.
    #[default]
    Unknown,
    /// It may run, but has no job yet.
    Ready,
    /// Its job waits for a worker.
    Queued,
    /// A worker has reported that it executes the job.
    Running,
    /// It failed and waits for its next attempt, or its job is parked.
    Retrying,
    /// A container with open frames.
    Body,
    /// Waits for an answer.
    Waiting,
    Succeeded,
    /// Failed permanently.
    Failed,
    /// Failed, and its error strategy continued.
    Exception,
    /// No edge to it was taken.
    Skipped,
    /// The run ended before the node did.
    Stopped,
}

impl NodeStatus {
    /// All statuses but `Unknown`, which is never stored.
    pub const WRITTEN: [Self; 11] = [
        Self::Ready,
        Self::Queued,
        Self::Running,
        Self::Retrying,
        Self::Body,
        Self::Waiting,
        Self::Succeeded,
        Self::Failed,
        Self::Exception,
        Self::Skipped,
        Self::Stopped,
    ];
    /// The name of the status on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ready => "ready",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Body => "body",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Exception => "exception",
            Self::Skipped => "skipped",
            Self::Stopped => "stopped",
        }
    }
    /// Returns the status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::WRITTEN.into_iter().find(|s| s.name() == name)
    }
    /// True while the node may still run, runs or waits: the run cannot end before it.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Ready | Self::Queued | Self::Running | Self::Retrying | Self::Body | Self::Waiting => true,
            Self::Unknown
            | Self::Succeeded
            | Self::Failed
            | Self::Exception
            | Self::Skipped
            | Self::Stopped => false,
        }
    }
    /// True while the node has a job in a queue or with a worker.
    pub const fn has_job(self) -> bool {
        match self {
            Self::Queued | Self::Running => true,
            Self::Unknown
            | Self::Ready
            | Self::Retrying
            | Self::Body
            | Self::Waiting
            | Self::Succeeded
            | Self::Failed
            | Self::Exception
            | Self::Skipped
            | Self::Stopped => false,
        }
    }
}

/// The state of one node in one frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeState {
    pub status: NodeStatus,
    /// The present or last attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// The entry of the job, while there is one.
    pub job: Option<EntryId>,
    /// The newest delivery of the job that the engine knows.
    pub delivery: u32,
    /// The start of the first attempt, once its event was emitted.
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// The clock of the run when the present delivery began, while it runs; the default otherwise.
    pub clock: Clock,
    /// The handle of the end, if it is not `source`.
    pub handle: Option<Arc<str>>,
    /// The text of the failure.
    pub error: Option<Arc<str>>,
    /// The worker of the failure, if it is known.
    pub worker: Option<Arc<str>>,
    /// The number of failed attempts.
    pub failures: u32,
    /// The cost of model calls in all attempts.
    pub cost: Cost,
    /// The part of `cost` that journal entries have charged already. The end of the execution does not count it again.
    pub charged: Cost,
    /// The reason of the wait, while the job is parked.
    pub parked: Option<Arc<str>>,
    /// The sub-workflow run that the present attempt has called.
    pub call: Option<Box<OpenCall>>,
    /// The sub-workflow runs that the job has ordered while its worker continues. Those that have ended are not in it.
    pub side_calls: Vec<RunId>,
    /// The end of the node, while its hooks after the end are still to run.
    pub ended: Option<Box<PendingEnd>>,
    /// The progress of a container, while it is open.
    pub body: Option<Box<BodyState>>,
    /// Counters over the closed frames of a container.
    pub inside: Tally,
}

/// The end of a node that does not count yet, because its hooks have to run first.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingEnd {
    pub failed: bool,
    pub record: Box<Record>,
}

/// A sub-workflow run that a node has called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenCall {
    pub run: RunId,
    /// True when the run has ended and the node's job has to read its outputs.
    pub ended: bool,
}

impl NodeState {
    /// True while a worker holds the job of the node, as far as is known.
    pub(crate) fn is_held(&self) -> bool {
        self.status == NodeStatus::Running && self.job.is_some()
    }
    /// The attempt that a retry timer begins: the next one, or the present one of a parked job.
    pub const fn attempt_due(&self) -> u32 {
        if self.parked.is_some() { self.attempt } else { self.attempt + 1 }
    }
    /// True when the present attempt has begun and continues, even if the node has no job now: a container between its
    /// phases, or a node whose hooks have to run.
    pub fn is_between(&self) -> bool {
        self.ended.is_some() || self.body.as_ref().is_some_and(|body| body.phase != Some(Phase::Open))
    }
    /// Counts what this node adds to the counters of its run, closed frames included. An attempt that no worker has
    /// begun is not a start.
    pub fn tally(&self) -> Tally {
        Tally {
            steps: started_attempts(self) + self.inside.steps,
            failures: u64::from(self.failures) + self.inside.failures,
            cost: self.cost.plus(&self.inside.cost),
        }
    }
}

pub(crate) fn started_attempts(node: &NodeState) -> u64 {
    // The attempt that a queued or ready node waits for has not started, so it does not count, unless the node is
    // within an attempt.
    match node.status {
        NodeStatus::Unknown | NodeStatus::Skipped => 0,
        NodeStatus::Ready | NodeStatus::Queued if node.is_between() => u64::from(node.attempt),
        NodeStatus::Ready | NodeStatus::Queued => u64::from(node.attempt.saturating_sub(1)),
        NodeStatus::Stopped => {
            u64::from(if node.started_at.is_some() { node.attempt } else { node.attempt.saturating_sub(1) })
        }
        NodeStatus::Running
        | NodeStatus::Retrying
        | NodeStatus::Body
        | NodeStatus::Waiting
        | NodeStatus::Succeeded
        | NodeStatus::Failed
        | NodeStatus::Exception => u64::from(node.attempt),
    }
}
