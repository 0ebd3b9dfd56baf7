//! `llm` nodes in their profile form: their retries, pauses and stops.

use std::time::Duration;

use serde_json::json;

use super::play::Play;
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::{NodeStatus, RunStatus};

const SECOND: Duration = Duration::from_secs(1);

/// A run with one such node between start and end.
fn flow(more: &str) -> Play {
    let yaml = format!(
        "nodes:\n\
         - {{id: s, data: {{type: start, variables: []}}}}\n\
         - {{id: m, data: {{type: llm, profile_id: fast, prompt: Hi{more}}}}}\n\
         - {{id: e, data: {{type: end, outputs: []}}}}\n\
         edges:\n- {{source: s, target: m}}\n- {{source: m, target: e}}\n"
    );
    Play::document(&yaml, json!({}))
}

fn fails(play: &mut Play, record: Record) {
    let report = play.ended(Record { error: "no".into(), ..record }, Vec::new());
    let fact = play.fact(&play.job_of("m"), 1, &report);
    play.finish("m", fact);
}

#[test]
fn lp_a08_only_temporary_failures_are_retried() {
    let retry = ", retry_config: {max_retries: 1, retry_interval: 1000}";
    let passing = |passing: bool| Record { error_type: "LLMError".into(), passing, ..Record::default() };
    let mut play = flow(retry);
    play.start();
    fails(&mut play, passing(true));
    assert_eq!(play.node("m").status, NodeStatus::Retrying);
    play.reload().after(SECOND).fire();
    fails(&mut play, passing(true));
    assert_eq!(play.run.status, RunStatus::Failed, "the number of retries is limited");

    let mut play = flow(retry);
    play.start();
    fails(&mut play, passing(false));
    assert_eq!(play.run.status, RunStatus::Failed);

    let late = |passing: bool| Record { error_type: "TimeoutError".into(), passing, ..Record::default() };
    for (passing, status) in [(true, RunStatus::Running), (false, RunStatus::Failed)] {
        let mut play = flow(retry);
        play.start();
        fails(&mut play, late(passing));
        assert_eq!(play.run.status, status, "a timeout is retried only if it may pass: {passing}");
    }

    let mut play = flow(retry);
    play.start();
    fails(&mut play, Record { error_type: "WorkerLostError".into(), ..Record::default() });
    assert_eq!(play.node("m").status, NodeStatus::Retrying, "failures that the engine reports may pass");
}

#[test]
fn lp_a09_a_wait_that_the_provider_asks_for_wins_when_it_is_longer() {
    let mut play = flow(", retry_config: {max_retries: 1, retry_interval: 1000}");
    play.start();
    let asked =
        Record { error_type: "LLMError".into(), passing: true, retry_hint: Some(5000), ..Record::default() };
    fails(&mut play, asked);
    play.after(SECOND * 4).fire();
    assert!(play.waiting().is_empty(), "not before it is due");
    play.after(SECOND).fire();
    assert_eq!(play.job_of("m").attempt, 2);
}

#[test]
fn lp_a18_a_pause_takes_the_queued_job_back_and_a_resume_runs_it_once() {
    let mut play = flow("");
    play.start();
    assert_eq!(play.waiting().len(), 1);
    play.pause("lunch");
    assert!(play.waiting().is_empty(), "a job that must not run is taken back");
    assert_eq!(play.run.status, RunStatus::Paused);
    play.reload().resume();
    assert_eq!((play.waiting().len(), play.job_of("m").attempt), (1, 1));
    play.done("m", "said");
    assert_eq!((play.run.status, play.node("m").failures), (RunStatus::Succeeded, 0));
}

#[test]
fn a_stop_cuts_streaming_replies_off_and_emits_it() {
    for (more, emitted) in [(", stream: true", true), ("", false)] {
        let mut play = flow(more);
        play.start().started("m", 1).skim();
        play.stop("enough");
        let words = play.words();
        assert_eq!(words.iter().any(|word| word == "m llm_stream_aborted"), emitted, "{words:?}");
    }
}
