//! Limits of steps, jobs, time and size.

use std::fmt::Write;
use std::time::Duration;

use super::draw::draw;
use super::play::Play;
use tidemill_base::limits;
use tidemill_base::value::{Segment, SegmentType, Stored};
use tidemill_engine::Fact;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::fact::parse;

fn fan(kind: &str, wide: usize) -> String {
    let mut drawing = "start s\nend e\n".to_string();
    for n in 0..wide {
        write!(drawing, "{kind} n{n} x\ns > n{n} > e\n").unwrap();
    }
    drawing
}

#[test]
fn a_wide_fan_out_has_no_more_jobs_than_a_run_may_have() {
    let mut play = Play::of(&fan("job", 300));
    play.start();
    // The start node is a transition like any other.
    assert_eq!((play.jobs.len(), play.continue_due), (limits::STEP_TRANSITIONS_MAX - 1, 1));
    play.reload().continues();
    assert_eq!(
        (play.jobs.len(), play.continue_due, play.run.ready.len()),
        (limits::RUN_JOBS_MAX as usize, 0, 44)
    );
    for n in 0..300 {
        play.reload().done(&format!("n{n}"), "");
        assert!(play.jobs.len() as u64 <= limits::RUN_JOBS_MAX);
    }
    assert_eq!(play.run.status, RunStatus::Succeeded);
}

#[test]
fn nodes_that_wait_for_room_keep_their_order_after_a_reload() {
    let (mut nodes, mut edges) = ("start s\n".to_string(), String::new());
    for n in 0..300 {
        writeln!(nodes, "job n{n}").unwrap();
        writeln!(edges, "s > n{}", 299 - n).unwrap();
    }
    let mut play = Play::of(&(nodes + &edges));
    play.start();
    assert_eq!(play.run.ready.len(), 45);
    assert_eq!(play.kept.load(&play.run).ready, play.run.ready);
}

#[test]
fn a_wide_fan_out_of_pure_nodes_takes_several_steps() {
    let mut play = Play::of(&fan("text", 400));
    play.start();
    let mut steps = 1;
    while play.continue_due > 0 {
        play.reload().continues();
        steps += 1;
    }
    assert_eq!(steps, 402usize.div_ceil(limits::STEP_TRANSITIONS_MAX));
    assert_eq!(play.run.status, RunStatus::Succeeded);
}

#[test]
fn a_run_is_stopped_when_it_takes_too_many_steps() {
    let graph = draw("start s\njob a\njob b\njob c\ns > a > b > c");
    let options = RunOptions { steps_max: 2, ..RunOptions::default() };
    let mut play = Play::with(graph, &[], options);
    play.start().done("a", "").skim();
    play.done("b", "").tells(&["b starts", "b ok", "Aborted: Maximum execution steps exceeded: 3 > 2 []"]);
    assert!(play.jobs.is_empty() && play.timers.is_empty());
}

#[test]
fn a_timer_stops_a_run_when_its_time_has_passed() {
    let graph = draw("start s\njob a\ns > a");
    let options = RunOptions { seconds_max: 10, ..RunOptions::default() };
    let mut play = Play::with(graph, &[], options);
    play.start().started("a", 1).skim().after(Duration::from_secs(9)).fire_alive().tells(&[]);
    let job = play.job_of("a").entry;
    play.reload().after(Duration::from_millis(1500)).fire_alive();
    play.tells(&["Aborted: Maximum execution time exceeded: 10.50s > 10s []"]);
    assert_eq!((play.run.status, play.taken_back.clone()), (RunStatus::Stopped, vec![job]));
    assert!(play.timers.is_empty());
}

#[test]
fn a_result_after_the_time_limit_still_counts_and_then_the_run_is_stopped() {
    let graph = draw("start s\njob a\njob b\ns > a > b");
    let options = RunOptions { seconds_max: 10, ..RunOptions::default() };
    let mut play = Play::with(graph, &[], options);
    play.start().started("a", 1).skim().after(Duration::from_secs(11)).done("a", "");
    play.tells(&["a ok", "Aborted: Maximum execution time exceeded: 11.00s > 10s []"]);
}

fn with_deadline(drawing: &str, ms: u64) -> Play {
    Play::with(draw(drawing), &[], RunOptions { deadline_ms: Some(ms), ..RunOptions::default() })
}

