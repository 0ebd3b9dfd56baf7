//! The part of a run's state about commands, and a few things that few runs have.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::state::cost::Cost;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::NodeId;

/// Commands in effect, and related state that few runs have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Control {
    /// Reasons of the pause commands in effect. While there are any, nothing new begins.
    pub pausing: Vec<Arc<str>>,
    /// The end of the run's last pause. The working time is counted from there, as on Dify.
    pub resumed_at: Option<Timestamp>,
    /// The working time before `resumed_at`, in microseconds. It does not count against the limit on time, as on Dify.
    pub worked_before: i64,
    /// Node starts before `resumed_at`. They do not count against the limit on steps, as on Dify.
    pub steps_before: u64,
    /// Indexes of the breakpoints that have fired.
    pub fired: BTreeSet<usize>,
    /// The cost of wasted replies. It counts against budgets, and is in none of Dify's totals. It is present (perhaps
    /// zero) as soon as the ledger has an entry that is in no total.
    pub wasted: Option<Box<Cost>>,
    pub warnings: Warnings,
}

/// What a run warns about: things that its author may not have meant. They fail nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Warnings {
    /// Branches that were chosen and led nowhere, each once, in the order of their first choice.
    pub dead_ends: Vec<DeadEnd>,
    /// Operations of items on conversation variables that were not applied, each once.
    pub dropped: Vec<Dropped>,
}

impl Warnings {
    /// True when there are no warnings.
    pub fn is_empty(&self) -> bool {
        self.dead_ends.is_empty() && self.dropped.is_empty()
    }
}

/// An operation of an item on a conversation variable that did not fit the value that the variable had then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The iteration.
    pub node: NodeId,
    pub variable: Arc<str>,
    /// The name of the operation. Empty when the run ended before operations on a large value could be applied.
    pub operation: Arc<str>,
}

/// A branch that was chosen although no edge has its handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadEnd {
    pub node: NodeId,
    pub handle: Arc<str>,
}
