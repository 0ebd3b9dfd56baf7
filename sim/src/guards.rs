//! The guards that protect the engine. Each can be removed, to show that the checks find the damage: a check that never
//! fails proves nothing. Production code has no switch for this; the simulated world acts as if the guard did not
//! exist.

/// A protection without which a fault causes damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Epoch and number of a commit. Without them, an owner that was frozen overwrites its successor's data.
    Fence,
    /// The cursor is written together with the effects. Without it, the next owner applies facts again.
    Cursor,
    /// A report must match the current entry and attempt. Without this check, late reports are taken for new ones.
    Job,
    /// Reports of an older holder are ignored after a report of a newer one.
    Delivery,
    /// A result is accepted only from the current holder, together with its job.
    Holder,
    /// A commit without an answer has an unknown result. Without this rule, its owner continues as if it had been
    /// written.
    Unknown,
    /// A commit removes the timers that it serves. Without this rule, timers are lost when their reader dies.
    Timers,
    /// Lost jobs are found and queued again.
    Repair,
    /// Jobs of silent workers are taken over.
    TakeOver,
    /// A connection ends with its server. Without this rule, an owner goes on after a fail-over with what it remembers.
    Line,
    /// A replicated submission is acknowledged when the replicas have it.
    Replicas,
    /// And only if the master is still the one on which it was written.
    Master,
    /// Only a request that was not executed is sent again.
    Again,
    /// A follower notices that events are missing: by the last one that it had, and by the numbers.
    Reset,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 14] = [
        Self::Fence,
        Self::Cursor,
        Self::Job,
        Self::Delivery,
        Self::Holder,
        Self::Unknown,
        Self::Timers,
        Self::Repair,
        Self::TakeOver,
        Self::Line,
        Self::Replicas,
        Self::Master,
        Self::Again,
        Self::Reset,
    ];

    /// Returns the name for the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Cursor => "cursor",
            Self::Job => "job",
            Self::Delivery => "delivery",
            Self::Holder => "holder",
            Self::Unknown => "unknown",
            Self::Timers => "timers",
            Self::Repair => "repair",
            Self::TakeOver => "take-over",
            Self::Line => "line",
            Self::Replicas => "replicas",
            Self::Master => "master",
            Self::Again => "again",
            Self::Reset => "reset",
        }
    }
    /// Returns true if only a fail-over or a moving slot shows what it is good for.
    pub const fn is_about_servers(self) -> bool {
        matches!(self, Self::Line | Self::Replicas | Self::Master | Self::Again | Self::Reset)
    }
    /// Returns the guard with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|guard| guard.name() == name)
    }
}
