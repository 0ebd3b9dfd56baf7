//! The text of a child node while it is made: it is sent when it comes, and an answer shows it only where its template
//! has it.

use serde_json::{Value as Json, json};

use super::play::Play;
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::fact::{ChildEnd, ChildEvent};
use tidemill_engine::state::record::Record;
use tidemill_wire::expand::envelope;
use tidemill_wire::fact::report::Report;

/// A workflow with a child `c` of the node `t`, and an answer.
fn workflow(answer: &str) -> String {
    let child = "{id: c, type: llm, data: {prompt_template: [{role: user, text: hi}], context: {enabled: false}, \
        model: {provider: p, name: m, mode: chat, completion_params: {}}}}";
    format!("t job virtual_nodes: [{child}]\ne answer answer: '{answer}'\ns > t > e")
}

fn begun(answer: &str) -> Play {
    let mut play = Play::sheet(&workflow(answer), json!({}));
    play.restless = true;
    play.start().skim();
    play.of_child("t", 1, 1, ChildEvent::Started).skim();
    play
}

fn selector() -> Vec<String> {
    vec!["t_c".into(), "text".into()]
}

impl Play {
    fn of_child(&mut self, place: &str, delivery: u32, number: u32, what: ChildEvent) -> &mut Self {
        let order = self.job_of(place);
        let report = Report::Child { started_at: self.now, child: "t_c".into(), number, what };
        let fact = self.fact(&order, delivery, &report);
        self.feed(vec![fact])
    }
    fn piece(&mut self, delivery: u32, number: u32, offset: u64, text: &str) -> &mut Self {
        let what = ChildEvent::Chunk { selector: selector(), offset, text: text.into() };
        self.of_child("t", delivery, number, what)
    }
    fn child_ends(&mut self, delivery: u32, number: u32, end: ChildEnd, text: &str) -> &mut Self {
        let at = self.now;
        let mut record = Record::default();
        if end == ChildEnd::Succeeded {
            record.outputs = vec![("text".to_owned(), Stored::Inline(Segment::string(text)))];
        } else {
            (record.error, record.error_type) = ("no".into(), "E".into());
        }
        let streamed = vec![(selector(), text.len() as u64)];
        let what = ChildEvent::Ended { at, end, record: Box::new(record), streamed };
        self.of_child("t", delivery, number, what)
    }
    /// The keys of the streams that the state has.
    fn streams(&self) -> Vec<&str> {
        self.run.response.streams.keys().map(String::as_str).collect()
    }
}

#[test]
fn text_that_no_answer_shows_is_sent_when_it_comes() {
    let mut play = begun("done");
    play.piece(1, 1, 0, "Ra").tells(&["t_c.text + \"Ra\" (live)"]);
    play.piece(1, 1, 2, "ft").piece(1, 1, 2, "ft").tells(&["t_c.text + \"ft\" (live)"]);
    play.child_ends(1, 1, ChildEnd::Succeeded, "Raft").tells(&["t_c.text + \"\" last (live)", "t_c ok"]);
    assert!(play.streams().is_empty(), "{:?}", play.streams());
    play.done("t", "x");
    assert_eq!(play.last(), "succeeded [answer=\"done\"]");
}

#[test]
fn text_that_an_answer_shows_later_is_sent_twice_and_marked_the_first_time() {
    let mut play = begun("{{#t.output#}}, {{#t_c.text#}}");
    play.piece(1, 1, 0, "Ra").tells(&["t_c.text + \"Ra\" (live)"]);
    play.child_ends(1, 1, ChildEnd::Succeeded, "Raft").tells(&[
        "t_c.text + \"ft\" (live)",
        "t_c.text + \"\" last (live)",
        "t_c ok",
    ]);
    play.done("t", "x");
    let words = play.words();
    let shown: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|words| words.contains(" + ") && !words.contains("live"))
        .collect();
    assert_eq!(shown.first().copied(), Some("t.output + \"x\""), "{shown:?}");
    assert!(shown.contains(&"t_c.text + \"Ra\"") && shown.contains(&"t_c.text + \"ft\""), "{shown:?}");
    assert_eq!(play.last(), "succeeded [answer=\"x, Raft\"]");
}

