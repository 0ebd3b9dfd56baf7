//! What every store must keep, as one suite: each case says in its name what holds, and runs on a namespace of its own.
//!
//! The cases assert what the traits promise and no more, so that they hold for memory and for Redis, for a clock
//! that is moved and for one that must be waited for ([`Control`]).

mod app_keys;
mod calling;
mod cataloguing;
mod claims;
mod commits;
mod controlling;
mod conversing;
mod dead;
mod fixtures;
mod inbox;
mod jobs;
mod keeping;
mod knowledge;
mod limiting;
mod runs;
mod spending;
mod steps;
mod sweeping;
mod taking_over;
mod timers;
mod triggers;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{CommitError, Store, StoreError};

/// The store's time, in the hands of a case.
#[async_trait]
pub trait Control: Send + Sync {
    /// Lets so much of the store's time pass: moves its clock, or waits.
    async fn advance(&self, by: Duration);
    /// A lease that is worth waiting for: long enough that a case's own requests do not use it up.
    fn lease(&self) -> Duration;
    /// The longest time that [`Self::advance`] can let pass; what needs more is not looked at.
    fn patience(&self) -> Duration;
    /// How many entries the store under test allows in an inbox before it refuses new runs. Keep it small.
    fn inbox_max(&self) -> u64;
    /// How many jobs the store under test allows in a queue before it refuses new runs. Keep it small.
    fn queue_max(&self) -> u64;
}

/// A store on a fresh namespace, and its time.
#[derive(Clone)]
pub struct Subject {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its time.
    pub control: Arc<dyn Control>,
}

/// How a case went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The store answered, and not as promised.
    #[error("{0}")]
    Promise(String),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A commit that had to go through did not.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// How a case went.
pub type Outcome = Result<(), Broken>;

/// A case under way.
pub type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A case, to be started on a fresh namespace.
pub type Case = fn(Subject) -> Running;

macro_rules! cases {
    ($($module:ident :: { $($name:ident),* $(,)? }),* $(,)?) => {
        /// Every case with its name.
        pub const CASES: &[(&str, Case)] = &[$($((stringify!($name), |subject| Box::pin($module::$name(subject)))),*),*];
    };
}

