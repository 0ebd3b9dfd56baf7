//! A checker that never fails proves nothing: each guard is taken away, and some story must go wrong, in the way that
//! the guard is there to prevent.

use tidemill_sim::guards::Guard;
use tidemill_sim::{Settings, simulate};

/// Stories within which a missing guard must show.
const SEEDS: u64 = 1000;

#[test]
fn no_guard_can_be_missed() {
    let mut unnoticed = Vec::new();
    for guard in Guard::ALL {
        let settings = Settings { off: Some(guard), ..Settings::default() };
        let caught = (0..SEEDS).find_map(|seed| simulate(seed, settings).violation.map(|it| (seed, it)));
        match caught {
            Some((_, violation)) if expected(guard).contains(&violation.id) => {}
            Some((seed, violation)) => {
                unnoticed.push(format!("{}: seed {seed} breaks {violation:?} instead", guard.name()));
            }
            None => unnoticed.push(format!("{}: all {SEEDS} stories end as they must", guard.name())),
        }
    }
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
}

/// What a guard is there to prevent.
fn expected(guard: Guard) -> &'static [&'static str] {
    match guard {
        // A fact applied by two owners.
        Guard::Fence | Guard::Cursor => &["SIM-11", "SIM-10", "SIM-1"],
        // A late word ends the wrong attempt, leaves a job behind, or mixes two texts.
        Guard::Job => &["SIM-4", "SIM-8", "SIM-9"],
        // Two holders' texts mixed.
        Guard::Delivery => &["SIM-8"],
        Guard::Holder => &["SIM-11"],
        // An owner that believes what was not written.
        Guard::Unknown => &["SIM-10"],
        // Runs that wait for ever.
        Guard::Timers | Guard::Repair | Guard::TakeOver => &["SIM-14"],
    }
}
