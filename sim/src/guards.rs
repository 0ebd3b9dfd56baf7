//! The guards that hold the engine together, each of which can be taken away: a checker that never fails proves nothing.
//! None of them is taken out of the production code; the simulated world acts as if it was not there.

/// Something without which a fault does harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Epoch and number of a commit: without them, an owner that was frozen writes over its successor.
    Fence,
    /// The cursor moves with the effect: without it, the next owner applies facts again.
    Cursor,
    /// A report counts for the entry and the attempt it was made under: without it, late words are taken for fresh ones.
    Job,
    /// A holder that is older than one already heard is not listened to.
    Delivery,
    /// A result is taken from the present holder alone, together with its job.
    Holder,
    /// A commit without an answer is not guessed about: without it, its owner goes on as if it had been written.
    Unknown,
    /// Timers are read, and removed by the commit that serves them: without it, they are gone with whoever read them.
    Timers,
    /// Jobs that are gone are found and enqueued again.
    Repair,
    /// Jobs of silent workers are taken over.
    TakeOver,
}

impl Guard {
    /// Every guard.
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

    /// The word for it.
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
    /// The guard of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|guard| guard.name() == name)
    }
}
