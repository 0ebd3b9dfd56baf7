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
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 9] = [
        Self::Fence,
        Self::Cursor,
        Self::Job,
        Self::Delivery,
        Self::Holder,
        Self::Unknown,
        Self::Timers,
        Self::Repair,
        Self::TakeOver,
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
        }
    }
    /// Returns the guard with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|guard| guard.name() == name)
    }
}
