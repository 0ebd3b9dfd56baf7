//! Commands from outside: what of them is in effect, and what was ordered beforehand; and what else a run has to remember
//! now and then.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::body::Spent;
use tidemill_base::clock::Timestamp;

/// Commands in effect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Control {
    /// Reasons of pause commands that no resume has lifted: nothing new begins while there are any.
    pub pausing: Vec<Arc<str>>,
    /// When the run went on after its last pause: its time is counted from there, as on Dify.
    pub resumed_at: Option<Timestamp>,
    /// Node starts before that: they are not counted against the limit any more, as on Dify.
    pub steps_before: u64,
    /// Which of the commands given at submit have taken effect, by their place in that list.
    pub fired: BTreeSet<usize>,
    /// What was paid for replies that were of no use: in none of the totals, which are Dify's, and held against budgets. It is
    /// there, if only as nothing, as soon as the ledger has an entry that no total tells of.
    pub wasted: Option<Box<Spent>>,
}
