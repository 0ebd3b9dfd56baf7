//! Removes each guard: some story must then fail in a way that the guard prevents. A check that never fails proves
//! nothing.

use tidemill_sim::guards::Guard;
use tidemill_sim::{Settings, simulate};

/// Number of stories within which a missing guard must show.
const SEEDS: u64 = 5000;

fn is_missed(guard: Guard, by: &[&str]) {
    let caught =
        (0..SEEDS).find_map(|seed| Some((seed, simulate(seed, Settings::without(guard)).violation?)));
    let Some((seed, violation)) = caught else {
        panic!("without {}, all {SEEDS} stories still end as expected", guard.name());
    };
    assert!(by.contains(&violation.id), "without {}, seed {seed} breaks {violation:?}", guard.name());
}

#[test]
fn without_a_fence_a_frozen_owner_overwrites_its_successors_data() {
    is_missed(Guard::Fence, &["SIM-1", "SIM-10", "SIM-11"]);
}

#[test]
fn without_a_cursor_in_the_commit_facts_are_applied_again() {
    is_missed(Guard::Cursor, &["SIM-11"]);
}

#[test]
fn without_a_check_of_entry_and_attempt_late_reports_are_taken_for_new_ones() {
    is_missed(Guard::Job, &["SIM-4", "SIM-8", "SIM-9"]);
}

#[test]
fn without_a_check_of_the_delivery_texts_of_two_holders_are_mixed() {
    is_missed(Guard::Delivery, &["SIM-8"]);
}

#[test]
fn without_a_check_of_the_holder_a_job_has_two_results() {
    is_missed(Guard::Holder, &["SIM-11"]);
}

#[test]
fn an_owner_that_guesses_about_an_unanswered_commit_keeps_data_that_was_not_written() {
    is_missed(Guard::Unknown, &["SIM-10"]);
}

#[test]
fn timers_that_are_popped_are_lost_with_their_reader() {
    is_missed(Guard::Timers, &["SIM-14"]);
}

#[test]
fn without_repair_a_run_waits_forever_for_a_lost_job() {
    is_missed(Guard::Repair, &["SIM-14"]);
}

#[test]
fn without_take_over_a_run_waits_forever_for_a_dead_worker() {
    is_missed(Guard::TakeOver, &["SIM-14"]);
}

#[test]
fn an_owner_whose_connection_outlives_its_server_goes_on_with_what_is_lost() {
    is_missed(Guard::Line, &["SIM-1", "SIM-10", "SIM-11"]);
}

#[test]
fn a_submission_that_does_not_wait_for_replicas_is_acknowledged_and_lost() {
    is_missed(Guard::Replicas, &["SIM-16"]);
}

#[test]
fn a_submission_that_does_not_look_at_the_master_again_is_acknowledged_and_lost() {
    is_missed(Guard::Master, &["SIM-16"]);
}

#[test]
fn a_commit_that_is_sent_again_although_it_was_written_is_written_twice() {
    is_missed(Guard::Again, &["SIM-1", "SIM-10", "SIM-11"]);
}

#[test]
fn a_follower_that_does_not_look_back_is_not_told_what_is_lost() {
    is_missed(Guard::Reset, &["SIM-17", "SIM-18"]);
}
