//! Where a node of a run stands, and what it has come to so far.

use std::sync::Arc;

use super::body::{BodyState, Spent, Tally};
use super::records::Record;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, RunId};
use tidemill_workflow::nodes::Phase;

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NodeStatus {
    /// Not every edge to it is decided.
    #[default]
    Unknown,
    /// May run; the step or the run's bound on jobs has not reached it.
    Ready,
    /// Its job waits for a worker.
    Queued,
    /// A worker has told that it is at it.
    Running,
    /// Failed, and waits for its next attempt; or its job is parked.
    Retrying,
    /// A container whose frames are open.
    Body,
    /// Waits for somebody's answer.
    Waiting,
    /// Ended well.
    Succeeded,
    /// Failed for good.
    Failed,
    /// Failed, and its error strategy went on.
    Exception,
    /// No edge to it was taken.
    Skipped,
    /// The run ended before it did.
    Stopped,
}

impl NodeStatus {
    /// Every status but `Unknown`, which is never written.
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
    /// The word for it.
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
    /// The status of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::WRITTEN.into_iter().find(|s| s.name() == name)
    }
    /// True while something is still to come of it.
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
    /// True while a job of it lies in a queue or with a worker.
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

/// One node in one frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeState {
    /// Where it stands.
    pub status: NodeStatus,
    /// The attempt that runs or ran last, from 1; 0 before the first.
    pub attempt: u32,
    /// The entry of its job, while it has one.
    pub job: Option<EntryId>,
    /// The newest delivery that was heard of, within the attempt.
    pub delivery: u32,
    /// When the first attempt began, once it was told.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The handle it left by, when it is not `source`.
    pub handle: Option<Arc<str>>,
    /// The failure's text, for a failed one.
    pub error: Option<Arc<str>>,
    /// Attempts that failed.
    pub failures: u32,
    /// What its model calls cost, all attempts.
    pub spent: Spent,
    /// The part of that which steps of the present execution have told already; its end does not count it again.
    pub charged: Spent,
    /// What its job waits for in nobody's hands, while it does.
    pub parked: Option<Arc<str>>,
    /// The run that its present attempt has called.
    pub call: Option<Box<OpenCall>>,
    /// The end that it has come to while nobody had it, and that its hooks are still to be told of.
    pub ended: Option<Box<Ended>>,
    /// Of a container: how far its frames are, while any are open or to come.
    pub body: Option<Box<BodyState>>,
    /// Of a container: what happened in those of its frames that are closed.
    pub inside: Tally,
}

/// The end of a node, before it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// It failed.
    pub failed: bool,
    /// What it left.
    pub record: Box<Record>,
}

/// A run that a node has called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenCall {
    /// Which.
    pub run: RunId,
    /// It is over, and the node's job is to read what came of it.
    pub ended: bool,
}

impl NodeState {
    /// The attempt that the timer of a waiting node brings: the next one, or the present one of a parked job.
    pub const fn attempt_due(&self) -> u32 {
        if self.parked.is_some() { self.attempt } else { self.attempt + 1 }
    }
    /// Whether its attempt has begun and goes on, also while it waits for a worker: a container between its frames, a node whose
    /// end is to be told to its hooks.
    pub fn is_between(&self) -> bool {
        self.ended.is_some() || self.body.as_ref().is_some_and(|body| body.phase != Some(Phase::Open))
    }
    /// What this node adds to the counters of its run, closed frames included. Attempts that a worker has not been
    /// heard of yet are no starts.
    pub fn tally(&self) -> Tally {
        Tally {
            steps: started_attempts(self) + self.inside.steps,
            failures: u64::from(self.failures) + self.inside.failures,
            spent: self.spent.plus(&self.inside.spent),
        }
    }
}

pub(super) fn started_attempts(node: &NodeState) -> u64 {
    // A queued or ready node has not started; the attempt it waits for does not count yet. One that waits for a worker
    // within its attempt has.
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
