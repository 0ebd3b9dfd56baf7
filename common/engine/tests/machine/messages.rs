//! The node `context-processor`, and changes of a caller's list of messages.

use serde_json::{Value as Json, json};

use super::play::Play;
use super::sheet::sheet;
use tidemill_base::ids::{FramePath, RunId};
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::state::run::{Caller, NodeStatus, RunStatus};
use tidemill_wire::fact::parse;
use tidemill_workflow::messages::{MESSAGES, given_messages};

fn conversation() -> Json {
    json!({"main": [
        {"role": "system", "content": "S"}, {"role": "user", "content": "foo"}, {"role": "assistant", "content": "A1"},
        {"role": "user", "content": "bar baz"}, {"role": "assistant", "content": "A2"},
    ]})
}

/// A run that begins with the list of messages above, with these context processors in a chain.
fn play(nodes: &[(&str, &str)]) -> Play {
    let lines: String = nodes.iter().map(|(id, data)| format!("{id} context-processor {data}\n")).collect();
    let ids: Vec<&str> = nodes.iter().map(|(id, _)| *id).collect();
    let text = format!("{lines}e end outputs: []\ns > {} > e", ids.join(" > "));
    let mut play = Play::headed(&sheet(&text), json!({}), |head| {
        head.options.messages = given_messages(&conversation()).map(Box::new);
    });
    play.restless = true;
    play.start();
    play
}

fn value(play: &Play, node: &str, name: &str) -> Json {
    let root = FramePath::root();
    match play.run.pool(&root).stored(node, name).map(std::borrow::Cow::into_owned) {
        Some(Stored::Inline(Segment { value, .. })) => value,
        other => panic!("{node}.{name} is {other:?}"),
    }
}

fn texts(play: &Play) -> Vec<String> {
    let visible = value(play, MESSAGES, "main");
    visible
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap().to_string())
        .collect()
}

#[test]
fn cx_a01_a_truncation_has_its_result_as_output() {
    let play = play(&[("c", "operation: truncate, truncate: {keepLast: 2}")]);
    assert_eq!(texts(&play), ["bar baz", "A2"]);
    assert_eq!(
        (value(&play, "c", "operation"), value(&play, "c", "message_count")),
        (json!("truncate"), json!(2))
    );
    assert_eq!((value(&play, "c", "batch"), value(&play, "c", "conversation_id")), (json!(1), json!("main")));
    let stats =
        json!({"original_message_count": 5, "visible_message_count": 2, "invisible_message_count": 3});
    assert_eq!(value(&play, "c", "stats"), stats);
    let context = json!([
        {"role": "user", "text": "bar baz", "files": []}, {"role": "assistant", "text": "A2", "files": []},
    ]);
    assert_eq!(value(&play, "c", "context"), context);
    assert_eq!(play.run.status, RunStatus::Succeeded);
    let record = &play.run.messages.as_ref().unwrap().history[0];
    assert_eq!((&record["node_id"], &record["step_status"]), (&json!("c"), &json!("success")));
    assert_eq!(record["input_data"], json!({"operation": "truncate", "truncate": {"keep_last": 2}}));
}

#[test]
fn cx_a06_an_insertion_at_the_end_opens_no_batch() {
    let insert = "operation: insert, insert: {position: -1, messages: [{role: user, content: X}]}";
    let play = play(&[("c", insert)]);
    assert_eq!(texts(&play), ["S", "foo", "A1", "bar baz", "A2", "X"]);
    assert_eq!((value(&play, "c", "batch"), value(&play, "c", "operation")), (json!(0), json!("insert")));
}

#[test]
fn cx_a07_an_insertion_after_the_end_fails_its_node() {
    let insert = "operation: insert, insert: {position: 9, messages: [{role: user, content: X}]}, error_strategy: fail-branch";
    let play = play(&[("c", insert)]);
    assert_eq!(value(&play, "c", "error_type"), json!("InsertPositionOutOfRange"));
    let list = &play.run.messages.as_ref().unwrap().lists["main"];
    assert_eq!((list.index.version, list.messages.len()), (0, 5));
    let record = &play.run.messages.as_ref().unwrap().history[0];
    assert_eq!(record["step_status"], json!("error"));
}

#[test]
fn cx_a08_an_index_out_of_bounds_fails_its_node_with_the_words_of_the_design() {
    let replace = "operation: replace, replace: {index: 5, message: {role: user, content: Y}}";
    let play = play(&[("c", replace)]);
    assert_eq!(play.run.status, RunStatus::Failed);
    assert_eq!(play.run.error.as_deref(), Some("Visible index 5 out of bounds. Visible messages count: 5"));
}

#[test]
fn cx_a09_clearing_keeps_the_system_message_unless_configured_otherwise() {
    for (clear, left) in [
        ("", &["S"][..]),
        (", clear: {keepSystemMessage: true}", &["S"]),
        (", clear: {keepSystemMessage: false}", &[]),
    ] {
        assert_eq!(texts(&play(&[("c", &format!("operation: clear{clear}"))])), left, "{clear}");
    }
}

#[test]
fn cx_a11_a_rollback_shows_what_was_visible_before() {
    let play = play(&[
        ("a", "operation: truncate, truncate: {keepLast: 1}"),
        ("b", "operation: append, append: {messages: [{role: user, content: next}]}"),
        ("c", "operation: rollback, rollback: {target_batch: 0}"),
    ]);
    assert_eq!(texts(&play), ["S", "foo", "A1", "bar baz", "A2"]);
    assert_eq!((value(&play, "c", "batch"), value(&play, "c", "message_count")), (json!(0), json!(5)));
}

