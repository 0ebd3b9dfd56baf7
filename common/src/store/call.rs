//! Calls from one run to another: what whoever makes the called runs is told, and what the caller's worker.

use std::collections::HashMap;

use crate::ids::RunId;

/// A called run that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCall {
    /// The run.
    pub run: RunId,
    /// The run that calls it, on the same shard.
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

/// What is known of a run that another has called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// Nobody has ordered it.
    Unknown,
    /// It is ordered, or under way.
    Waits,
    /// It could not be made, for this reason.
    Refused(String),
    /// It is over: the fields of its hash.
    Ended(HashMap<String, String>),
    /// It was there, and its time is over.
    Gone,
}

impl Called {
    /// From the order, whether it still waits to be made into a run, and the fields of the run.
    pub(crate) fn of(order: Option<&str>, is_pending: bool, fields: HashMap<String, String>) -> Self {
        let Some(order) = order else { return Self::Unknown };
        let refused = serde_json::from_str::<serde_json::Value>(order).ok();
        let refused = refused.as_ref().and_then(|order| order.get("error")?.as_str());
        if let Some(reason) = refused {
            return Self::Refused(reason.to_string());
        }
        match fields.get("status").map(|status| crate::machine::RunStatus::from_name(status)) {
            None if is_pending => Self::Waits,
            None => Self::Gone,
            Some(Some(status)) if status.is_over() => Self::Ended(fields),
            Some(Some(_) | None) => Self::Waits,
        }
    }
}

/// Why a called run is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is kept instead of the order: the same with its `error`.
    pub order: String,
    /// The body of the fact that tells the caller.
    pub fact: String,
}