#[test]
fn text_at_which_the_answer_waits_is_sent_once_as_its_chunks() {
    let mut play = begun("{{#t_c.text#}}");
    play.piece(1, 1, 0, "Ra").piece(1, 1, 2, "ft").tells(&["t_c.text + \"Ra\"", "t_c.text + \"ft\""]);
    play.child_ends(1, 1, ChildEnd::Succeeded, "Raft").tells(&["t_c.text + \"\" last", "t_c ok"]);
}

#[test]
fn a_newer_try_or_delivery_withdraws_what_was_sent() {
    let mut play = begun("done");
    play.piece(1, 1, 0, "Ra").skim();
    play.piece(2, 1, 0, "R").tells(&["t_c.text = \"\" (live)", "t_c.text + \"R\" (live)"]);
    // Chunks of the old delivery are ignored, and so are those after a gap.
    play.piece(1, 1, 2, "x").piece(2, 1, 3, "t").tells(&[]);
    play.piece(2, 2, 0, "Raft").tells(&["t_c.text = \"\" (live)", "t_c.text + \"Raft\" (live)"]);
    play.child_ends(2, 2, ChildEnd::Succeeded, "Raft").tells(&["t_c.text + \"\" last (live)", "t_c ok"]);
    play.piece(2, 2, 0, "late").tells(&[]);
    assert!(play.streams().is_empty());
}

#[test]
fn the_text_of_a_child_that_fails_ends() {
    let mut play = begun("done");
    play.piece(1, 1, 0, "Ra").skim();
    play.child_ends(1, 1, ChildEnd::Failed, "").tells(&["t_c.text + \"\" last (live)", "t_c failed: no"]);
    let mut play = begun("done");
    play.piece(1, 1, 0, "Ra").skim().failed("t", "too late");
    let words = play.words();
    assert!(words.iter().any(|words| words == "t_c.text + \"\" last (live)"), "{words:?}");
    assert!(play.streams().is_empty());
}

#[test]
fn each_item_of_an_iteration_has_its_own_live_text() {
    let drawing = workflow("done")
        .replace("t job", "it iteration iterator_selector: [s, l], output_selector: [t, output], is_parallel: true, parallel_nums: 2\nit/t job")
        .replace("s > t > e", "s > it > e\nits > t");
    let mut play = Play::sheet(&drawing, json!({"l": [1, 2]}));
    play.restless = true;
    play.start().skim();
    let piece = |text: &str| ChildEvent::Chunk { selector: selector(), offset: 0, text: text.into() };
    play.of_child("it#0/t", 1, 1, piece("one")).of_child("it#1/t", 1, 1, piece("two"));
    let chunks: Vec<_> = play.records.iter().filter(|it| it.kind == "node_run_stream_chunk").collect();
    let shown: Vec<_> =
        chunks.iter().map(|it| envelope(it, &play.run.id, &play.run.graph)["data"].clone()).collect();
    let shown: Vec<_> = shown.iter().map(|it| json!([it["frame"], it["chunk"], it["in_answer"]])).collect();
    assert_eq!(shown, [json!(["it#0", "one", false]), json!(["it#1", "two", false])]);
}

#[test]
fn the_start_of_a_node_names_the_node_before_it() {
    let text = "a job\nb job\nboth answer answer: x\ns > a > both\ns > b > both";
    let mut play = Play::sheet(text, json!({}));
    play.restless = true;
    play.start().done("b", "x").after(std::time::Duration::from_secs(1)).done("a", "x");
    let sent = play.records.iter().filter(|it| it.kind == "node_run_started");
    let sent: Vec<Json> =
        sent.map(|it| envelope(it, &play.run.id, &play.run.graph)["data"].clone()).collect();
    let before: Vec<_> = sent.iter().map(|it| json!([it["node_id"], it["predecessor_node_id"]])).collect();
    let expected = [json!(["s", null]), json!(["b", "s"]), json!(["a", "s"]), json!(["both", "a"])];
    assert_eq!(before, expected);
}