#[test]
fn lists_with_other_names_are_separate() {
    let play = play(&[(
        "c",
        "operation: append, append: {messages: [{role: user, content: x}]}, conversation_id: notes",
    )]);
    assert_eq!(texts(&play).len(), 5);
    assert_eq!(value(&play, MESSAGES, "notes"), json!([{"idx": 0, "role": "user", "content": "x"}]));
}

#[test]
fn inside_a_container_the_parent_is_the_run() {
    let text = "lp loop loop_count: 2, break_conditions: [], logical_operator: and
        lp/c context-processor operation: append, append: {messages: [{role: user, content: x}]}, target: parent
        lps > c
        e end outputs: []
        s > lp > e";
    let mut play = Play::sheet(text, json!({}));
    play.restless = true;
    play.start();
    assert_eq!(texts(&play), ["x", "x"]);
    let list = &play.run.messages.as_ref().unwrap().lists["main"];
    assert_eq!([&*list.messages[0].by, &*list.messages[1].by], ["lp#0/c", "lp#1/c"]);
}

#[test]
fn a_container_that_begins_again_does_not_see_messages_of_its_first_try() {
    let text = "lp loop loop_count: 2, break_conditions: [], logical_operator: and
        lp/c context-processor operation: append, append: {messages: [{role: user, content: x}]}
        lp/k job
        lps > c > k
        a context-processor operation: append, append: {messages: [{role: user, content: before}]}
        e end outputs: []
        s > a > lp > e";
    let mut play = Play::sheet(text, json!({}));
    play.start().done("lp#0/k", "o").failed("lp#1/k", "broken");
    assert_eq!((play.run.status, texts(&play).len()), (RunStatus::Failed, 3));
    let again = tidemill_engine::rewind::rewind(&play.run, &FramePath::root(), &"lp".into()).unwrap();
    let list = &again.messages.as_ref().unwrap().lists["main"];
    assert_eq!((list.index.visible.clone(), list.messages.len()), (vec![0], 3));
}

/// The facts for other runs since the last call, with the ids of these runs.
fn facts_for_others(play: &mut Play) -> Vec<(RunId, &'static str, String)> {
    std::mem::take(&mut play.calls).into_iter().flat_map(|calls| calls.parent_facts).collect()
}

/// A caller with a list of messages, and a sub-workflow run of its node `m` that changes this list.
fn family(data: &str) -> (Play, Play) {
    let mut parent = Play::headed(&sheet("m llm\ne end outputs: []\ns > m > e"), json!({}), |head| {
        head.options.messages = given_messages(&conversation()).map(Box::new);
    });
    parent.restless = true;
    parent.start();
    let caller = Caller { run: parent.run.id, frame: FramePath::root(), node: "m".into() };
    let text = format!("c context-processor {data}, target: parent\ne end outputs: []\ns > c > e");
    let mut child = Play::headed(&sheet(&text), json!({}), |head| head.caller = Some(Box::new(caller)));
    child.restless = true;
    child.start();
    (parent, child)
}

fn receives(play: &mut Play, (_, kind, body): &(RunId, &'static str, String)) {
    let fact = parse(kind, body, &play.run.graph).unwrap();
    play.feed(vec![fact]);
}

#[test]
pub(super) fn a_sub_workflow_run_changes_a_list_of_its_caller_and_gets_the_result() {
    let (mut parent, mut child) = family("operation: truncate, truncate: {keepLast: 2}");
    assert_eq!(child.node("c").status, NodeStatus::Retrying);
    assert_eq!(child.run.status, RunStatus::Running);
    let asked = facts_for_others(&mut child);
    assert_eq!((asked.len(), asked[0].0, asked[0].1), (1, parent.run.id, "parent_asked"));
    receives(&mut parent, &asked[0]);
    assert_eq!(texts(&parent), ["bar baz", "A2"]);
    assert!(parent.last().contains("m conversation_updated"), "{}", parent.last());
    let answered = facts_for_others(&mut parent);
    assert_eq!((answered.len(), answered[0].1), (1, "parent_answered"));
    receives(&mut child, &answered[0]);
    assert_eq!((child.run.status, value(&child, "c", "message_count")), (RunStatus::Succeeded, json!(2)));
    assert_eq!(value(&child, MESSAGES, "main"), json!([]), "the run's own list is separate");
    // When a new owner computes the step again, the repeated fact changes nothing.
    receives(&mut parent, &asked[0]);
    assert_eq!(parent.run.messages.as_ref().unwrap().lists["main"].index.version, 1);
    receives(&mut child, &answered[0]);
}

#[test]
fn a_change_that_the_caller_refuses_fails_the_node_that_asked() {
    let replace = "operation: replace, replace: {index: 5, message: {role: user, content: Y}}";
    let (mut parent, mut child) = family(replace);
    let asked = facts_for_others(&mut child);
    receives(&mut parent, &asked[0]);
    let answered = facts_for_others(&mut parent);
    receives(&mut child, &answered[0]);
    assert_eq!(child.run.error.as_deref(), Some("Visible index 5 out of bounds. Visible messages count: 5"));
    assert_eq!(parent.run.status, RunStatus::Running);
}

#[test]
fn texts_of_messages_may_name_variables_without_their_nodes() {
    let data = "operation: append, append: {messages: [{role: user, content: 'Q: {{ query }} {{#s.x#}}'}]}";
    let text = format!("c context-processor {data}\ne end outputs: []\ns > c > e");
    let mut play = Play::headed(&sheet(&text), json!({"x": "y"}), |head| {
        head.sys.push(("query".into(), Stored::Inline(Segment::string("why"))));
    });
    play.start();
    assert_eq!(texts(&play), ["Q: why y"]);
    let mut play = Play::sheet(&text, json!({"x": "y"}));
    play.start();
    assert_eq!(play.run.error.as_deref(), Some("Variable not found: query"));
}