cases! {
    runs::{
        a_run_is_created_once,
        a_full_inbox_refuses_new_runs,
        a_full_queue_refuses_new_runs_that_use_it,
        a_missing_blob_refuses_a_run,
        accepted_blobs_stay_and_others_expire,
        runs_are_listed_newest_first,
        the_list_by_status_follows_the_commits,
        an_app_is_found_by_its_id_and_its_key,
        an_idempotency_key_is_reserved_once,
        events_are_read_in_pages,
        followers_are_woken,
    },
    app_keys::{
        an_app_has_several_keys_and_each_is_listed,
        a_key_that_was_taken_back_opens_nothing_and_stays_known,
        a_new_version_of_an_app_brings_no_key_back,
        what_a_revoked_key_has_spent_and_may_spend_stays,
    },
    inbox::{
        facts_are_read_in_order_from_a_cursor,
        a_waiting_reader_gets_what_comes,
        a_waiting_reader_comes_back_with_nothing,
        the_inbox_is_cut_below_the_cursor_by_its_owner_only,
    },
    claims::{
        a_held_shard_is_refused_to_others,
        a_lease_ends_with_its_time,
        a_renewed_lease_holds_on,
        a_released_shard_is_free_at_once,
        a_second_claim_voids_the_first,
        a_claim_tells_what_to_build_on,
        takeovers_without_progress_are_counted,
        a_shard_given_up_in_good_order_counts_as_no_failure,
        the_living_are_listed,
    },
    commits::{
        a_commit_writes_all_of_a_run,
        a_commit_deletes_fields_and_held_chunks,
        a_lost_owner_writes_nothing,
        events_of_one_commit_are_numbered_per_run,
        a_bounded_step_goes_on_by_a_fact,
        blobs_of_a_commit_can_be_read,
        open_runs_are_told_page_by_page,
    },
    controlling::{
        commands_need_a_run_that_is_not_over,
        a_command_under_a_key_is_sent_once,
        a_command_keeps_its_blobs,
        a_pause_is_answered_once,
        only_a_pause_that_waits_is_answered,
        a_worker_is_told_what_came_of_a_question,
        what_was_called_off_is_not_answered,
        a_commit_writes_what_containers_and_conversations_keep,
        a_conversation_keeps_one_copy_of_each_large_value,
        pauses_and_keys_go_with_their_run,
        the_secret_of_forms_and_the_salt_of_seals_are_written_once,
    },
    keeping::{
        what_a_run_keeps_is_appended_and_read_in_pages,
        a_run_begins_with_a_copy_of_the_messages_of_its_conversation,
        what_a_run_keeps_goes_with_it,
    },
    triggers::{
        triggers_come_and_go_with_versions_of_their_app,
        a_time_of_a_schedule_begins_one_run,
        a_schedule_stays_due_when_its_run_is_refused,
        a_schedule_is_moved_by_who_knows_when_it_is_due,
        what_a_trigger_did_last_is_kept_while_it_is_there,
    },
    timers::{
        timers_are_told_when_due_in_their_order,
        timers_are_set_anew_and_cleared_by_commits,
    },
    jobs::{
        a_job_is_delivered_once,
        jobs_of_several_runs_lie_in_the_order_of_their_entries,
        readers_take_no_more_than_they_ask_for,
        a_waiting_worker_gets_what_comes,
        a_job_is_completed_once,
        a_result_with_a_missing_blob_leaves_the_job,
        what_a_consumer_holds_is_told_again,
        a_job_taken_back_is_never_delivered,
        a_job_taken_back_from_its_holder_is_lost_to_it,
        hints_arrive,
        lost_jobs_are_those_that_nobody_waits_for,
        trimming_a_queue_loses_no_job,
    },
    conversing::{
        runs_enter_a_conversation_one_behind_the_other,
        the_turn_of_a_run_that_has_ended_is_kept_once,
        a_user_is_told_his_conversations_page_by_page,
        conversations_of_one_moment_are_all_told,
        only_its_own_user_changes_a_conversation,
        a_conversation_that_is_removed_takes_nothing_more,
        a_turn_does_not_fall_to_who_has_the_id_now,
        what_is_said_of_a_message_goes_with_its_turn,
        conversations_leave_the_list_when_their_time_is_over,
    },
    cataloguing::{
        an_entry_is_kept_whole_and_changed_by_who_has_seen_it,
        each_kind_has_ids_of_its_own,
        the_version_tells_of_each_change,
        there_is_a_default_profile_while_there_are_profiles,
    },
    steps::{
        a_step_is_recorded_once_with_its_fact,
        a_step_keeps_the_large_values_that_it_refers_to,
        tries_of_a_step_are_counted_where_the_job_goes_on,
        a_step_that_was_begun_twice_says_so_when_it_is_known,
        only_the_holder_of_a_job_records_its_steps,
    },
    spending::{
        what_keys_spend_is_added_up,
        the_ledger_of_a_run_can_be_read,
        a_budget_of_a_key_is_set_and_taken_away,
    },
    calling::{
        an_order_becomes_one_run_and_its_end_is_told,
        what_is_dropped_is_never_made_or_stopped,
        a_refused_order_says_why,
    },
    limiting::{
        a_call_takes_its_turn_in_all_buckets_or_in_none,
        a_call_that_is_asked_for_again_is_counted_once,
        calls_that_wait_come_back_one_by_one,
        tokens_are_set_right_by_what_a_call_took,
        places_are_free_again_when_given_back_or_forgotten,
        a_model_that_refuses_rests_and_others_go_on,
        what_a_provider_says_is_left_lowers_a_level_and_never_raises_it,
    },
    knowledge::{
        a_dataset_is_there_until_it_is_dropped_with_all_it_holds,
        a_document_is_published_whole_and_once,
        the_newest_run_alone_publishes,
        a_removed_document_is_not_published_by_who_was_at_it,
        hits_add_up,
    },
    dead::{
        dead_letters_are_listed_newest_first_page_by_page,
        a_job_given_up_on_is_kept_with_its_result,
        a_dead_fact_is_put_back_once,
    },
    taking_over::{
        a_silent_job_is_taken_over_with_a_higher_number,
        xc_02_whoever_lost_a_job_records_nothing_of_it,
        a_heartbeat_keeps_a_job,
        a_heartbeat_tells_what_is_lost,
        held_streams_are_those_with_a_job_in_hand,
        a_job_handed_back_is_taken_at_once_and_not_counted,
        a_job_is_handed_back_once,
        only_the_holder_hands_back,
        forgetting_consumers_loses_no_job,
    },
    sweeping::{
        runs_that_ended_long_ago_are_removed,
        a_run_goes_with_all_its_blobs,
        only_the_owner_sweeps,
        a_removed_run_with_files_is_told_until_they_are_gone,
        a_graph_goes_with_its_last_run,
        large_values_of_ended_runs_get_their_time,
        the_store_says_how_much_memory_it_uses,
    },
}

/// Runs every case, each on a namespace that `make` makes; answers those that broke.
pub async fn all<F, S>(make: F) -> Vec<(&'static str, Broken)>
where
    F: Fn() -> S,
    S: Future<Output = Subject>,
{
    let mut broken = Vec::new();
    for (name, case) in CASES {
        if let Err(error) = case(make().await).await {
            broken.push((*name, error));
        }
    }
    broken
}

/// Breaks unless both are equal.
fn same<T: PartialEq + Debug>(what: &str, is: T, should_be: T) -> Outcome {
    holds_that(is == should_be, || format!("{what}: is {is:?}, should be {should_be:?}"))
}

/// Breaks unless it holds.
fn holds(what: &str, holds: bool) -> Outcome {
    holds_that(holds, || format!("does not hold: {what}"))
}

fn holds_that(holds: bool, message: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(Broken::Promise(message())) }
}
