//! How much goes wrong in one story: rates, drawn once from its seed, so that some stories are quiet, some have one kind
//! of fault and some have all of them.

use crate::dice::Dice;

/// Rates in thousandths, at the moment each is asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// A scheduler dies, at any turn.
    pub(crate) scheduler_dies: u64,
    /// A scheduler dies as it sends a commit, or as it gets its answer.
    pub(crate) dies_at_commit: u64,
    /// A commit's answer is lost: it was written, was not, or will be later.
    pub(crate) answer_lost: u64,
    /// A scheduler stands still for a while.
    pub(crate) scheduler_freezes: u64,
    /// A shard is given up for another.
    pub(crate) shard_moves: u64,
    /// A worker dies with all it holds.
    pub(crate) worker_dies: u64,
    /// A worker stands still for a while.
    pub(crate) worker_freezes: u64,
    /// A worker hands a job back.
    pub(crate) hands_back: u64,
    /// A message is lost before it arrives.
    pub(crate) message_lost: u64,
    /// A message takes its time, so that others pass it.
    pub(crate) message_late: u64,
    /// A message arrives twice.
    pub(crate) message_twice: u64,
    /// A fact that was in the inbox comes again, much later.
    pub(crate) echo: u64,
    /// A job is deleted by hand.
    pub(crate) job_lost: u64,
}

impl Faults {
    /// Draws how much goes wrong.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        match dice.below(10) {
            0 => return Self::default(),
            // Jobs change hands all the time, and the words of earlier holders come late.
            1 => return Self { hands_back: 150, message_late: 700, echo: 1000, ..Self::default() },
            // Workers die of their jobs, until the jobs are given up.
            2 => return Self { worker_dies: 120, ..Self::default() },
            _ => {}
        }
        // Most faults are absent from most stories, so that each is also seen nearly alone.
        let present = [25, 50, 90][dice.below(3)];
        let mut rate = |high: u64| if dice.percent(present) { dice.between(1, high) } else { 0 };
        Self {
            scheduler_dies: rate(15),
            dies_at_commit: rate(150),
            answer_lost: rate(250),
            scheduler_freezes: rate(15),
            shard_moves: rate(15),
            worker_dies: rate(20),
            worker_freezes: rate(20),
            hands_back: rate(100),
            message_lost: rate(200),
            message_late: rate(500),
            message_twice: rate(200),
            echo: rate(400),
            job_lost: rate(150),
        }
    }
}
