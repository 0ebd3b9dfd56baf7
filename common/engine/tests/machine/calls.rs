//! Sub-workflow runs: they are ordered once, waited for without a worker, and stopped with their caller.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::draw::draw;
use super::play::Play;
use super::sheet::sheet;
use tidemill_base::ids::{FramePath, RunId, ShardId};
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::fact::{Call, Charge};
use tidemill_engine::state::run::{Caller, NodeStatus, RunStatus};
use tidemill_wire::fact::between_runs::call_ended_body;
use tidemill_wire::fact::parse;
use tidemill_wire::fact::report::Report;
use tidemill_workflow::nodes::Usage;

const SECOND: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_secs(300);
const ONE: &str = "start s\nllm m\nend e m.text\ns > m > e";
const RETRIED: &str = "start s\nllm m retry=1\nend e m.text\ns > m > e";

/// The run that the try with this number orders.
fn called(play: &Play, number: u32) -> RunId {
    let execution = play.job_of("m").execution;
    play.run.id.called_by(&execution, "call", number)
}

/// Parks the node's job until that run has ended.
fn parks(play: &mut Play, run: RunId, is_ordered: bool) {
    let given = (!is_ordered).then(|| Stored::Inline(Segment::infer(json!({"inputs": {"q": 1}}))));
    let call = Some(Box::new(Call { run, app: "greeter".into(), given }));
    let report = Report::Parked {
        started_at: play.now,
        at: play.now,
        wait_ms: 300_000,
        reason: "a run".into(),
        is_childs: false,
        call,
        pause: None,
    };
    let fact = play.fact(&play.job_of("m"), 1, &report);
    play.finish("m", fact);
}

pub(super) fn ends(play: &mut Play, run: RunId) {
    let caller = Caller { run: play.run.id, frame: FramePath::root(), node: "m".into() };
    let fact = parse("call_ended", &call_ended_body(&caller, run), &play.run.graph).unwrap();
    play.feed(vec![fact]);
}

pub(super) fn ordered(play: &Play) -> Vec<RunId> {
    play.calls.iter().flat_map(|calls| calls.ordered.iter().map(|(run, _)| *run)).collect()
}

pub(super) fn dropped(play: &Play) -> Vec<RunId> {
    play.calls.iter().flat_map(|calls| calls.dropped.clone()).collect()
}

#[test]
fn a_sub_workflow_run_is_ordered_once_and_its_end_brings_the_job_back_as_the_same_attempt() {
    let mut play = Play::submitted(draw(ONE), Vec::new(), |head| head.call_depth = 2);
    play.restless = true;
    play.start().skim();
    let (first, run) = (play.job_of("m"), called(&play, 1));
    assert_eq!(run.shard(), play.run.id.shard());
    parks(&mut play, run, false);
    play.tells(&["m starts", "m workflow_called"]);
    let order: Json = serde_json::from_str(&play.calls[0].ordered[0].1).unwrap();
    let expected =
        json!({"app": "greeter", "node": "m", "depth": 3, "user": "u", "given": {"inputs": {"q": 1}}});
    assert_eq!((order, play.calls[0].ordered[0].0), (expected, run));
    assert_eq!((play.node("m").status, play.waiting().len()), (NodeStatus::Retrying, 0));
    ends(&mut play, RunId::new(7, 7, ShardId(3)));
    assert!(play.waiting().is_empty(), "the end of another run");
    ends(&mut play, run);
    let second = play.job_of("m");
    assert_eq!((second.execution, second.attempt), (first.execution, 1));
    assert!(
        second.delivered >= 1 && !play.timers.keys().any(|timer| timer.contains("retry")),
        "{:?}",
        play.timers
    );
    ends(&mut play, run);
    assert_eq!(play.waiting().len(), 1, "a repeated fact changes nothing");
    play.done("m", "yes");
    assert_eq!((play.run.status, ordered(&play), dropped(&play)), (RunStatus::Succeeded, vec![run], vec![]));
    assert!(play.timers.is_empty(), "{:?}", play.timers);
}

#[test]
fn a_job_that_checks_its_call_again_orders_no_second_run_and_misses_no_end() {
    let mut play = Play::of(ONE);
    play.start().skim();
    let run = called(&play, 1);
    parks(&mut play, run, false);
    play.after(LOOK).fire().skim();
    // The end comes while a worker holds the job. No second fact follows when the job is parked.
    ends(&mut play, run);
    parks(&mut play, run, true);
    assert_eq!((play.waiting(), ordered(&play)), (vec!["m".to_string()], vec![run]));
    play.done("m", "yes");
    assert_eq!((play.run.status, dropped(&play)), (RunStatus::Succeeded, vec![]));
}

#[test]
fn a_stop_of_the_caller_stops_its_sub_workflow_run() {
    let mut play = Play::of(ONE);
    play.start().skim();
    let run = called(&play, 1);
    parks(&mut play, run, false);
    play.stop("enough");
    assert_eq!((play.run.status, dropped(&play)), (RunStatus::Stopped, vec![run]));
    assert!(play.timers.is_empty() && play.node("m").call.is_none());
}

