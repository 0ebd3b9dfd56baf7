//! Charges that arrive after the end of a run or of its node: the cost is counted, everything else is ignored.

use serde_json::json;

use super::play::Play;
use tidemill_base::value::JsonMap;
use tidemill_engine::fact::{Charge, ChildEnd, ChildEvent};
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::{NodeStatus, RunStatus};
use tidemill_engine::state::step_event::StepEvent;
use tidemill_wire::fact::report::Report;
use tidemill_wire::fact::{parse, stop_body};
use tidemill_workflow::nodes::Usage;

const ONE: &str = "start s\nllm m\nend e m.text\ns > m > e";

fn usage(tokens: u64) -> Usage {
    let record =
        json!({"prompt_tokens": tokens, "total_tokens": tokens, "total_price": "0.5", "currency": "EUR"});
    Usage::from_record(record.as_object().cloned().unwrap())
}

fn charge(key: &str, tokens: u64) -> Box<Charge> {
    let model = ("p".to_string(), "m".to_string());
    Box::new(Charge { key: key.into(), usage: usage(tokens), model, run: None })
}

fn step(play: &Play, tokens: u64) -> Report {
    let log = JsonMap::from_iter([("label".to_string(), json!("x"))]);
    let events = vec![(StepEvent::AgentLog, log)];
    Report::Step { started_at: play.now, events, charge: Some(charge("llm:1/1", tokens)) }
}

/// Stops the run and then applies this report of a node's job, in one batch or in two.
fn stopped_before(play: &mut Play, node: &str, report: &Report, at_once: bool) {
    let stop = parse("stop", &stop_body("enough"), &play.run.graph).unwrap();
    let late = play.fact(&play.job_of(node), 1, report);
    if at_once {
        play.feed(vec![stop, late]);
    } else {
        play.feed(vec![stop]).reload().feed(vec![late]);
    }
    assert_eq!((play.run.status, play.node(node).status), (RunStatus::Stopped, NodeStatus::Stopped));
    assert!(play.last().starts_with("Aborted: enough"), "no other event follows: {}", play.last());
}

#[test]
fn ve_a27_a_journal_entry_recorded_before_a_stop_and_read_after_it_is_charged() {
    for at_once in [true, false] {
        let mut play = Play::of(ONE);
        play.start();
        let late = step(&play, 7);
        stopped_before(&mut play, "m", &late, at_once);
        assert_eq!((play.run.tokens(), play.kept.ledger.len()), (7, 1));
        let price = play.run.cost().price.unwrap();
        assert_eq!((price.amount.to_string().as_str(), &*price.currency), ("0.5", "EUR"));
        let shown = |field: &str| play.kept.run.get(field).cloned().unwrap_or_default();
        assert_eq!(
            (shown("tokens"), shown("price"), shown("status")),
            ("7".into(), "0.5".into(), "stopped".into())
        );
    }
}

#[test]
fn ve_a27_an_attempt_that_ended_before_a_stop_and_is_read_after_it_is_charged_once() {
    for at_once in [true, false] {
        let mut play = Play::of(ONE);
        play.start();
        let fact = play.fact(&play.job_of("m"), 1, &step(&play, 7));
        play.feed(vec![fact]);
        let record = Record { usage: Some(Box::new(usage(10))), ..Record::default() };
        let late = play.ended(record, Vec::new());
        stopped_before(&mut play, "m", &late, at_once);
        assert_eq!(play.run.tokens(), 10, "the journal entry is part of it");
        assert!(!play.words().iter().any(|words| words == "m ok"));
    }
}

#[test]
pub(super) fn ve_a27_the_cost_of_a_child_is_charged_after_a_stop() {
    let sheet = "t job virtual_nodes: [{id: ext_1, type: llm, data: {prompt_template: [{role: user, text: hi}], \
        context: {enabled: false}, model: {provider: p, name: m, mode: chat, completion_params: {}}}}]\n\
        e answer answer: '{{#t_ext_1.text#}}'\ns > t > e";
    for at_once in [true, false] {
        let mut play = Play::sheet(sheet, json!({}));
        play.start();
        let child = play.run.graph.node(play.job_of("t").node).children[0];
        let child = play.run.graph.node(child).id.clone();
        let record = Box::new(Record { usage: Some(Box::new(usage(9))), ..Record::default() });
        let (at, streamed) = (play.now, Vec::new());
        let what = ChildEvent::Ended { at, end: ChildEnd::Succeeded, record, streamed };
        let late = Report::Child { started_at: play.now, child, number: 1, what };
        stopped_before(&mut play, "t", &late, at_once);
        assert_eq!((play.run.tokens(), play.kept.ledger.len()), (9, 1));
    }
}

#[test]
fn a_journal_entry_of_a_node_that_the_engine_has_ended_is_charged() {
    let mut play = Play::of("start s\nllm m retry=1\nend e m.text\ns > m > e");
    play.start();
    let late = play.fact(&play.job_of("m"), 1, &step(&play, 7));
    play.failed("m", "broken").skim().feed(vec![late]).tells(&[]);
    assert_eq!((play.run.status, play.run.tokens()), (RunStatus::Running, 7));
}

#[test]
fn only_charges_change_a_run_that_has_ended() {
    let mut play = Play::of(ONE);
    play.start();
    let order = play.job_of("m");
    let chunk = play.chunk_fact(&order, 1, 0, "late");
    let started = play.fact(&order, 1, &Report::Started { at: play.now });
    let done = play.done_fact(&order, 1, "late", &[]);
    play.stop("enough").skim();
    let before = play.kept_text();
    play.feed(vec![chunk, started, done]).tells(&[]);
    assert_eq!(play.kept_text(), before);
}
