//! TC-C: commands and limits.

use std::time::Duration;

use super::draw::draw;
use super::play::Play;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::options::compat::DifyWays;
use tidemill_engine::state::run::{NodeStatus, RunStatus};

/// The jobs that workers hold are taken back (0.8). Dify lets them run, and then ignores their results.
#[test]
fn tc_c_001_a_stop_ends_the_run_at_once_and_takes_its_jobs_back() {
    let mut play = Play::of("start s\njob a\njob b\njob c\ns > a > c\ns > b");
    play.start().started("a", 1);
    let jobs: Vec<_> = play.jobs.keys().copied().collect();
    play.skim().stop("User requested abort").tells(&["Aborted: User requested abort []"]);
    assert_eq!((play.run.status, &play.taken_back), (RunStatus::Stopped, &jobs));
    assert_eq!(play.node("a").status, NodeStatus::Stopped);
    assert!(play.timers.is_empty());
}

#[test]
fn tc_c_002_a_paused_run_continues_where_it_was() {
    let mut play = Play::of("start s\njob a\njob b\nend e b.output\ns > a > b > e");
    play.start().started("a", 1).skim();
    play.pause("hold on").tells(&[]);
    assert_eq!(play.run.status, RunStatus::Running, "a running job may end");
    play.done("a", "1").tells(&["a ok", "paused \"hold on\" []"]);
    assert!(play.run.status == RunStatus::Paused && play.waiting().is_empty());
    assert!(play.timers.is_empty(), "a paused run has no time limit");
    play.reload().resume().tells(&["resume"]);
    play.done("b", "2").tells(&[
        "b starts",
        "b.output + \"2\" last",
        "b ok",
        "e starts",
        "e ok",
        "succeeded [b.output=\"2\"]",
    ]);
}

/// The run is stopped, not failed (0.7), at the end of the first node above the limit.
#[test]
fn tc_c_003_a_run_with_too_many_steps_is_stopped() {
    let options = RunOptions { steps_max: 3, ..RunOptions::default() };
    let mut play = Play::with(draw("start s\njob a\njob b\njob c\njob d\ns > a > b > c > d"), &[], options);
    play.start().done("a", "").done("b", "").skim();
    play.done("c", "").tells(&["c starts", "c ok", "Aborted: Maximum execution steps exceeded: 4 > 3 []"]);
    assert_eq!(play.run.status, RunStatus::Stopped);
}

#[test]
fn tc_c_003_a_run_over_a_limit_may_fail_instead() {
    let dify_ways = DifyWays { limits_stop_runs: false, ..DifyWays::default() };
    let graph = || draw("start s\njob a\njob b\njob c\njob d\ns > a > b > c > d");
    let options = RunOptions { steps_max: 2, dify_ways, ..RunOptions::default() };
    let mut play = Play::with(graph(), &[], options);
    play.start().done("a", "").skim();
    play.done("b", "").tells(&["b starts", "b ok", "run failed 0: Maximum execution steps exceeded: 3 > 2"]);
    assert_eq!(play.run.status, RunStatus::Failed);
    let options = RunOptions { seconds_max: 5, dify_ways, ..RunOptions::default() };
    let mut play = Play::with(graph(), &[], options);
    play.start().started("a", 1).after(Duration::from_secs(6)).skim().done("a", "");
    play.tells(&["a ok", "run failed 0: Maximum execution time exceeded: 6.00s > 5s"]);
    assert_eq!(play.run.status, RunStatus::Failed);
}

#[test]
fn tc_c_004_a_run_is_aborted_when_its_time_is_over() {
    let options = RunOptions { seconds_max: 5, ..RunOptions::default() };
    let mut play = Play::with(draw("start s\njob a\njob b\ns > a > b"), &[], options.clone());
    play.start().started("a", 1).after(Duration::from_secs(4)).done("a", "").started("b", 1).skim();
    play.after(Duration::from_secs(2)).fire_alive();
    play.tells(&["Aborted: Maximum execution time exceeded: 6.00s > 5s []"]);
    // A node that ends too late also stops the run, although the timer has not fired.
    let mut play = Play::with(draw("start s\njob a\njob b\ns > a > b"), &[], options);
    play.start().started("a", 1).after(Duration::from_secs(6)).skim().done("a", "");
    play.tells(&["a ok", "Aborted: Maximum execution time exceeded: 6.00s > 5s []"]);
    assert_eq!(play.run.status, RunStatus::Stopped);
}
