//! The suite that every store must pass. The name of each case says what holds; each case has its own
//! namespace.
//!
//! The cases assert only what the traits promise, so they hold for memory and Redis, and for a clock that is
//! moved and one that must be waited for ([`Control`]).

mod annotating;
mod app_keys;
mod app_limits;
mod app_records;
mod auditing;
mod calling;
mod cataloguing;
mod claims;
mod commits;
mod controlling;
mod conversing;
mod dead;
mod fixtures;
mod fleet;
mod inbox;
mod jobs;
mod keeping;
mod knowledge;
mod labelling;
mod limiting;
mod noticing;
mod plugin_values;
mod removing;
mod runs;
mod spending;
mod steps;
mod sweeping;
mod taking_over;
#[cfg(test)]
mod tests;
mod timers;
mod triggers;
mod uploading;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use tidemill_common::store::{CommitError, Store, StoreError};

/// Controls the store's time.
#[async_trait]
pub trait Control: Send + Sync {
    /// Lets store time pass: moves the clock, or waits.
    async fn advance(&self, by: Duration);
    /// A lease that is long enough for a case's own requests and short enough to wait for.
    fn lease(&self) -> Duration;
    /// The longest time that [`Self::advance`] can let pass; cases that need more skip that part.
    fn patience(&self) -> Duration;
    /// The limit of an inbox in the store under test, above which it refuses new runs. Keep it small.
    fn inbox_max(&self) -> u64;
    /// The limit of a queue in the store under test, from which it refuses new runs. Keep it small.
    fn queue_max(&self) -> u64;
}

/// A store with a fresh namespace, and control of its time.
#[derive(Clone)]
pub struct Subject {
    pub store: Arc<dyn Store>,
    pub control: Arc<dyn Control>,
}

/// The failure of a case.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The store broke a promise.
    #[error("{0}")]
    Promise(String),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A commit that had to succeed did not.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// The result of a case.
pub type Outcome = Result<(), Broken>;

