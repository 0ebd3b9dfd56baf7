//! Variables that the start node shows under its own id: `[<start>, sys.query]`, as Dify's editors write it.

use serde_json::{Value as Json, json};

use super::play::Play;
use tidemill_base::value::{Segment, Stored};
use tidemill_engine::state::run::{RunHead, RunStatus};

const CHAT: &str = r#"
kind: app
version: 0.6.0
app: {mode: workflow, name: t}
workflow:
  environment_variables: [{name: mood, value_type: string, value: sunny}, {name: key, value_type: secret, value: hunter2-hunter2}]
  conversation_variables: [{name: count, value_type: number, value: 3}]
  graph:
    nodes:
    - {id: s, data: {type: start, variables: [{variable: x, label: X, type: text-input, required: false}]}}
    - {id: shout, data: {type: template-transform, title: T, template: "{{ q }} {{ m }} {{ c }} {{ x }}", variables: [
        {variable: q, value_selector: [s, sys.query]}, {variable: m, value_selector: [s, env.mood]},
        {variable: c, value_selector: [s, conversation.count]}, {variable: x, value_selector: [s, x]}]}}
    - {id: pick, data: {type: if-else, title: P, cases: [{case_id: "true", logical_operator: and, conditions: [
        {comparison_operator: contains, value: tide, variable_selector: [s, sys.query]}]}]}}
    - {id: gather, data: {type: variable-aggregator, title: G, output_type: string, variables: [[s, sys.gone], [s, sys.query]]}}
    - {id: set, data: {type: assigner, title: A, version: "2", items: [
        {variable_selector: [conversation, count], operation: over-write, input_type: constant, value: 9}]}}
    - {id: late, data: {type: template-transform, title: L, template: "{{ c }} {{ now }}", variables: [
        {variable: c, value_selector: [s, conversation.count]}, {variable: now, value_selector: [conversation, count]}]}}
    - {id: each, data: {type: iteration, title: E, start_node_id: eachs, iterator_selector: [s, sys.files],
        iterator_input_type: "array[string]", output_selector: [one, output], output_type: "array[string]"}}
    - {id: eachs, parentId: each, data: {type: iteration-start}}
    - {id: one, parentId: each, data: {type: template-transform, title: O, template: "{{ q }}:{{ i }}", variables: [
        {variable: q, value_selector: [s, sys.query]}, {variable: i, value_selector: [each, item]}]}}
    - {id: e, data: {type: end, title: End, outputs: [
        {variable: said, value_selector: [shout, output]}, {variable: query, value_selector: [s, sys.query]},
        {variable: first, value_selector: [gather, output]}, {variable: late, value_selector: [late, output]},
        {variable: each, value_selector: [each, output]}, {variable: none, value_selector: [s, other.query]}]}}
    edges:
    - {source: s, target: shout}
    - {source: shout, target: pick}
    - {source: pick, sourceHandle: "true", target: gather}
    - {source: gather, target: set}
    - {source: set, target: late}
    - {source: late, target: each}
    - {source: eachs, target: one}
    - {source: each, target: e}
"#;

fn played(yaml: &str, inputs: Json) -> Play {
    let mut play = Play::headed(yaml, inputs, |head: &mut RunHead| {
        for (name, value) in [("query", json!("a tide mill")), ("files", json!(["f", "g"]))] {
            head.sys.push((name.into(), Stored::Inline(Segment::infer(value))));
        }
    });
    play.start();
    play
}

#[test]
fn selectors_under_the_start_node_find_what_it_shows_as_it_was_when_the_run_began() {
    let play = played(CHAT, json!({"x": "own"}));
    assert_eq!(play.run.status, RunStatus::Succeeded, "{:?}", play.run.error);
    for (name, expected) in [
        ("shout.output", json!("a tide mill sunny 3 own")),
        ("gather.output", json!("a tide mill")),
        // The start node shows the value from before the assigner.
        ("late.output", json!("3 9")),
        ("each.output", json!(["a tide mill:f", "a tide mill:g"])),
        ("s.sys.query", json!("a tide mill")),
        ("s.other.query", json!(null)),
        ("s.sys", json!(null)),
    ] {
        assert_eq!(play.value(name), expected, "{name}");
    }
}

#[test]
fn an_input_of_that_name_wins() {
    let play = played(CHAT, json!({"x": "own", "sys.query": "the tide of the form"}));
    assert_eq!(play.value("gather.output"), "the tide of the form");
}

#[test]
fn a_secret_under_the_start_node_stays_secret_by_name() {
    let play = played(CHAT, json!({}));
    let stored = play
        .run
        .pool(&tidemill_base::ids::FramePath::root())
        .stored("s", "env.key")
        .map(|it| it.into_owned());
    assert_eq!(stored, Some(Stored::Secret("key".into())));
    assert!(!format!("{:?}", play.records).contains("hunter2"), "a secret is never emitted");
}

/// A text has no names with points in it: `{{#s.sys.query#}}` names a part of the variable `sys`.
#[test]
fn a_reference_in_a_text_stays_as_it_is() {
    let play = played(
        "nodes:\n- {id: s, data: {type: start, variables: []}}\n\
         - {id: a, data: {type: answer, title: A, answer: 'x {{#s.sys.query#}} {{#sys.query#}}'}}\n\
         edges:\n- {source: s, target: a}\n",
        json!({}),
    );
    let answer = play.value("a.answer");
    assert!(
        answer.as_str().is_some_and(|text| text.ends_with(" a tide mill") && !text.starts_with("x a tide")),
        "{answer}"
    );
}
