//! Child nodes: their events are like those of any node, their cost counts once, and no edge follows their end.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::play::Play;
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::fact::{ChildEnd, ChildEvent};
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::NodeStatus;
use tidemill_wire::expand::envelope;
use tidemill_wire::fact::report::Report;
use tidemill_workflow::nodes::{Usage, Wasted};

const ONE: &str = "t job virtual_nodes: [{id: ext_1, type: llm, data: {prompt_template: [{role: user, text: hi}], \
    context: {enabled: false}, model: {provider: p, name: m, mode: chat, completion_params: {}}}}]\n\
    e answer answer: '{{#t_ext_1.text#}}'\ns > t > e";

fn usage(tokens: u64) -> Option<Usage> {
    let record = json!({"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens, "total_price": "0.0001", "currency": "USD"});
    record.as_object().cloned().map(Usage::from_record)
}

fn text(text: &str, tokens: u64) -> Record {
    let outputs = vec![("text".to_string(), Stored::Inline(Segment::string(text)))];
    Record { outputs, usage: usage(tokens).map(Box::new), ..Record::default() }
}

fn error(message: &str) -> Record {
    Record { error: message.into(), error_type: "InvokeServerUnavailableError".into(), ..Record::default() }
}

impl Play {
    /// Applies what happens to the first child of a node, as the worker with this delivery reports it.
    fn child(&mut self, place: &str, delivery: u32, number: u32, what: ChildEvent) -> &mut Self {
        let order = self.job_of(place);
        let of = order.node;
        let child = self.run.graph.node(of).children[0];
        let child = self.run.graph.node(child).id.clone();
        let report = Report::Child { started_at: self.now, child, number, what };
        let fact = self.fact(&order, delivery, &report);
        self.feed(vec![fact])
    }
    fn chunk_of(&mut self, delivery: u32, number: u32, offset: u64, piece: &str) -> &mut Self {
        let selector = vec!["t_ext_1".to_string(), "text".to_string()];
        self.child("t", delivery, number, ChildEvent::Chunk { selector, offset, text: piece.into() })
    }
    fn retried(&mut self, number: u32, record: Record) -> &mut Self {
        let at = self.now;
        self.child("t", 1, number, ChildEvent::Retry { at, record: Box::new(record) })
    }
    fn ends(
        &mut self,
        delivery: u32,
        number: u32,
        end: ChildEnd,
        record: Record,
        bytes: Option<u64>,
    ) -> &mut Self {
        let at = self.now;
        let selector = || vec!["t_ext_1".to_string(), "text".to_string()];
        let streamed = bytes.map(|bytes| (selector(), bytes)).into_iter().collect();
        self.child("t", delivery, number, ChildEvent::Ended { at, end, record: Box::new(record), streamed })
    }
}

fn play() -> Play {
    let mut play = Play::sheet(ONE, json!({}));
    play.restless = true;
    play.start().skim();
    play
}

#[test]
fn ve_a04_events_of_a_child_come_before_its_parents_and_are_like_those_of_any_node() {
    let mut play = play();
    play.child("t", 1, 1, ChildEvent::Started).chunk_of(1, 1, 0, "Raft").chunk_of(1, 1, 4, ", consensus");
    play.tells(&["t_ext_1 starts", "t_ext_1.text + \"Raft\"", "t_ext_1.text + \", consensus\""]);
    assert_eq!((play.node("t").status, play.node("t").started_at), (NodeStatus::Running, None));
    play.ends(1, 1, ChildEnd::Succeeded, text("Raft, consensus", 120), Some(15));
    play.tells(&["t_ext_1.text + \"\" last", "t_ext_1 ok"]);
    play.done("t", "x");
    let own: Vec<String> = play.words().into_iter().filter(|words| words.starts_with("t ")).collect();
    assert_eq!(own, ["t starts", "t ok"]);
    assert_eq!(play.last(), "succeeded [answer=\"Raft, consensus\"]");
    // A child has neither steps nor edges.
    assert_eq!((play.run.steps(), play.run.exceptions()), (3, 0));
}

#[test]
fn ve_a06_the_tokens_of_a_child_count_for_the_child_and_for_the_run() {
    let mut play = play();
    play.ends(1, 1, ChildEnd::Succeeded, text("a", 120), None).done("t", "x");
    assert_eq!((play.node("t_ext_1").cost.tokens, play.node("t").cost.tokens), (120, 0));
    assert_eq!(play.run.tokens(), 120);
    let price = play.run.cost().price.map(|price| (price.amount.fixed(), price.currency.to_string()));
    assert_eq!(price, Some(("0.0001".into(), "USD".into())));
    let ledger = play.kept_text();
    assert_eq!(ledger.matches("\\\"total_tokens\\\":120").count(), 1, "{ledger}");
}

#[test]
fn ve_a06_wasted_tries_of_a_child_are_in_no_total() {
    let mut play = play();
    let in_vain = |tokens: u64| {
        let usage = usage(tokens).unwrap();
        let wasted = Wasted { provider: "p".into(), model: "m".into(), usage };
        Record { wasted: Some(Box::new(wasted)), ..error("no") }
    };
    play.retried(1, in_vain(5)).retried(2, in_vain(6));
    play.ends(1, 3, ChildEnd::Succeeded, text("Raft", 1), None).done("t", "x");
    assert_eq!((play.run.tokens(), play.run.wasted().tokens), (1, 11));
    let wasted = play.kept.ledger.values().filter(|entry| entry.contains(r#""wasted":true"#)).count();
    assert_eq!((play.kept.ledger.len(), wasted), (3, 2));
}

#[test]
fn ve_a07_tries_of_a_child_are_numbered_in_events_and_do_not_count_as_failures() {
    let mut play = play();
    play.child("t", 1, 1, ChildEvent::Started).chunk_of(1, 1, 0, "Ra");
    play.retried(1, error("500")).retried(2, error("500")).skim();
    play.chunk_of(1, 3, 0, "Raft").tells(&["t_ext_1.text = \"\"", "t_ext_1.text + \"Raft\""]);
    play.ends(1, 3, ChildEnd::Succeeded, text("Raft", 1), Some(4)).done("t", "x");
    let tries: Vec<(String, u64)> = play
        .records
        .iter()
        .filter(|record| record.data.get("node_id").is_some_and(|id| id == "t_ext_1"))
        .filter(|record| record.kind.starts_with("node_run_") && !record.kind.contains("stream"))
        .map(|record| {
            (record.kind.clone(), record.data.get("retry_index").and_then(|n| n.as_u64()).unwrap_or(0))
        })
        .collect();
    let tries: Vec<(&str, u64)> = tries.iter().map(|(kind, index)| (kind.as_str(), *index)).collect();
    let retry = |index| ("node_run_retry", index);
    assert_eq!(tries, [("node_run_started", 0), retry(1), retry(2), ("node_run_succeeded", 0)]);
    assert_eq!(play.run.exceptions(), 0);
    assert!(play.last().starts_with("succeeded"), "{}", play.last());
}

#[test]
fn ve_a07_a_parent_whose_child_waits_long_has_not_begun() {
    let mut play = play();
    play.child("t", 1, 1, ChildEvent::Started);
    play.retried(1, error("500")).skim();
    let order = play.job_of("t");
    let report = Report::Parked {
        started_at: play.now,
        at: play.now,
        wait_ms: 1500,
        reason: "the next try".into(),
        is_childs: true,
        call: None,
        pause: None,
    };
    let fact = play.fact(&order, 1, &report);
    play.finish("t", fact).tells(&[]);
    assert_eq!((play.node("t").status, play.node("t").started_at), (NodeStatus::Retrying, None));
    play.after(Duration::from_millis(1500)).fire().tells(&[]);
    let began = play.now;
    play.ends(1, 2, ChildEnd::Succeeded, text("Raft", 1), None).done("t", "x");
    let found: Vec<String> = play.words().into_iter().filter(|words| words.starts_with('t')).collect();
    let found: Vec<&String> = found.iter().filter(|words| !words.contains(".text")).collect();
    assert_eq!(found, ["t_ext_1 starts", "t_ext_1 retry 1", "t_ext_1 ok", "t starts", "t ok"]);
    assert_eq!(play.node("t").started_at, Some(began), "the parent has not waited itself");
}

#[test]
fn a_stop_ends_a_parent_whose_child_waits_and_leaves_no_timer() {
    let mut play = play();
    play.child("t", 1, 1, ChildEvent::Started);
    play.retried(1, error("500")).skim();
    let order = play.job_of("t");
    let report = Report::Parked {
        started_at: play.now,
        at: play.now,
        wait_ms: 1500,
        reason: "the next try".into(),
        is_childs: true,
        call: None,
        pause: None,
    };
    let fact = play.fact(&order, 1, &report);
    play.finish("t", fact).stop("enough");
    assert_eq!(
        (play.node("t").status, play.node("t_ext_1").status),
        (NodeStatus::Stopped, NodeStatus::Stopped)
    );
    assert!(play.timers.is_empty(), "{:?}", play.timers);
}

#[test]
fn ve_a08_a_parent_is_not_retried_when_its_child_has_failed() {
    let retrying = ONE.replace(
        "t job virtual",
        "t code code_language: python3, code: x, outputs: {}, variables: [], retry_config: {retry_enabled: true, max_retries: 3, retry_interval: 10}, virtual",
    );
    let mut play = Play::sheet(&retrying, json!({}));
    play.start().skim();
    play.ends(1, 4, ChildEnd::Failed, error("500"), None);
    play.failed("t", "LLM invocation failed: 500");
    let found: Vec<String> = play.words().into_iter().filter(|words| words.starts_with('t')).collect();
    assert_eq!(
        found,
        ["t_ext_1 starts", "t_ext_1 failed: 500", "t starts", "t failed: LLM invocation failed: 500"]
    );
    assert_eq!(play.node("t").attempt, 1);
    assert!(play.last().starts_with("run failed 1"), "{}", play.last());
}

#[test]
fn ve_a09_a_child_with_replaced_outputs_counts_as_one_exception() {
    let mut play = play();
    play.ends(1, 4, ChildEnd::Replaced, Record { outputs: text("", 0).outputs, ..error("500") }, None);
    play.done("t", "x");
    assert_eq!((play.node("t_ext_1").status, play.value("t_ext_1.text")), (NodeStatus::Exception, json!("")));
    assert!(play.last().starts_with("partial 1"), "{}", play.last());
}

#[test]
fn ve_a24_a_new_delivery_withdraws_the_text_of_the_old_one() {
    let mut play = play();
    play.child("t", 1, 1, ChildEvent::Started).chunk_of(1, 1, 0, "Ra").skim();
    play.chunk_of(2, 1, 0, "Raft").tells(&["t_ext_1.text = \"\"", "t_ext_1.text + \"Raft\""]);
    // Reports of the old delivery are ignored.
    play.chunk_of(1, 1, 2, "x").tells(&[]);
    play.ends(2, 1, ChildEnd::Succeeded, text("Raft", 7), Some(4)).done_of("t", 2, "x");
    assert_eq!((play.run.tokens(), play.node("t_ext_1").status), (7, NodeStatus::Succeeded));
}

impl Play {
    fn done_of(&mut self, node: &str, delivery: u32, text: &str) -> &mut Self {
        let fact = self.done_fact(&self.job_of(node), delivery, text, &[]);
        self.finish(node, fact)
    }
}

#[test]
fn ve_a27_a_stop_ends_child_and_parent() {
    let mut play = play();
    play.child("t", 1, 1, ChildEvent::Started).stop("enough");
    let status = |node: &str| play.node(node).status;
    assert_eq!((status("t_ext_1"), status("t")), (NodeStatus::Stopped, NodeStatus::Stopped));
    assert!(play.waiting().is_empty());
}

#[test]
pub(super) fn a_child_that_is_running_when_its_parent_fails_has_failed() {
    let mut play = play();
    play.child("t", 1, 1, ChildEvent::Started).skim().failed("t", "too late");
    let found: Vec<String> = play.words().into_iter().filter(|words| words.starts_with('t')).collect();
    assert_eq!(found[1..], ["t starts", "t_ext_1 failed: too late", "t failed: too late"]);
}

#[test]
fn a_recorded_end_of_a_child_counts_although_another_worker_holds_the_job() {
    let mut play = play();
    let order = play.job_of("t");
    play.child("t", 2, 1, ChildEvent::Started);
    let at = play.now;
    let what = ChildEvent::Ended {
        at,
        end: ChildEnd::Succeeded,
        record: Box::new(text("a", 5)),
        streamed: Vec::new(),
    };
    let report = Report::Child { started_at: at, child: "t_ext_1".into(), number: 1, what };
    let facts = vec![play.fact(&order, 1, &report), play.fact(&order, 1, &report)];
    play.feed(facts);
    assert_eq!((play.value("t_ext_1.text"), play.run.tokens()), (json!("a"), 5));
}

#[test]
fn ve_a22_children_in_different_items_are_separate() {
    let drawing = "it iteration iterator_selector: [s, l], output_selector: [t, output]\n\
        it/t job virtual_nodes: [{id: c, type: template-transform, data: {template: '{{ x }}', variables: []}}]\n\
        e answer answer: x\ns > it > e\nits > t";
    let mut play = Play::sheet(drawing, json!({"l": [1, 2]}));
    play.restless = true;
    play.start();
    for item in ["it#0/t", "it#1/t"] {
        play.ends_at(item);
        play.done(item, "x");
    }
    let children: Vec<String> = play.words().into_iter().filter(|words| words.contains("t_c ok")).collect();
    assert_eq!(children, ["it#0/t_c ok", "it#1/t_c ok"]);
    assert!(play.last().starts_with("succeeded"), "{}", play.last());
    assert_eq!(play.run.tokens(), 6);
}

impl Play {
    fn ends_at(&mut self, place: &str) -> &mut Self {
        let at = self.now;
        let record = Box::new(text("a", 3));
        self.child(
            place,
            1,
            1,
            ChildEvent::Ended { at, end: ChildEnd::Succeeded, record, streamed: Vec::new() },
        )
    }
}

#[test]
fn xc_04_the_total_of_a_run_is_the_sum_of_its_ledger() {
    let asking = ONE.replace("t job virtual", "t llm virtual").replace("{id: ext_1,", "{id: ext_0, type: llm, data: {prompt_template: [{role: user, text: hi}], context: {enabled: false}, model: {provider: p, name: m, mode: chat, completion_params: {}}}}, {id: ext_1,");
    let mut play = Play::sheet(&asking, json!({}));
    play.restless = true;
    play.start();
    // The helper reports on the first child. The second child is reported by its id.
    play.ends(1, 1, ChildEnd::Succeeded, text("a", 7), None);
    let order = play.job_of("t");
    let at = play.now;
    for (number, tokens, what) in [(1, 3, "retry"), (2, 11, "end")] {
        let record = Box::new(text("b", tokens));
        let what = match what {
            "retry" => ChildEvent::Retry { at, record },
            _ => ChildEvent::Ended { at, end: ChildEnd::Succeeded, record, streamed: Vec::new() },
        };
        let report = Report::Child { started_at: at, child: "t_ext_1".into(), number, what };
        let fact = play.fact(&order, 1, &report);
        play.feed(vec![fact]);
    }
    let record = text("own", 100);
    let report = play.ended(record, Vec::new());
    let fact = play.fact(&order, 1, &report);
    play.finish("t", fact);
    let tokens =
        |text: &String| serde_json::from_str::<Json>(text).unwrap()["total_tokens"].as_u64().unwrap();
    let entries: Vec<u64> = play.kept.ledger.values().map(tokens).collect();
    assert_eq!(entries.iter().sum::<u64>(), 121, "{entries:?}");
    assert_eq!((entries.len(), play.run.tokens()), (4, 121));
    let of = |node: &str| play.node(node).cost.tokens;
    assert_eq!((of("t"), of("t_ext_0"), of("t_ext_1")), (100, 7, 14));
}

#[test]
fn xc_08_events_of_a_workflow_without_children_only_say_that_it_has_none() {
    let mut play = Play::sheet("t job\ne answer answer: x\ns > t > e", json!({}));
    play.start().done("t", "x");
    let sent: Vec<_> = play.records.iter().map(|it| envelope(it, &play.run.id, &play.run.graph)).collect();
    let of = |kind: &str| {
        sent.iter().filter(|it| it["type"] == kind).map(|it| it["data"].clone()).collect::<Vec<_>>()
    };
    for data in of("node_run_started") {
        let keys: Vec<&String> = data.as_object().unwrap().keys().collect();
        let expected = [
            "id",
            "node_id",
            "node_type",
            "node_title",
            "node_version",
            "in_iteration_id",
            "in_loop_id",
            "predecessor_node_id",
            "start_at",
            "extras",
            "is_virtual",
        ];
        assert_eq!((keys, &data["is_virtual"]), (expected.map(String::from).iter().collect(), &json!(false)));
    }
    assert!(of("node_run_succeeded").iter().all(|data| data.get("is_virtual").is_none()));
    // The stored records do not have the field at all.
    assert!(play.records.iter().all(|record| !record.data.contains_key("is_virtual")));
    assert_eq!(
        play.run.graph.nodes.iter().filter(|node| node.work.is_some() || node.gives_context).count(),
        0
    );
}