/// A running case.
pub type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Starts a case on a fresh namespace.
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
        a_kept_blob_stays_when_it_is_stored_again,
        runs_are_listed_newest_first,
        runs_of_an_app_are_listed_until_they_are_removed,
        older_runs_are_listed_by_app_and_the_newest_once_more_later,
        the_list_by_status_follows_the_commits,
        an_app_is_found_by_its_id_and_its_key,
        an_idempotency_key_is_reserved_once,
        events_are_read_in_pages,
        followers_are_woken,
    },
    app_keys::{
        an_app_has_several_keys_and_each_is_listed,
        a_revoked_key_opens_nothing_and_stays_listed,
        a_new_version_of_an_app_brings_no_key_back,
        a_key_keeps_its_label_its_scopes_its_end_and_its_last_use,
        a_revoked_key_keeps_its_spending_and_budget,
    },
    app_limits::{
        limits_of_apps_and_keys_are_set_and_removed,
        a_run_takes_a_place_of_its_app_and_of_its_key_or_none,
        a_place_is_free_when_it_was_given_back_and_a_working_run_holds_one_above_the_limit,
        requests_above_the_limit_of_a_second_are_refused_until_some_time_has_passed,
    },
    noticing::{
        the_webhook_of_an_app_is_stored_and_removed,
        a_notice_waits_from_its_commit_until_it_is_settled,
        notices_are_read_in_pieces_and_few_records_are_kept,
        the_notices_of_an_app_are_dropped,
    },
    auditing::{
        the_audit_log_has_what_was_noted_the_newest_first_in_pages,
        the_audit_log_keeps_the_newest_entries_and_none_that_are_too_old,
    },
    labelling::{
        runs_with_a_label_are_listed_and_counted_until_they_are_removed,
        lists_of_labels_lose_runs_that_an_earlier_version_has_removed,
    },
    removing::{
        an_app_that_is_not_on_accepts_no_runs,
        an_app_that_is_being_removed_stays_so,
        what_is_left_of_a_switch_that_failed_goes_when_the_app_is_on,
        a_removal_is_moved_by_one_process_only,
        what_an_app_keeps_is_found_and_removed,
        applied_facts_are_removed_and_others_stay,
        discarded_runs_go_when_they_have_ended,
    },
    app_records::{
        versions_of_an_app_stay_with_their_first_time,
        the_runs_of_a_version_are_counted_until_they_are_removed,
        a_user_is_noted_with_its_first_and_its_last_time,
        ratings_are_listed_under_their_app,
        pages_of_ratings_far_from_the_newest_are_right,
        runs_of_a_removed_conversation_are_hidden_and_removed,
        inner_runs_are_hidden_and_removed_and_other_runs_stay,
    },
    inbox::{
        facts_are_read_in_order_from_a_cursor,
        a_waiting_reader_gets_new_facts,
        a_waiting_reader_returns_nothing_when_its_time_is_up,
        the_inbox_is_cut_below_the_cursor_by_its_owner_only,
    },
    claims::{
        a_held_shard_is_refused_to_others,
        a_lease_ends_with_its_time,
        a_renewed_lease_does_not_end,
        a_released_shard_is_free_at_once,
        a_second_claim_voids_the_first,
        a_claim_returns_the_position_to_continue_from,
        takeovers_without_progress_are_counted,
        a_regular_release_counts_as_no_failure,
        live_processes_are_listed,
    },
    fleet::{
        a_worker_is_listed_with_its_record,
        a_record_expires,
        all_workers_use_one_salt_for_fingerprints,
        the_names_of_queues_are_known_once_a_run_uses_them,
        jobs_of_a_queue_are_counted_with_their_places,
    },
    commits::{
        a_commit_writes_all_of_a_run,
        a_commit_deletes_fields_and_held_chunks,
        a_lost_owner_writes_nothing,
        events_of_one_commit_are_numbered_per_run,
        a_bounded_step_continues_with_a_fact,
        blobs_of_a_commit_can_be_read,
        open_runs_are_listed_page_by_page,
    },
    controlling::{
        commands_need_a_run_that_has_not_ended,
        a_command_under_a_key_is_sent_once,
        a_command_keeps_its_blobs,
        a_pause_is_answered_once,
        only_a_pause_that_waits_is_answered,
        a_worker_reads_the_state_of_a_pause,
        a_cancelled_pause_is_not_answered,
        a_commit_writes_collected_results_and_conversations,
        a_conversation_keeps_one_copy_of_each_large_value,
        pauses_and_keys_are_removed_with_their_run,
        the_secret_of_forms_and_the_salt_of_seals_are_written_once,
    },
    keeping::{
        messages_and_history_are_appended_and_read_in_pages,
        a_run_begins_with_a_copy_of_the_messages_of_its_conversation,
        messages_and_history_are_removed_with_the_run,
    },
    triggers::{
        triggers_are_added_and_removed_with_versions_of_their_app,
        a_scheduled_time_begins_one_run,
        a_schedule_stays_due_when_its_run_is_refused,
        a_schedule_is_moved_only_from_its_due_time,
        the_last_result_of_a_trigger_is_kept_while_it_exists,
    },
    timers::{
        due_timers_are_returned_in_order,
        due_timers_come_with_the_facts_before_them,
        timers_are_reset_and_cleared_by_commits,
    },
    jobs::{
        a_job_is_delivered_once,
        jobs_of_several_runs_are_delivered_in_the_order_of_their_entries,
        readers_take_no_more_than_they_ask_for,
        a_waiting_worker_gets_new_jobs,
        a_job_is_completed_once,
        a_result_with_a_missing_blob_leaves_the_job,
        held_jobs_can_be_read_again,
        a_cancelled_job_is_never_delivered,
        a_cancelled_job_is_lost_to_its_holder,
        hints_arrive,
        lost_jobs_are_the_jobs_that_no_worker_will_run,
        trimming_a_queue_loses_no_job,
    },
    conversing::{
        runs_enter_a_conversation_one_after_the_other,
        the_turn_of_an_ended_run_is_stored_once,
        turns_at_the_same_time_are_known_until_they_are_stored,
        a_users_conversations_are_listed_page_by_page,
        conversations_with_the_same_time_are_all_listed,
        only_its_own_user_changes_a_conversation,
        a_removed_conversation_accepts_nothing_more,
        a_turn_is_not_given_to_another_owner_of_the_id,
        a_rating_is_removed_with_its_turn,
        expired_conversations_are_not_listed,
    },
    cataloguing::{
        an_entry_is_replaced_only_at_the_expected_version,
        each_kind_has_its_own_ids,
        the_version_differs_after_each_change,
        there_is_a_default_profile_while_there_are_profiles,
    },
    steps::{
        a_journal_entry_is_recorded_once_with_its_fact,
        a_journal_entry_keeps_the_large_values_that_it_refers_to,
        tries_of_a_journal_entry_are_counted_across_deliveries,
        a_journal_entry_that_was_begun_twice_stays_marked_when_it_has_a_result,
        only_the_holder_of_a_job_writes_its_journal,
    },
    spending::{
        the_spending_of_keys_is_added_up,
        the_ledger_of_a_run_can_be_read,
        a_budget_of_a_key_is_set_and_removed,
    },
    calling::{
        an_order_becomes_one_run_and_its_end_is_reported,
        a_dropped_order_is_never_created_or_its_run_is_stopped,
        a_refused_order_says_why,
    },
    limiting::{
        a_call_is_admitted_by_all_buckets_or_by_none,
        a_call_that_is_requested_again_is_counted_once,
        waiting_calls_are_admitted_one_by_one,
        tokens_are_corrected_by_the_usage_of_a_call,
        places_are_free_again_when_returned_or_expired,
        a_model_that_refuses_is_paused_and_others_continue,
        the_remaining_limit_of_a_provider_lowers_a_level_and_never_raises_it,
    },
    annotating::{
        annotations_are_listed_newest_first_up_to_their_most,
        an_annotation_is_found_by_the_key_of_its_present_question,
        uses_of_an_annotation_are_counted_and_go_with_it, uses_by_removed_messages_are_taken_off_and_stay_counted,
        the_annotation_reply_of_an_app_outlives_a_new_version,
    },
    knowledge::{
        a_dataset_exists_until_it_is_dropped_with_all_its_data,
        a_document_is_published_completely_and_once,
        only_the_newest_run_publishes,
        a_removed_document_is_not_published_by_a_running_indexer,
        hits_are_added_up,
        a_changed_dataset_overwrites_no_other_change,
        a_changed_document_is_seen_by_searches_and_overwrites_no_other_change,
        tags_are_stored_until_they_are_removed,
    },
    dead::{
        dead_letters_are_listed_newest_first_page_by_page,
        a_job_that_was_given_up_gets_a_dead_letter,
        a_dead_fact_is_put_back_once,
    },
    taking_over::{
        a_silent_job_is_taken_over_with_a_higher_number,
        xc_02_a_worker_that_lost_a_job_records_nothing_of_it,
        a_heartbeat_keeps_a_job,
        a_heartbeat_returns_lost_jobs,
        held_streams_are_the_streams_with_a_held_job,
        the_idle_time_of_a_held_job_counts_from_the_last_heartbeat,
        a_job_that_is_handed_back_is_taken_at_once_and_not_counted,
        a_job_is_handed_back_once,
        only_the_holder_hands_back,
        forgetting_consumers_loses_no_job,
        a_stale_job_shows_its_holder_its_number_and_its_record,
        only_a_job_that_is_as_it_was_seen_is_taken_or_noted,
        a_job_that_shows_a_sign_of_life_meanwhile_is_not_taken,
        a_record_is_removed_on_request_and_a_cleared_origin_is_remembered,
    },
    sweeping::{
        runs_that_ended_long_ago_are_removed,
        a_run_is_removed_with_all_its_blobs,
        only_the_owner_sweeps,
        a_removed_run_with_files_is_listed_until_they_are_deleted,
        files_of_a_request_that_became_no_run_are_listed_to_be_deleted,
        a_graph_is_removed_with_its_last_run,
        blobs_of_ended_runs_get_a_time_to_live,
        the_store_says_how_much_memory_it_uses,
    },
    plugin_values::{
        values_of_a_plugin_are_kept_within_its_bytes,
        values_of_a_plugin_go_together,
    },
    uploading::{
        uploads_are_refused_above_the_quota_of_their_app_or_user,
        uploads_of_days_that_are_removed_do_not_count,
    },
}

/// Runs every case, each on a namespace that `make` creates; returns those that failed.
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

/// Fails unless both are equal.
fn same<T: PartialEq + Debug>(what: &str, is: T, should_be: T) -> Outcome {
    holds_that(is == should_be, || format!("{what}: is {is:?}, should be {should_be:?}"))
}

/// Fails unless it holds.
fn holds(what: &str, holds: bool) -> Outcome {
    holds_that(holds, || format!("does not hold: {what}"))
}

fn holds_that(holds: bool, message: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(Broken::Promise(message())) }
}
