//! The part of a run's state about commands, and a few things that few runs have.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::state::cost::Cost;
use crate::state::warnings::Warnings;
use tidemill_base::clock::Timestamp;

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
    /// Things that the author of the workflow may not have meant.
    pub warnings: Warnings,
}
