//! The clock of a run: waiting is not working.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::draw::draw;
use super::loops;
use super::play::Play;
use tidemill_base::failure::EngineErrorType;
use tidemill_engine::Fact;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::{NodeStatus, RunStatus};
use tidemill_wire::fact::report::Report;

const HOUR: Duration = Duration::from_secs(3600);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A run that may work for ten seconds, loaded again after every commit.
fn ten(drawing: &str) -> Play {
    let options = RunOptions { seconds_max: 10, ..RunOptions::default() };
    let mut play = Play::with(draw(drawing), &[], options);
    play.restless = true;
    play.start().skim();
    play
}

impl Play {
    fn worked_ms(&self) -> i64 {
        self.run.worked_micros(self.now) / 1000
    }

    /// A worker reports in one word that it has done the job of a node within the last `took`.
    fn done_within(&mut self, node: &str, took: Duration) -> &mut Self {
        let started_at = self.now;
        self.after(took);
        let report = Report::Ended {
            started_at,
            finished_at: self.now,
            failed: false,
            record: Box::default(),
            streamed: Vec::new(),
        };
        let fact = self.fact(&self.job_of(node), 1, &report);
        self.finish(node, fact)
    }

    fn parked_for(&mut self, node: &str, began: Duration, wait: Duration) -> &mut Self {
        let started_at = self.now;
        self.after(began);
        let report = Report::Parked {
            started_at,
            at: self.now,
            wait_ms: u64::try_from(wait.as_millis()).unwrap(),
            reason: "the model rests".into(),
            is_childs: false,
            call: None,
            pause: None,
        };
        let fact = self.fact(&self.job_of(node), 1, &report);
        self.finish(node, fact)
    }
}

#[test]
fn a_job_that_waits_for_an_hour_in_its_queue_ends_no_run() {
    let mut play = ten("start s\njob a\njob b\ns > a > b");
    play.after(HOUR).fire_alive().tells(&[]);
    play.done_within("a", seconds(4)).skim();
    play.after(HOUR).fire_alive().tells(&[]);
    play.done_within("b", seconds(5));
    assert_eq!((play.run.status, play.worked_ms()), (RunStatus::Succeeded, 9_000));
}

#[test]
fn work_counts_when_its_begin_is_told_with_its_end() {
    let mut play = ten("start s\njob a\njob b\njob c\ns > a > b > c");
    play.done_within("a", seconds(6)).skim().after(HOUR).done_within("b", seconds(5));
    play.tells(&["b starts", "b ok", "Aborted: Maximum execution time exceeded: 11.00s > 10s []"]);
}

#[test]
fn parallel_jobs_count_once() {
    let mut play = ten("start s\njob a\njob b\njob c\ns > a\ns > b\ns > c");
    play.started("a", 1).after(seconds(1)).started("b", 1).after(seconds(7)).done("a", "").done("b", "");
    assert_eq!(play.worked_ms(), 8_000);
    play.after(HOUR).done_within("c", seconds(1));
    assert_eq!((play.run.status, play.worked_ms()), (RunStatus::Succeeded, 9_000));
}

#[test]
fn a_parked_job_does_not_count() {
    let mut play = ten("start s\nllm m\ns > m");
    play.parked_for("m", seconds(2), HOUR);
    assert_eq!((play.node("m").status, play.worked_ms()), (NodeStatus::Retrying, 2_000));
    play.after(HOUR).fire_alive().skim().done_within("m", seconds(7));
    assert_eq!((play.run.status, play.worked_ms()), (RunStatus::Succeeded, 9_000));
}

#[test]
fn the_wait_for_the_next_attempt_counts_and_the_queue_after_it_does_not() {
    let mut play = ten("start s\nllm m retry=2\ns > m");
    play.started("m", 1).after(seconds(3)).failed("m", "busy");
    // The interval of the drawing is one second. No scheduler applies the timer for an hour.
    play.after(Duration::from_millis(400));
    assert_eq!(play.worked_ms(), 3_400);
    play.after(HOUR).fire_alive();
    assert_eq!(play.worked_ms(), 4_000);
    play.after(HOUR).skim().done_within("m", seconds(5));
    assert_eq!((play.worked_ms(), play.run.status), (9_000, RunStatus::PartialSucceeded));
}

#[test]
fn the_time_after_the_last_sign_of_life_of_a_worker_does_not_count() {
    let mut play = ten("start s\njob a\njob b\ns > a > b");
    play.started("a", 1).skim();
    let died = play.now.plus(seconds(4));
    play.after(HOUR).fire_seen(died).tells(&[]);
    // The job is delivered again, and its worker works for eight seconds.
    play.started("a", 2).after(seconds(8)).fire_alive().tells(&[]);
    let order = play.job_of("a");
    let fact = play.done_fact(&order, 2, "", &[]);
    play.finish("a", fact).skim();
    assert_eq!((play.run.status, play.worked_ms()), (RunStatus::Running, 8_000));
}

