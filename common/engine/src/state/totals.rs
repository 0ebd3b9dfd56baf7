//! Counters of a node, a frame and a run.

use crate::state::cost::Cost;
use crate::state::node::started_attempts;
use crate::state::run::{NodeState, NodeStatus, RunState};

/// Counters of a part of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    /// Node starts.
    pub steps: u64,
    /// Failed attempts.
    pub failures: u64,
    /// Cost of model calls.
    pub cost: Cost,
}

impl Tally {
    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            failures: self.failures + other.failures,
            cost: self.cost.plus(&other.cost),
        }
    }
}

/// Counters over all frames of a run, kept up to date with every change of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Node starts.
    pub steps: u64,
    /// Failed attempts.
    pub failures: u64,
    /// Tokens of model calls.
    pub tokens: u64,
    /// Jobs in a queue or with a worker.
    pub jobs: u64,
    /// Nodes that wait for their next attempt.
    pub retrying: u64,
    /// Nodes that wait for an answer.
    pub waiting: u64,
}

impl Sums {
    /// Counts all nodes of a run.
    pub fn of(run: &RunState) -> Self {
        run.frames.iter().fold(Self::default(), |sums, (path, frame)| {
            let counts = run.failures_count(path);
            frame.nodes.iter().fold(sums, |sums, node| sums.plus(Self::of_node(node, counts)))
        })
    }
    /// Counts one node. With `failures_count` false, its own failures are left out.
    pub fn of_node(node: &NodeState, failures_count: bool) -> Self {
        let is = |status: NodeStatus| u64::from(node.status == status);
        let own_failures = if failures_count { u64::from(node.failures) } else { 0 };
        Self {
            steps: started_attempts(node) + node.inside.steps,
            failures: own_failures + node.inside.failures,
            tokens: node.cost.tokens + node.inside.cost.tokens,
            // A child node runs in its parent's job and has none.
            jobs: u64::from(node.job.is_some()),
            retrying: is(NodeStatus::Retrying),
            waiting: is(NodeStatus::Waiting),
        }
    }
    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            failures: self.failures + other.failures,
            tokens: self.tokens + other.tokens,
            jobs: self.jobs + other.jobs,
            retrying: self.retrying + other.retrying,
            waiting: self.waiting + other.waiting,
        }
    }
    /// The difference; `other` is a part of this.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            steps: self.steps - other.steps,
            failures: self.failures - other.failures,
            tokens: self.tokens - other.tokens,
            jobs: self.jobs - other.jobs,
            retrying: self.retrying - other.retrying,
            waiting: self.waiting - other.waiting,
        }
    }
}
