//! A checker that never fails proves nothing: each guard is taken away, and some story must go wrong, in a way that the
//! guard is there to prevent.

use tidemill_sim::guards::Guard;
use tidemill_sim::{Settings, simulate};

/// Stories within which a missing guard must show.
const SEEDS: u64 = 5000;

fn is_missed(guard: Guard, by: &[&str]) {
    let caught =
        (0..SEEDS).find_map(|seed| Some((seed, simulate(seed, Settings::without(guard)).violation?)));
    let Some((seed, violation)) = caught else {
        panic!("without {}, all {SEEDS} stories end as they must", guard.name());
    };
    assert!(by.contains(&violation.id), "without {}, seed {seed} breaks {violation:?}", guard.name());
}

#[test]
fn without_a_fence_a_frozen_owner_writes_over_its_successor() {
    is_missed(Guard::Fence, &["SIM-1", "SIM-10", "SIM-11"]);
}

#[test]
fn without_a_cursor_in_the_commit_facts_are_applied_again() {
    is_missed(Guard::Cursor, &["SIM-11"]);
}

#[test]
fn without_a_look_at_entry_and_attempt_late_words_are_taken_for_fresh_ones() {
    is_missed(Guard::Job, &["SIM-4", "SIM-8", "SIM-9"]);
}

#[test]
fn without_a_look_at_the_delivery_texts_of_two_holders_are_mixed() {
    is_missed(Guard::Delivery, &["SIM-8"]);
}

#[test]
fn without_a_look_at_the_holder_a_job_brings_two_results() {
    is_missed(Guard::Holder, &["SIM-11"]);
}

#[test]
fn an_owner_that_guesses_about_an_unanswered_commit_believes_what_was_not_written() {
    is_missed(Guard::Unknown, &["SIM-10"]);
}

#[test]
fn timers_that_are_popped_are_lost_with_their_reader() {
    is_missed(Guard::Timers, &["SIM-14"]);
}

#[test]
fn without_repair_a_run_waits_for_ever_for_a_job_that_is_gone() {
    is_missed(Guard::Repair, &["SIM-14"]);
}

#[test]
fn without_take_over_a_run_waits_for_ever_for_a_worker_that_is_dead() {
    is_missed(Guard::TakeOver, &["SIM-14"]);
}