#[test]
fn the_work_of_a_lost_delivery_counts_to_the_last_sign_of_life_when_it_is_known() {
    for (lost_after, expected) in [(Some(4), 7_000), (None, 3_000), (Some(100_000), 3_603_000)] {
        let mut play = ten("start s\njob a\ns > a");
        play.started("a", 1);
        let lost_at = lost_after.map(|after| play.now.plus(seconds(after)));
        play.after(HOUR);
        let fact = play.fact(&play.job_of("a"), 2, &Report::Started { at: play.now });
        let Fact::JobStarted(mut begun) = fact else { panic!("a start") };
        begun.job.lost_at = lost_at;
        play.feed(vec![Fact::JobStarted(begun)]).after(seconds(3));
        let done = play.done_fact(&play.job_of("a"), 2, "", &[]);
        play.finish("a", done);
        assert_eq!(play.worked_ms(), expected, "{lost_after:?}");
    }
}

#[test]
fn the_timer_ends_a_run_whose_worker_lives_and_does_not_end_the_attempt() {
    let mut play = ten("start s\njob a\ns > a");
    play.after(HOUR).fire_alive().started("a", 1).skim();
    // It is due again when the limit could be met at the earliest.
    play.after(seconds(9)).fire_alive().tells(&[]);
    play.after(seconds(1)).fire_alive();
    play.tells(&["Aborted: Maximum execution time exceeded: 10.00s > 10s []"]);
    assert!(play.timers.is_empty() && play.run.status == RunStatus::Stopped);
}

#[test]
fn the_timer_of_a_run_that_waits_costs_little() {
    let mut play = ten("start s\njob a\njob b\ns > a > b");
    play.done_within("a", Duration::from_millis(9_950));
    for _ in 0..3 {
        let due = *play.timers.values().min().unwrap();
        play.now = play.now.max(due);
        play.fire_alive();
        assert_eq!(play.timers.values().min(), Some(&play.now.plus(seconds(1))));
    }
}

#[test]
fn a_worker_that_ends_an_attempt_when_the_time_is_over_ends_the_run() {
    let mut play = ten("start s\nllm m retry=3 fail-branch\njob b\ns > m\nm:fail-branch > b");
    let record = Record {
        error: "over".into(),
        error_type: EngineErrorType::RunTimeOver.name().into(),
        ..Record::default()
    };
    // The clocks of machines differ, so less may be counted than the worker has seen.
    play.started("m", 1).skim().after(Duration::from_millis(9_999)).brings_record("m", record);
    play.tells(&["Aborted: Maximum execution time exceeded: 10.00s > 10s []"]);
    assert_eq!((play.run.status, play.node("m").status), (RunStatus::Stopped, NodeStatus::Stopped));
}

#[test]
fn a_job_says_how_much_time_is_left_once_some_is_used() {
    let mut play = ten("start s\njob a\njob b\njob c\ns > a > b > c");
    let left = |play: &Play, node: &str| play.sent[&play.job_of(node).entry].left_ms;
    assert_eq!(left(&play, "a"), None);
    play.done_within("a", Duration::from_millis(90));
    assert_eq!(left(&play, "b"), None);
    play.after(HOUR).done_within("b", seconds(6));
    assert_eq!(left(&play, "c"), Some(3_910));
}

#[test]
fn a_resumed_run_has_its_whole_time_again() {
    let mut play = ten("start s\njob a\njob b\njob c\ns > a > b > c");
    play.started("a", 1).pause("hold on").after(seconds(8)).done("a", "");
    assert_eq!(play.run.status, RunStatus::Paused);
    play.after(HOUR).resume().done_within("b", seconds(9)).skim();
    assert_eq!(play.worked_ms(), 17_000);
    play.done_within("c", seconds(2));
    play.tells(&["c starts", "c ok", "Aborted: Maximum execution time exceeded: 11.00s > 10s []"]);
}

#[test]
fn closed_rounds_of_a_loop_count() {
    let mut play = loops::looping(&json!({}), "job");
    play.restless = true;
    play.start().done_within("lp#0/in", seconds(4)).after(HOUR).done_within("lp#1/in", seconds(5));
    assert_eq!((play.run.status, play.worked_ms()), (RunStatus::Succeeded, 9_000));
}

/// The length of what these intervals cover together.
fn covered(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut sum, mut to) = (0, 0);
    for (from, until) in intervals {
        sum += until.saturating_sub(from.max(to));
        to = to.max(until);
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Jobs in parallel branches begin and end in any order. What is counted is what they cover together.
    #[test]
    fn the_clock_counts_what_jobs_cover_together(
        jobs in prop::collection::vec((0_u64..60, 1_u64..30), 1..7),
        restless: bool,
    ) {
        let drawing: String = (0..jobs.len()).map(|n| format!("job n{n}\ns > n{n}\n")).collect();
        let mut play = Play::of(&format!("start s\n{drawing}"));
        play.restless = restless;
        play.start();
        let began = play.now;
        let mut told: Vec<(u64, bool, usize)> = Vec::new();
        for (n, (from, took)) in jobs.iter().enumerate() {
            told.extend([(*from, false, n), (from + took, true, n)]);
        }
        told.sort_unstable();
        for (at, is_end, n) in told {
            play.now = began.plus(seconds(at));
            let node = format!("n{n}");
            if is_end { play.done(&node, "") } else { play.started(&node, 1) };
        }
        let covered = covered(jobs.iter().map(|(from, took)| (*from, from + took)).collect());
        prop_assert_eq!(play.worked_ms().unsigned_abs(), covered * 1000);
        prop_assert_eq!(play.run.status, RunStatus::Succeeded);
    }
}