#[test]
fn a_call_that_is_ordered_and_dropped_in_one_commit_is_never_created() {
    let mut play = Play::of(ONE);
    play.start().skim();
    let (order, run) = (play.job_of("m"), called(&play, 1));
    let given = Some(Stored::Inline(Segment::infer(json!({}))));
    let call = Some(Box::new(Call { run, app: "a".into(), given }));
    let parked = Report::Parked {
        started_at: play.now,
        at: play.now,
        wait_ms: 1,
        reason: String::new(),
        is_childs: false,
        call,
        pause: None,
    };
    let stop = parse("stop", "{}", &play.run.graph).unwrap();
    let parked = play.fact(&order, 1, &parked);
    play.jobs.clear();
    play.feed(vec![parked, stop]);
    assert_eq!((ordered(&play), dropped(&play)), (vec![], vec![]));
}

#[test]
fn the_next_attempt_calls_again_and_the_run_of_the_earlier_attempt_is_stopped() {
    let mut play = Play::of(RETRIED);
    play.start().skim();
    let first = called(&play, 1);
    parks(&mut play, first, false);
    play.after(LOOK).fire().failed("m", "given up").after(SECOND).fire();
    assert_eq!(dropped(&play), [first]);
    let second = called(&play, 2);
    assert_ne!(second, first);
    parks(&mut play, second, false);
    ends(&mut play, first);
    assert!(play.waiting().is_empty(), "the end of the earlier attempt's run");
    ends(&mut play, second);
    play.done("m", "yes");
    assert_eq!((play.run.status, ordered(&play)), (RunStatus::PartialSucceeded, vec![first, second]));
}

#[test]
fn a_paused_caller_applies_the_end_when_it_continues() {
    let mut play = Play::of(ONE);
    play.start().skim();
    let run = called(&play, 1);
    parks(&mut play, run, false);
    let pause = parse("pause", "{}", &play.run.graph).unwrap();
    play.feed(vec![pause]);
    assert_eq!(play.run.status, RunStatus::Paused);
    ends(&mut play, run);
    assert!(play.waiting().is_empty());
    let resume = parse("resume", "{}", &play.run.graph).unwrap();
    play.feed(vec![resume]);
    play.done("m", "yes");
    assert_eq!((play.run.status, ordered(&play)), (RunStatus::Succeeded, vec![run]));
}

#[test]
fn a_sub_workflow_run_reports_its_end_to_its_caller() {
    let caller =
        || Caller { run: RunId::new(5, 5, ShardId(3)), frame: FramePath::from("it#3"), node: "t".into() };
    let mut play = Play::submitted(draw(ONE), Vec::new(), |head| head.caller = Some(Box::new(caller())));
    play.restless = true;
    play.start().skim();
    assert_eq!(play.records[0].data["caller_run_id"], json!(caller().run));
    assert!(play.calls.is_empty());
    play.done("m", "yes");
    let body = call_ended_body(&caller(), play.run.id);
    assert_eq!(play.calls[0].ended, Some((caller().run, body)));
}

#[test]
fn a_sub_workflow_run_that_would_wait_for_a_person_fails() {
    let form = "p human-input required_variables: [k.v]\na job\ns > p > a";
    let caller = Caller { run: RunId::new(5, 5, ShardId(3)), frame: FramePath::root(), node: "t".into() };
    let mut play = Play::headed(&sheet(form), json!({}), |head| head.caller = Some(Box::new(caller)));
    play.start();
    assert_eq!(play.run.status, RunStatus::Failed);
    let error = play.run.error.clone().unwrap();
    assert!(error.contains("node p waits for an answer"), "{error}");
    assert!(play.calls[0].ended.is_some() && play.timers.is_empty());
}

#[test]
fn the_cost_of_a_sub_workflow_run_is_counted_once_under_its_id() {
    let mut play = Play::of(ONE);
    play.start().skim();
    let (order, run) = (play.job_of("m"), called(&play, 1));
    let record = json!({"total_tokens": 9, "total_price": "0.5", "currency": "EUR"});
    let usage = Usage::from_record(record.as_object().cloned().unwrap());
    let charge = Charge { key: "call/1".into(), usage, model: Default::default(), run: Some(run) };
    let step = Report::Step { started_at: play.now, events: vec![], charge: Some(Box::new(charge)) };
    let fact = play.fact(&order, 1, &step);
    play.feed(vec![fact]);
    let (key, entry) = play.kept.ledger.first_key_value().unwrap();
    let entry: Json = serde_json::from_str(entry).unwrap();
    assert_eq!(*key, format!("{}/call/1", order.execution));
    assert_eq!((&entry["run"], &entry["total_tokens"], entry.get("model")), (&json!(run), &json!(9), None));
    assert_eq!(play.run.tokens(), 9);
}
