//! Sub-workflow runs: what the store returns to their creator and to the caller's worker.

use std::collections::HashMap;

use tidemill_base::ids::RunId;

/// A sub-workflow run that is ordered and not created yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCall {
    pub run: RunId,
    /// The calling run, on the same shard.
    pub caller: RunId,
    /// The number of the commit that ordered it.
    pub since: u64,
}

impl WaitingCall {
    /// The member of the zset of orders: `<run> <caller>`.
    pub fn member(run: RunId, caller: RunId) -> String {
        format!("{run} {caller}")
    }
    /// Reads such a member.
    pub fn read(member: &str, since: u64) -> Option<Self> {
        let (run, caller) = member.split_once(' ')?;
        Some(Self { run: run.parse().ok()?, caller: caller.parse().ok()?, since })
    }
}

/// The state of a sub-workflow run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// It was never ordered.
    Unknown,
    /// It is ordered and not created yet.
    Waits,
    /// It is in progress: the fields of its hash.
    Runs(HashMap<String, String>),
    /// It could not be created, for this reason.
    Refused(String),
    /// It has ended: the fields of its hash.
    Ended(HashMap<String, String>),
    /// It existed and was removed after its retention.
    Gone,
}

impl Called {
    /// Derives the state from the order, whether the order still waits, and the fields of the run.
    pub(crate) fn of(order: Option<&str>, is_pending: bool, fields: HashMap<String, String>) -> Self {
        let Some(order) = order else { return Self::Unknown };
        let refused = serde_json::from_str::<serde_json::Value>(order).ok();
        let refused = refused.as_ref().and_then(|order| order.get("error")?.as_str());
        if let Some(reason) = refused {
            return Self::Refused(reason.to_string());
        }
        match fields.get("status").map(|status| tidemill_engine::RunStatus::from_name(status)) {
            None if is_pending => Self::Waits,
            None => Self::Gone,
            Some(Some(status)) if status.is_over() => Self::Ended(fields),
            Some(Some(_) | None) => Self::Runs(fields),
        }
    }
}

/// The refusal to create a sub-workflow run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Replaces the stored order: the same order with `error` added.
    pub order: String,
    /// The body of the fact for the caller.
    pub fact: String,
}
