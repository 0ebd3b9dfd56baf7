//! TC-E: errors.

use std::time::Duration;

use super::play::Play;
use tidemill_engine::state::run::{NodeStatus, RunStatus};

#[test]
fn tc_e_001_a_failure_without_a_strategy_ends_the_run() {
    let mut play = Play::of("start s\njob a\njob b\nend e b.output\ns > a > b > e");
    play.start().skim().failed("a", "broken").tells(&[
        "a starts",
        "a failed: broken",
        "run failed 1: broken",
    ]);
    assert_eq!((play.run.status, play.node("b").status), (RunStatus::Failed, NodeStatus::Unknown));
}

#[test]
fn tc_e_002_a_fail_branch_handles_the_failure_and_the_run_succeeds_in_part() {
    let mut play = Play::of(
        "start s\njob a fail-branch\njob good\njob bad\nend e bad.output a.error_message a.error_type\n\
         s > a > good > e\na:fail-branch > bad > e",
    );
    play.start().failed("a", "broken");
    assert_eq!((play.waiting(), play.node("good").status), (vec!["bad".to_string()], NodeStatus::Skipped));
    play.done("bad", "mended");
    assert_eq!(
        play.last(),
        "partial 1 [bad.output=\"mended\" a.error_message=\"broken\" a.error_type=\"TestError\"]"
    );
    assert_eq!((play.run.status, play.run.exceptions()), (RunStatus::PartialSucceeded, 1));
}

#[test]
fn tc_e_003_default_values_replace_the_outputs_of_a_failed_node() {
    let mut play = Play::of("start s\nllm m default\nend e m.text\ns > m > e");
    play.start().failed("m", "broken");
    assert_eq!(play.last(), "partial 1 [m.text=\"instead\"]");
}

/// Failures that retries followed still count (0.20): the run succeeds in part.
#[test]
fn tc_e_004_a_node_is_retried_up_to_three_times_and_may_succeed() {
    let mut play = Play::of("start s\nllm m retry=3\nend e m.text\ns > m > e");
    play.start().skim();
    for attempt in 1..=3 {
        play.failed("m", "busy");
        let retried = format!("m retry {attempt}");
        if attempt == 1 {
            play.tells(&["m starts", &retried])
        } else {
            play.tells(&[&retried])
        };
        assert!(play.waiting().is_empty(), "it waits before its retry");
        play.reload().after(Duration::from_secs(1)).fire();
        assert_eq!(play.job_of("m").attempt, attempt + 1);
    }
    play.done("m", "at last");
    assert_eq!(play.last(), "partial 3 [m.text=\"at last\"]");
    let retries: Vec<_> = play.records.iter().filter(|record| record.kind == "node_run_retry").collect();
    assert_eq!(retries.iter().map(|r| &r.data["retry_index"]).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(retries.iter().all(|record| record.data["error"] == "busy"));
}

#[test]
fn tc_e_005_when_retries_are_used_up_the_strategy_decides() {
    for (strategy, edges, last) in [
        ("", "s > m > e", "run failed 3: third"),
        ("default", "s > m > e", "partial 3 [m.text=\"instead\"]"),
        ("fail-branch", "s > m\nm:fail-branch > e", "partial 3 [m.text=null]"),
    ] {
        let mut play = Play::of(&format!("start s\nllm m retry=2 {strategy}\nend e m.text\n{edges}"));
        play.start();
        for error in ["first", "second"] {
            play.failed("m", error).after(Duration::from_secs(1)).fire();
        }
        play.failed("m", "third");
        assert_eq!(play.last(), last, "{strategy:?}");
    }
}
