//! Reports that count, and reports that are ignored because of their attempt, entry or delivery.

use super::play::Play;
use tidemill_engine::Fact;
use tidemill_engine::fact::PauseCommand;
use tidemill_engine::state::run::NodeStatus;

const LINE: &str = "start s\njob a\njob b\ns > a > b";

/// Applies a fact that must change nothing and emit nothing.
fn nothing_follows(play: &mut Play, fact: Fact) {
    let before = play.run.clone();
    let jobs = play.jobs.len();
    play.skim().feed(vec![fact]).tells(&[]);
    assert_eq!(play.run, before);
    assert_eq!(play.jobs.len(), jobs);
}

#[test]
fn a_repeated_result_changes_nothing() {
    let mut play = Play::of(LINE);
    play.start();
    let done = play.done_fact(&play.job_of("a"), 1, "1", &[]);
    play.feed(vec![done.clone()]);
    nothing_follows(&mut play, done.clone());
    play.done("b", "2");
    nothing_follows(&mut play, done);
}

#[test]
fn a_result_and_its_repetition_in_one_batch_count_once() {
    let mut play = Play::of(LINE);
    play.start();
    let done = play.done_fact(&play.job_of("a"), 1, "1", &[]);
    play.skim().feed(vec![done.clone(), done]).tells(&["a starts", "a ok"]);
}

#[test]
fn a_repeated_start_changes_nothing() {
    let mut play = Play::of(LINE);
    play.start();
    let before = play.run.clone();
    play.skim().start().tells(&[]);
    assert_eq!(play.run, before);
}

#[test]
fn reports_of_an_older_delivery_are_ignored_after_a_newer_one() {
    let mut play = Play::of(LINE);
    play.start().started("a", 2).tells(&["begin", "s starts", "s ok", "a starts"]);
    let job = play.job_of("a");
    let old = [play.done_fact(&job, 1, "old", &[]), play.failed_fact(&job, 1, "old")];
    for fact in old {
        nothing_follows(&mut play, fact);
    }
    let newer = play.done_fact(&job, 3, "new", &[]);
    play.feed(vec![newer]).tells(&["a ok"]);
}

#[test]
fn reports_of_an_earlier_attempt_are_ignored() {
    let mut play = Play::of("start s\nllm m retry=1\ns > m");
    play.start();
    let first = play.job_of("m");
    play.failed("m", "busy").after(std::time::Duration::from_secs(1)).fire();
    let late = [play.done_fact(&first, 1, "late", &[]), play.chunk_fact(&first, 1, 0, "late")];
    for fact in late {
        nothing_follows(&mut play, fact);
    }
}

#[test]
fn a_node_starts_once_even_when_its_job_changes_hands() {
    let mut play = Play::of(LINE);
    play.start().skim();
    play.started("a", 1).tells(&["a starts"]);
    play.started("a", 1).started("a", 2).started("a", 1).tells(&[]);
    assert_eq!((play.node("a").status, play.node("a").delivery), (NodeStatus::Running, 2));
    let job = play.job_of("a");
    let done = play.done_fact(&job, 2, "", &[]);
    play.finish("a", done).tells(&["a ok"]);
}

#[test]
fn a_lost_job_is_queued_again_and_its_deliveries_are_counted_on() {
    let mut play = Play::of(LINE);
    play.start().started("a", 2);
    let old = play.job_of("a");
    play.skim().lost("a").tells(&[]);
    let new = play.job_of("a");
    assert_eq!((new.attempt, new.delivered, new.entry > old.entry), (1, 2, true));
    assert_eq!(play.node("a").status, NodeStatus::Queued);
    let late = play.chunk_fact(&old, 1, 0, "late");
    nothing_follows(&mut play, late);
    play.done("a", "1").tells(&["a ok"]);
}

#[test]
fn a_job_that_was_replaced_is_not_lost_twice() {
    let mut play = Play::of(LINE);
    play.start();
    let old = play.job_of("a");
    play.lost("a");
    let again = tidemill_engine::fact::JobLost { frame: old.frame, node: old.node, entry: old.entry };
    nothing_follows(&mut play, Fact::JobLost(again));
}

#[test]
fn reports_after_the_end_are_ignored() {
    let mut play = Play::of(LINE);
    play.start();
    let job = play.job_of("a");
    play.stop("enough").skim();
    assert_eq!(play.taken_back, [job.entry]);
    let late = [
        play.done_fact(&job, 1, "late", &[]),
        play.failed_fact(&job, 1, "late"),
        play.chunk_fact(&job, 1, 0, "late"),
        Fact::Continue,
        Fact::TimerFired(tidemill_engine::fact::Timer::RunDeadline),
    ];
    for fact in late {
        nothing_follows(&mut play, fact);
    }
}

#[test]
fn a_silent_holder_of_a_lost_job_does_not_make_the_engine_ignore_the_next_holder() {
    let mut play = Play::of(LINE);
    play.start();
    let old = play.job_of("a");
    // No delivery of the old entry was reported, so the new entry begins with the same number.
    play.lost("a");
    let new = play.job_of("a");
    assert_eq!((new.delivered, play.taken_back.as_slice()), (0, [old.entry].as_slice()));
    let late = [play.chunk_fact(&old, 3, 0, "late"), play.done_fact(&old, 3, "late", &[])];
    for fact in late {
        nothing_follows(&mut play, fact);
    }
    play.skim().done("a", "1").tells(&["a starts", "a ok"]);
}

#[test]
fn a_lost_job_that_a_pause_takes_back_keeps_counting_its_deliveries() {
    let mut play = Play::of("start s\nllm m\nend e m.text\ns > m > e");
    play.start().chunk("m", 1, 0, "abc").lost("m");
    assert_eq!(play.job_of("m").delivered, 1);
    play.feed(vec![Fact::Pause(PauseCommand { reason: "wait".into() })]).feed(vec![Fact::Resume]);
    // Otherwise the new holder's text would be taken for the rest of the old holder's text, which was sent.
    assert_eq!(play.job_of("m").delivered, 1);
}