#[test]
fn a_run_that_has_not_ended_by_its_deadline_is_stopped() {
    let mut play = with_deadline("start s\njob a\ns > a", 1500);
    // The deadline counts from the submission.
    play.after(Duration::from_millis(500)).start().skim();
    play.after(Duration::from_millis(999)).fire().tells(&[]);
    let job = play.job_of("a").entry;
    play.reload().after(Duration::from_millis(5)).fire();
    let error =
        "Aborted: DeadlineExceededError: 1504 ms since it was submitted, and it may take 1500 (deadline_ms)";
    play.tells(&[&format!("{error} []")]);
    assert_eq!((play.run.status, play.taken_back.clone()), (RunStatus::Stopped, vec![job]));
    assert_eq!(play.run.error.as_deref(), Some(error));
    assert!(play.timers.is_empty());
}

#[test]
fn the_deadline_runs_while_a_run_is_paused_and_its_working_time_does_not() {
    let options = RunOptions { deadline_ms: Some(60_000), seconds_max: 10, ..RunOptions::default() };
    let mut play = Play::with(draw("start s\njob a\njob b\ns > a > b"), &[], options);
    play.start().started("a", 1);
    let pause = parse("pause", "{}", &play.run.graph).unwrap();
    play.feed(vec![pause]).done("a", "");
    assert_eq!(play.run.status, RunStatus::Paused);
    assert_eq!(play.timers.len(), 1, "the timer of the deadline is set");
    play.skim().after(Duration::from_secs(30)).fire().tells(&[]);
    // The run continues, and has ten seconds again.
    play.feed(vec![Fact::Resume]).skim().after(Duration::from_secs(9)).fire().tells(&[]);
    let pause = parse("pause", "{}", &play.run.graph).unwrap();
    play.feed(vec![pause]).reload().skim();
    assert_eq!(play.run.status, RunStatus::Paused);
    play.after(Duration::from_secs(21)).reload().fire();
    assert_eq!(play.run.status, RunStatus::Stopped);
    assert!(play.last().contains("DeadlineExceededError: 60000 ms"), "{}", play.last());
    assert!(play.timers.is_empty());
}

#[test]
fn a_run_that_begins_after_its_deadline_does_nothing() {
    let mut play = with_deadline("start s\njob a\ns > a", 1500);
    play.after(Duration::from_secs(2)).start();
    let error =
        "Aborted: DeadlineExceededError: 2000 ms since it was submitted, and it may take 1500 (deadline_ms)";
    play.tells(&["begin", &format!("{error} []")]);
    assert!(play.jobs.is_empty() && play.timers.is_empty());
}

#[test]
fn a_result_after_the_deadline_counts_and_nothing_follows_from_it() {
    let mut play = with_deadline("start s\njob a\njob b\ns > a > b", 1500);
    play.start().skim().after(Duration::from_secs(2)).done("a", "");
    let error = "Aborted: DeadlineExceededError: 2000 ms since it was submitted, and it may take 1500 (deadline_ms) []";
    play.tells(&["a starts", "a ok", error]);
}

#[test]
pub(super) fn a_run_can_be_stopped_before_it_begins() {
    let mut play = Play::of("start s\njob a\ns > a");
    play.stop("never mind").tells(&["begin", "Aborted: never mind []"]);
    play.start().tells(&[]);
}

#[test]
fn a_stop_takes_jobs_back_and_keeps_the_text_that_was_sent() {
    let mut play = Play::of("start s\njob a\njob b\nend e s.x\ns > a\ns > b\ns > e");
    play.start();
    let jobs: Vec<_> = play.jobs.keys().copied().collect();
    play.skim().stop("User requested abort").tells(&["Aborted: User requested abort [s.x=null]"]);
    assert_eq!(play.taken_back, jobs);
}

#[test]
fn a_job_that_is_ordered_and_taken_back_in_one_commit_is_never_queued() {
    let mut play = Play::of("start s\njob a\ns > a");
    let start = play.start_fact();
    play.feed(vec![start, tidemill_engine::Fact::Stop(tidemill_engine::fact::Stop { reason: "x".into() })]);
    assert!(play.jobs.is_empty() && play.taken_back.is_empty() && play.timers.is_empty());
}

#[test]
fn the_history_of_the_conversation_counts_for_the_size_of_a_run() {
    let size = |turns: usize| {
        let mut play = Play::of("start s\nend e\ns > e");
        let turn = serde_json::json!({"query": "q".repeat(1000), "answer": "a"});
        let turns = Segment::new(SegmentType::ArrayObject, vec![turn; turns].into());
        play.run.head.history = Some(Stored::Inline(turns));
        play.run.size_estimate()
    };
    assert!(size(100) > size(1) + 99_000);
}
