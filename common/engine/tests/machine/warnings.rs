//! Warnings that workers and submissions bring: the run keeps each once, with its node, and emits an event for it.

use serde_json::{Value as Json, json};

use super::draw;
use super::play::Play;
use tidemill_base::warning::{DATASET_UNKNOWN, INPUT_NOT_DECLARED, Warning};
use tidemill_engine::fact::{ChildEnd, ChildEvent};
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::record::Record;
use tidemill_wire::expand::envelope;
use tidemill_wire::fact::report::Report;

fn unknown(id: &str) -> Warning {
    Warning::new(DATASET_UNKNOWN, "no such dataset").about("dataset", id).hint("add it")
}

fn warns(ids: &[&str]) -> Record {
    Record { warnings: ids.iter().map(|id| unknown(id)).collect(), ..Record::default() }
}

/// Node and dataset of each warning in the state.
fn kept(play: &Play) -> Vec<(String, String)> {
    let of = |noted: &tidemill_engine::state::warnings::Noted| {
        let about = noted.warning.about.first().map(|(_, value)| value.clone()).unwrap_or_default();
        (noted.node.as_ref().map(ToString::to_string).unwrap_or_default(), about)
    };
    play.run.control.warnings.iter().map(of).collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(node, about)| ((*node).to_owned(), (*about).to_owned())).collect()
}

#[test]
fn a_warning_comes_with_the_end_of_its_node_and_is_kept_over_a_take_over() {
    let mut play = Play::of("start s\njob a\njob b\ns > a > b");
    play.start().skim();
    play.brings_record("a", warns(&["d1", "d2", "d1"])).reload();
    play.tells_of(&["a"], &["a starts", "a warns dataset.unknown", "a warns dataset.unknown", "a ok"]);
    assert_eq!(kept(&play), pairs(&[("a", "d1"), ("a", "d2")]));
    play.brings_record("b", warns(&["d1"])).reload();
    assert_eq!(kept(&play), pairs(&[("a", "d1"), ("a", "d2"), ("b", "d1")]));
    let last = &play.records.last().unwrap().data["warnings"];
    assert_eq!(last.as_array().map(Vec::len), Some(3), "{last}");
    let expected = json!({
        "code": "dataset.unknown", "node_id": "a", "node_title": "", "dataset": "d1",
        "message": "node a: no such dataset", "hint": "add it",
    });
    assert_eq!(last[0], expected);
    let event = play.records.iter().find(|record| record.kind == "run_warning").unwrap();
    assert_eq!(envelope(event, &play.run.id, &play.run.graph)["data"], expected);
    let ends = play.records.iter().filter(|record| record.kind == "node_run_succeeded");
    assert!(ends.clone().count() == 3 && ends.clone().all(|end| end.data.get("warnings").is_none()));
}

#[test]
fn a_failed_attempt_warns_too_and_the_next_one_does_not_repeat_it() {
    let mut play = Play::of("start s\nllm a retry=1\ns > a");
    play.start().skim();
    let failed = |id: &str| Record { error: "broken".into(), error_type: "E".into(), ..warns(&[id]) };
    play.brings_record("a", failed("d1")).reload();
    assert_eq!(kept(&play), pairs(&[("a", "d1")]));
    play.after(std::time::Duration::from_secs(2)).fire();
    play.brings_record("a", warns(&["d1", "d2"]));
    assert_eq!((play.last(), kept(&play)), ("partial 1 []".into(), pairs(&[("a", "d1"), ("a", "d2")])));
}

#[test]
fn a_late_result_of_another_holder_and_one_after_the_end_warn_of_nothing() {
    let mut play = Play::of("start s\njob a\ns > a");
    play.start();
    let order = play.job_of("a");
    let late = |play: &Play| play.fact(&order, 1, &play.ended(warns(&["d1"]), Vec::new()));
    let fact = late(&play);
    play.stop("enough").feed(vec![fact]);
    assert_eq!(
        (kept(&play), play.records.iter().filter(|record| record.kind == "run_warning").count()),
        (vec![], 0)
    );
}

#[test]
fn a_run_begins_with_the_warnings_of_its_submission_which_no_job_carries() {
    let options = RunOptions {
        warnings: vec![Warning::new(INPUT_NOT_DECLARED, "the form has no x").about("input", "x")],
        ..RunOptions::default()
    };
    let mut play = Play::with(draw::draw("start s\njob a\ns > a"), &[], options);
    play.start().reload();
    assert_eq!(play.words()[..2], ["begin", "warns input.not_declared"]);
    assert!(play.run.head.options.warnings.is_empty());
    play.done("a", "").reload();
    let warning = &play.records.last().unwrap().data["warnings"][0];
    assert_eq!(
        *warning,
        json!({"code": "input.not_declared", "input": "x", "message": "the form has no x"}),
        "a warning of the whole run names no node"
    );
}

#[test]
fn a_run_keeps_only_as_many_warnings_as_it_may_and_says_so() {
    for (max, expected) in [(2, 3), (0, 0)] {
        let options = RunOptions { warnings_max: max, ..RunOptions::default() };
        let mut play = Play::with(draw::draw("start s\njob a\ns > a"), &[], options);
        play.start().brings_record("a", warns(&["d1", "d2", "d3", "d4"])).reload();
        assert_eq!(play.run.control.warnings.len(), expected, "{max}");
        let last = play.run.control.warnings.iter().last().map(|noted| noted.warning.message.clone());
        assert_eq!(last.is_some_and(|message| message.contains("run.warnings_max")), max > 0);
    }
}

#[test]
fn a_run_without_warnings_writes_no_byte_about_them() {
    let mut play = Play::of("start s\njob a\ns > a");
    play.start().reload();
    let fact = play.ended(Record::default(), Vec::new());
    let Report::Ended { record, .. } = &fact else { panic!("an end") };
    assert!(record.warnings.is_empty());
    play.done("a", "").reload();
    assert!(!play.kept_text().contains("warnings"), "{}", play.kept_text());
    assert!(
        play.records.iter().all(|record| !Json::Object(record.data.clone()).to_string().contains("warnings"))
    );
}

#[test]
fn a_child_warns_under_its_own_name() {
    let child = "t job virtual_nodes: [{id: ext_1, type: llm, data: {prompt_template: [{role: user, text: hi}], \
        context: {enabled: false}, model: {provider: p, name: m, mode: chat, completion_params: {}}}}]\n\
        e end outputs: []\ns > t > e";
    let mut play = Play::sheet(child, json!({}));
    play.restless = true;
    play.start();
    let order = play.job_of("t");
    let (at, child) = (play.now, play.run.graph.node(play.run.graph.node(order.node).children[0]).id.clone());
    let ended = |record: Record| ChildEvent::Ended {
        at,
        end: ChildEnd::Succeeded,
        record: record.into(),
        streamed: vec![],
    };
    let report = |what| Report::Child { started_at: at, child: child.clone(), number: 1, what };
    let retry = report(ChildEvent::Retry { at, record: Box::new(warns(&["d1"])) });
    let facts =
        vec![play.fact(&order, 1, &retry), play.fact(&order, 1, &report(ended(warns(&["d1", "d2"]))))];
    play.feed(facts);
    assert_eq!(kept(&play), pairs(&[("t_ext_1", "d1"), ("t_ext_1", "d2")]));
}
