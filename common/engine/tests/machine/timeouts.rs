//! Time limits of attempts: how long a job may wait for a worker, and how long it may run.

use std::time::Duration;

use serde_json::json;

use super::play::Play;
use super::sheet::sheet;
use tidemill_engine::state::run::RunStatus;

const SECOND: Duration = Duration::from_secs(1);

/// A model with both limits, one second each, one retry, and a fail branch.
const NODE: &str = "m llm retry_config: {max_retries: 1, retry_interval: 5000, retry_enabled: true}, error_strategy: fail-branch, \
    tidemill: {queue_timeout_ms: 1000, execution_timeout_ms: 1000}\nk job\ns > m\nm:fail-branch > k";

const NO_WORKER: &str =
    "no worker has taken the job from queue \"default\" within 1000 ms (tidemill.queue_timeout_ms)";
const TOO_LONG: &str = "the node ran longer than 1000 ms (tidemill.execution_timeout_ms)";

fn play(text: &str) -> Play {
    let mut play = Play::sheet(text, json!({}));
    play.restless = true;
    play
}

#[test]
pub(super) fn a_job_that_no_worker_takes_is_taken_back_fails_and_is_retried() {
    let mut play = play(NODE);
    play.start().skim();
    let first = play.job_of("m").entry;
    play.after(SECOND / 2).fire().tells(&[]);
    play.after(SECOND / 2).fire().tells(&["m starts", "m retry 1"]);
    assert_eq!((play.taken_back.as_slice(), play.waiting().len()), ([first].as_slice(), 0));
    play.after(5 * SECOND).fire();
    play.after(SECOND).fire().tells(&[&format!("m exception: {NO_WORKER}")]);
    assert_eq!(
        (play.waiting(), play.value("m.error_type")),
        (vec!["k".to_string()], json!("QueueTimeoutError"))
    );
    play.done("k", "");
    assert!(play.timers.is_empty(), "{:?}", play.timers);
}

#[test]
pub(super) fn each_try_that_no_worker_takes_in_time_is_followed_by_the_next() {
    let mut play = play(&NODE.replace("max_retries: 1", "max_retries: 2"));
    play.start().skim().after(SECOND).fire().tells(&["m starts", "m retry 1"]);
    play.after(5 * SECOND).fire().after(SECOND).fire().tells(&["m retry 2"]);
    play.after(5 * SECOND).fire().after(SECOND).fire().tells(&[&format!("m exception: {NO_WORKER}")]);
}

#[test]
fn the_engine_gives_a_hanging_worker_up_a_little_later_than_the_worker_itself_should() {
    let mut play = play(NODE);
    play.start().started("m", 1).skim().after(2 * SECOND).fire().tells(&[]);
    play.after(SECOND).fire().tells(&["m retry 1"]);
    play.after(5 * SECOND).fire().started("m", 1).after(3 * SECOND).fire();
    play.tells(&[&format!("m exception: {TOO_LONG}")]);
    assert_eq!(play.value("m.error_type"), json!("TimeoutError"));
}

#[test]
fn a_job_that_ends_in_time_leaves_no_timer() {
    let mut play = play(NODE);
    play.start().started("m", 1).done("m", "text");
    assert_eq!((play.run.status, play.timers.len()), (RunStatus::Succeeded, 0));
}

#[test]
fn the_time_of_a_lost_job_is_not_counted_against_the_next() {
    let mut play = play(&NODE.replace("queue_timeout_ms: 1000, ", ""));
    play.start().started("m", 1).after(2 * SECOND).lost("m").skim().after(2 * SECOND).fire().tells(&[]);
    play.started("m", 1).after(2 * SECOND).fire().tells(&[]);
    play.after(SECOND).fire().tells(&["m retry 1"]);
}

#[test]
fn a_pause_clears_the_time_limits_of_jobs_it_takes_back() {
    let mut play = play(NODE);
    play.start().pause("hold");
    assert!(play.timers.is_empty(), "{:?}", play.timers);
    play.resume().after(SECOND).skim().fire().tells(&["m starts", "m retry 1"]);
}

#[test]
fn a_late_timer_of_an_ended_attempt_changes_nothing() {
    let mut play = play(NODE);
    play.start().after(SECOND);
    let due = play.due();
    play.done("m", "").skim();
    let run = play.run.clone();
    play.feed(due.into_iter().map(tidemill_engine::Fact::TimerFired).collect()).tells(&[]);
    assert_eq!(play.run, run);
}

/// A loop whose condition a worker checks, with both time limits.
const PARTS: &str = "lp loop loop_count: 5, logical_operator: and, break_conditions: [{variable_selector: [a, output], comparison_operator: end with, value: END}], \
    error_strategy: fail-branch, tidemill: {queue_timeout_ms: 1000, execution_timeout_ms: 1000}\nlp/a job\nk job\ns > lp\nlp:fail-branch > k\nlps > a";

fn parts() -> Play {
    let mut play = Play::headed(&sheet(PARTS), json!({}), |head| head.options.inline_bytes_max = 50);
    play.restless = true;
    play.start().brings("lp#0/a", &[("output", json!("x".repeat(100)))]);
    play
}

#[test]
pub(super) fn a_phase_that_no_worker_takes_fails_the_container() {
    let mut play = parts();
    play.skim().after(SECOND).fire().tells(&["lp broken 5 error []", &format!("lp exception: {NO_WORKER}")]);
    assert_eq!((play.waiting(), play.run.containers.len()), (vec!["k".to_string()], 0));
}

#[test]
fn a_phase_that_hangs_fails_the_container() {
    let mut play = parts();
    play.started("lp", 1).skim().after(3 * SECOND).fire();
    play.tells(&["lp broken 5 error []", &format!("lp exception: {TOO_LONG}")]);
}

#[test]
fn each_phase_has_its_own_time_limits() {
    let mut play = parts();
    play.started("lp", 1).after(SECOND / 2).works("lp");
    assert_eq!(play.timers.len(), 1, "no timer of the ended phase is left: {:?}", play.timers);
    play.after(2 * SECOND).brings("lp#1/a", &[("output", json!("x".repeat(100)))]).skim();
    play.after(SECOND * 9 / 10).fire().tells(&[]);
    assert_eq!(play.waiting(), ["lp"]);
}
