//! Failures, retries and error strategies.

use std::time::Duration;

use super::draw::draw;
use super::play::Play;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::options::compat::DifyWays;
use tidemill_engine::state::run::{NodeStatus, RunStatus};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_failure_ends_the_run_and_takes_its_jobs_back() {
    let mut play = Play::of("start s\njob a\njob b\njob c\ns > a\ns > b\na > c");
    play.start().started("b", 1).skim();
    let other = play.job_of("b").entry;
    play.failed("a", "broken").tells(&["a starts", "a failed: broken", "run failed 1: broken"]);
    assert_eq!(play.taken_back, [other]);
    assert_eq!((play.run.status, play.node("b").status), (RunStatus::Failed, NodeStatus::Stopped));
    assert!(play.timers.is_empty(), "{:?}", play.timers);
    assert_eq!(play.run.error.as_deref(), Some("broken"));
}

#[test]
fn a_failed_attempt_is_followed_by_another_after_its_interval() {
    let mut play = Play::of("start s\nllm m retry=2\nend e m.text\ns > m > e");
    play.start().skim();
    play.failed("m", "busy").tells(&["m starts", "m retry 1"]);
    assert_eq!(play.node("m").status, NodeStatus::Retrying);
    play.after(SECOND / 2).fire().tells(&[]);
    assert!(play.waiting().is_empty());
    play.reload().after(SECOND / 2).fire().tells(&[]);
    assert_eq!(play.job_of("m").attempt, 2);
    play.failed("m", "busy").tells(&["m retry 2"]);
    play.after(SECOND).fire().done("m", "at last").tells(&[
        "m.text + \"at last\" last",
        "m ok",
        "e starts",
        "e ok",
        "partial 2 [m.text=\"at last\"]",
    ]);
    assert_eq!((play.node("m").attempt, play.node("m").failures), (3, 2));
    assert_eq!((play.run.exceptions(), play.run.root_steps()), (2, 5));
}

#[test]
fn a_failed_attempt_that_is_repeated_counts_for_the_run_unless_an_option_says_no() {
    let graph = draw("start s\nllm m retry=1\nend e m.text\ns > m > e");
    for (counts, helped, failed) in
        [(true, "partial 1", "run failed 2"), (false, "succeeded", "run failed 1")]
    {
        let dify_ways = DifyWays { retries_count_as_exceptions: counts, ..DifyWays::default() };
        let again = || {
            let mut play = Play::with(graph.clone(), &[], RunOptions { dify_ways, ..RunOptions::default() });
            play.start().failed("m", "busy").after(SECOND).fire();
            play
        };
        let (mut one, mut other) = (again(), again());
        one.done("m", "at last");
        other.failed("m", "busy");
        assert!(one.last().starts_with(helped), "{}", one.last());
        assert!(other.last().starts_with(failed), "{}", other.last());
    }
}

#[test]
fn the_number_of_retries_is_limited() {
    let mut play = Play::of("start s\nllm m retry=1\ns > m");
    play.start().failed("m", "first").after(SECOND).fire().skim();
    play.failed("m", "second").tells(&["m failed: second", "run failed 2: second"]);
}

#[test]
fn a_retry_timer_fires_once_and_late_ones_change_nothing() {
    let mut play = Play::of("start s\nllm m retry=2\ns > m");
    play.start().failed("m", "first").after(SECOND);
    let timer = play.due();
    play.fire();
    let job = play.job_of("m").entry;
    for timer in timer {
        play.feed(vec![tidemill_engine::Fact::TimerFired(timer)]);
    }
    assert_eq!((play.jobs.len(), play.job_of("m").entry), (1, job));
}

#[test]
fn a_stop_while_a_retry_waits_clears_its_timer() {
    let mut play = Play::of("start s\nllm m retry=2\ns > m");
    play.start().failed("m", "first").skim().stop("enough").tells(&["Aborted: enough []"]);
    assert!(play.timers.is_empty(), "{:?}", play.timers);
    assert_eq!(play.node("m").status, NodeStatus::Stopped);
}

#[test]
fn a_fail_branch_is_taken_instead_of_the_normal_edge() {
    let graph = "start s\njob a fail-branch\njob good\njob bad\nend e a.error_message\n\
                 s > a > good > e\na:fail-branch > bad > e";
    let mut play = Play::of(graph);
    play.start().skim();
    play.failed("a", "broken").tells(&[
        "a starts",
        "skip a>good",
        "skip good>e",
        "a.error_message + \"broken\" last",
        "a exception: broken",
    ]);
    play.reload().done("bad", "").tells(&[
        "bad starts",
        "bad ok",
        "e starts",
        "e ok",
        "partial 1 [a.error_message=\"broken\"]",
    ]);
    let mut play = Play::of(graph);
    play.start().skim().done("a", "1").tells(&["a starts", "skip a>bad", "skip bad>e", "a ok"]);
}

#[test]
fn default_values_replace_the_outputs_of_a_failed_node() {
    let mut play = Play::of("start s\nllm m retry=1 default\nend e m.text m.error_type\ns > m > e");
    play.start().failed("m", "first").after(SECOND).fire().skim();
    play.failed("m", "second").tells(&[
        "m.text + \"instead\"",
        "e.answer + \"\\n\"",
        "m.error_type + \"TestError\" last",
        "m exception: second",
        "e starts",
        "e ok",
        "partial 2 [m.text=\"instead\" m.error_type=\"TestError\"]",
    ]);
}

#[test]
fn a_new_attempt_withdraws_the_text_of_the_failed_one() {
    let mut play = Play::of("start s\nllm m retry=1\nanswer z {{#m.text#}}\ns > m > z");
    play.start().chunk("m", 1, 0, "half").failed("m", "cut").after(SECOND).reload().fire().skim();
    play.chunk("m", 1, 0, "whole").tells(&["m.text = \"\"", "m.text + \"whole\""]);
}
