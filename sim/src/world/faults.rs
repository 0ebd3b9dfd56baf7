//! How many faults a story has. The rates are drawn once from its seed: some stories have no faults, some have one
//! kind, some have all.

use crate::dice::Dice;

/// Rates of faults in thousandths, for each time that the fault could happen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// A scheduler dies, at any turn.
    pub(crate) scheduler_dies: u64,
    /// A scheduler dies when it sends a commit or receives the answer.
    pub(crate) dies_at_commit: u64,
    /// The answer to a commit is lost: the commit was written, was not written, or will be written later.
    pub(crate) answer_lost: u64,
    /// A scheduler freezes for a while.
    pub(crate) scheduler_freezes: u64,
    /// A scheduler gives a shard up, so that another one can take it.
    pub(crate) shard_moves: u64,
    /// A worker dies with all its jobs.
    pub(crate) worker_dies: u64,
    /// A worker freezes for a while.
    pub(crate) worker_freezes: u64,
    /// A worker hands a job back.
    pub(crate) hands_back: u64,
    /// A message is lost.
    pub(crate) message_lost: u64,
    /// A message is late, so that others overtake it.
    pub(crate) message_late: u64,
    /// A message arrives twice.
    pub(crate) message_twice: u64,
    /// A fact that was in the inbox arrives again much later.
    pub(crate) echo: u64,
    /// A job is deleted.
    pub(crate) job_lost: u64,
    /// A replica stops receiving writes.
    pub(crate) replica_stops: u64,
    /// A server fails over to its replica.
    pub(crate) fails_over: u64,
    /// A slot moves: its shard refuses requests for a while.
    pub(crate) slot_moves: u64,
}

impl Faults {
    /// Draws the rates.
    pub(crate) fn draw(dice: &mut Dice, failovers: bool) -> Self {
        let mut faults = Self::of_processes(dice);
        if failovers && dice.percent(60) {
            if dice.percent(30) {
                // Servers are all that fails.
                faults = Self::default();
            }
            let mut rate = |high: u64| if dice.percent(70) { dice.between(1, high) } else { 0 };
            (faults.replica_stops, faults.fails_over, faults.slot_moves) = (rate(400), rate(150), rate(150));
        }
        faults
    }

    fn of_processes(dice: &mut Dice) -> Self {
        match dice.below(10) {
            0 => return Self::default(),
            // Jobs often change their holder, and reports of earlier holders arrive late.
            1 => return Self { hands_back: 150, message_late: 700, echo: 1000, ..Self::default() },
            // Jobs kill their workers until the jobs are given up.
            2 => return Self { worker_dies: 120, ..Self::default() },
            _ => {}
        }
        // Most faults are absent from most stories, so that each fault also occurs nearly alone.
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
            ..Self::default()
        }
    }
}
