//! The table of invariants that must hold for a fleet under all faults, each with the moment when it is checked.
//!
//! | moment | what is checked |
//! | --- | --- |
//! | after every commit | each run that it wrote, as it is stored now |
//! | at a run's end | all its events, compared with the reference |
//! | on the way | what the simulated world notices while it works |
//! | at the story's end | what is left after the faults have stopped |

mod at_commit;
mod at_end;
mod outcome;
mod watch;

pub use watch::{Past, Violation, Watch};

use at_commit::Touched;
use at_end::EndedRun;

/// An invariant.
pub struct Check {
    /// For searching.
    pub id: &'static str,
    /// The invariant in words.
    pub says: &'static str,
    test: Test,
}

/// When an invariant is checked. A test returns a description of what is wrong.
enum Test {
    /// After each commit, for each run that it wrote.
    Commit(fn(&Touched<'_>) -> Option<String>),
    /// When a run has ended, over all its events.
    End(fn(&EndedRun<'_>) -> Option<String>),
    /// In the watch and the world, at the place where it would break.
    OnTheWay,
}

/// Every invariant.
pub const CHECKS: &[Check] = &[
    Check {
        id: "SIM-1",
        says: "the events of a run in the store are numbered 1, 2, 3 …",
        test: Test::Commit(at_commit::events_count_on),
    },
    Check {
        id: "SIM-2",
        says: "the state of every run that a commit wrote keeps the invariants of the machine",
        test: Test::Commit(at_commit::state_is_sound),
    },
    Check {
        id: "SIM-3",
        says: "a variable of the root frame is written by one commit, except variables that are meant to change",
        test: Test::Commit(at_commit::variables_are_written_once),
    },
    Check {
        id: "SIM-4",
        says: "a run that has ended has no job in a queue and no timer",
        test: Test::Commit(at_commit::nothing_outlives_its_run),
    },
    Check {
        id: "SIM-5",
        says: "each execution starts once and ends once, and there are no events after the end of the run",
        test: Test::End(at_end::each_execution_has_one_end),
    },
    Check {
        id: "SIM-6",
        says: "a node starts when every edge to it is decided and one is taken",
        test: Test::End(at_end::downstream_follows_upstream),
    },
    Check {
        id: "SIM-7",
        says: "the run's counters agree with its events",
        test: Test::End(at_end::counters_are_the_events),
    },
    Check {
        id: "SIM-8",
        says: "readers see the complete text of a node, and all of it comes from one holder",
        test: Test::End(at_end::shown_text_is_whole),
    },
    Check {
        id: "SIM-9",
        says: "status, outputs, failures, and each node's status and attempts are those of the reference",
        test: Test::End(outcome::is_the_references),
    },
    Check {
        id: "SIM-10",
        says: "a committed run is the same in the owner's memory and in the store",
        test: Test::OnTheWay,
    },
    Check {
        id: "SIM-11",
        says: "the commits of a shard have rising numbers, one of them applies a fact, a job has one result",
        test: Test::OnTheWay,
    },
    Check { id: "SIM-12", says: "no step panics", test: Test::OnTheWay },
    Check { id: "SIM-13", says: "everything that was written can be read", test: Test::OnTheWay },
    Check {
        id: "SIM-14",
        says: "after the last fault every run ends: none waits for something that will never come",
        test: Test::OnTheWay,
    },
    Check {
        id: "SIM-15",
        says: "when all runs have ended, no job, timer or unread fact is left, and everything given up was reported",
        test: Test::OnTheWay,
    },
    Check {
        id: "SIM-16",
        says: "a run that was acknowledged as replicated is there after every fail-over",
        test: Test::OnTheWay,
    },
    Check {
        id: "SIM-17",
        says: "a follower is told to begin again, or that the run is gone, if something that it was sent was lost, and no other follower is",
        test: Test::OnTheWay,
    },
    Check {
        id: "SIM-18",
        says: "what a follower was sent, since the last reset, is what is stored",
        test: Test::OnTheWay,
    },
];

/// Checks a run that a commit wrote.
fn after_commit(it: &Touched<'_>) -> Option<(&'static str, String)> {
    CHECKS.iter().find_map(|check| match check.test {
        Test::Commit(test) => test(it).map(|wrong| (check.id, wrong)),
        Test::End(_) | Test::OnTheWay => None,
    })
}

/// Checks a run that has ended.
fn after_end(it: &EndedRun<'_>) -> Option<(&'static str, String)> {
    CHECKS.iter().find_map(|check| match check.test {
        Test::End(test) => test(it).map(|wrong| (check.id, wrong)),
        Test::Commit(_) | Test::OnTheWay => None,
    })
}
