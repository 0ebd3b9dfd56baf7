//! What must be true of a fleet, whatever happens to it: a table of invariants, each with the moment it is looked at.
//!
//! | moment | what is looked at |
//! | --- | --- |
//! | every commit | each run it wrote, as it lies in the store now |
//! | a run's end | all that was ever told of it, and the reference's word on it |
//! | on the way | what the world notices by itself |
//! | the story's end | what is left when nothing goes wrong any more |

mod at_commit;
mod at_end;
mod outcome;
mod watch;

pub use watch::{Violation, Watch};

use at_commit::Touched;
use at_end::Told;

/// An invariant.
pub struct Check {
    /// For searching.
    pub id: &'static str,
    /// What it says.
    pub says: &'static str,
    test: Test,
}

/// How an invariant is looked at; a test answers what is wrong.
enum Test {
    /// After each commit, for each run that it wrote.
    Commit(fn(&Touched<'_>) -> Option<String>),
    /// When a run has ended, over all that was told of it.
    End(fn(&Told<'_>) -> Option<String>),
    /// Where it would break: in the watch and the world.
    OnTheWay,
}

/// Every invariant.
pub const CHECKS: &[Check] = &[
    Check {
        id: "SIM-1",
        says: "the events of a run are numbered 1, 2, 3 … as they lie in the store",
        test: Test::Commit(at_commit::events_count_on),
    },
    Check {
        id: "SIM-2",
        says: "the state of every run that a commit wrote holds the machine's own invariants",
        test: Test::Commit(at_commit::state_is_sound),
    },
    Check {
        id: "SIM-3",
        says: "a variable of the root frame is written by one commit, unless it is there to be written again",
        test: Test::Commit(at_commit::variables_are_written_once),
    },
    Check {
        id: "SIM-4",
        says: "a run that is over has no job in a queue and no timer",
        test: Test::Commit(at_commit::nothing_outlives_its_run),
    },
    Check {
        id: "SIM-5",
        says: "each execution starts once and ends once, and nothing is told after the end of the run",
        test: Test::End(at_end::each_execution_has_one_end),
    },
    Check {
        id: "SIM-6",
        says: "a node starts when every edge to it is decided and one is taken",
        test: Test::End(at_end::downstream_follows_upstream),
    },
    Check {
        id: "SIM-7",
        says: "the run's counters are what its events say",
        test: Test::End(at_end::counters_are_the_events),
    },
    Check {
        id: "SIM-8",
        says: "the text that readers were shown is the text that its node made, of one holder and whole",
        test: Test::End(at_end::shown_text_is_whole),
    },
    Check {
        id: "SIM-9",
        says: "status, outputs, failures, and each node's status and attempts are the reference's",
        test: Test::End(outcome::is_the_references),
    },
    Check {
        id: "SIM-10",
        says: "what an owner has in memory is what the store has, once it is committed",
        test: Test::OnTheWay,
    },
    Check {
        id: "SIM-11",
        says: "a shard's commits have rising numbers, a fact is applied by one of them, a job brings one result",
        test: Test::OnTheWay,
    },
    Check { id: "SIM-12", says: "no step panics", test: Test::OnTheWay },
    Check { id: "SIM-13", says: "whatever was written can be read", test: Test::OnTheWay },
    Check {
        id: "SIM-14",
        says: "once nothing goes wrong any more, every run ends: none waits for what will never come",
        test: Test::OnTheWay,
    },
    Check {
        id: "SIM-15",
        says: "when all runs have ended no job, no timer and no unread fact is left, and nothing was given up unseen",
        test: Test::OnTheWay,
    },
];

/// Looks at a run that a commit wrote.
fn after_commit(it: &Touched<'_>) -> Option<(&'static str, String)> {
    CHECKS.iter().find_map(|check| match check.test {
        Test::Commit(test) => test(it).map(|wrong| (check.id, wrong)),
        Test::End(_) | Test::OnTheWay => None,
    })
}

/// Looks at a run that has ended.
fn after_end(it: &Told<'_>) -> Option<(&'static str, String)> {
    CHECKS.iter().find_map(|check| match check.test {
        Test::End(test) => test(it).map(|wrong| (check.id, wrong)),
        Test::Commit(_) | Test::OnTheWay => None,
    })
}
