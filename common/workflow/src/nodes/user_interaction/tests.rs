//! Requests, configurations refused on import, and changes made by answers.

use serde_json::{Value as Json, json};

use super::on_answer::{AddMessage, Effects, Expression, OnAnswer};
use super::{UserInteractionData, answer};
use crate::dsl::Problems;
use crate::nodes::OnTimeout;
use crate::nodes::pause::input::check_input;
use tidemill_base::value::pool::Pool;
use tidemill_base::value::{Segment, SegmentType};

fn parse(data: Json) -> Result<UserInteractionData, Vec<(String, String)>> {
    let mut problems = Problems::new();
    let parsed = UserInteractionData::parse(data.as_object().unwrap(), &mut problems);
    let found: Vec<_> = problems.into_vec().into_iter().map(|found| (found.path, found.message)).collect();
    parsed.ok_or(found)
}

fn pool() -> Pool {
    Pool::new(json!({"start": {"name": "Ann", "n": 7}}))
}

#[test]
fn cx_a28_an_unknown_type_is_refused_with_a_list_of_types() {
    let problems = parse(json!({"interaction_type": "ask_for_money"})).unwrap_err();
    let expected = "`interaction_type` must be one of ask_for_approval, ask_for_input, ask_for_selection, show_message, not \"ask_for_money\"";
    assert_eq!(problems, [("interaction_type".to_string(), expected.to_string())]);
    let path = |data: Json| parse(data).unwrap_err()[0].0.clone();
    let ask = |key: &str, value: Json| json!({"interaction_type": "ask_for_input", key: value});
    assert_eq!(path(ask("show_message", json!(5))), "show_message");
    assert_eq!(path(ask("timeout_ms", json!(-1))), "timeout_ms");
    assert_eq!(path(ask("on_timeout", json!("perhaps"))), "on_timeout");
}

#[test]
fn cx_a22_an_effect_without_what_it_needs_is_refused_and_fails_where_it_is_forced() {
    let ask = |effect: Json| json!({"interaction_type": "ask_for_input", "on_answer": effect});
    for (effect, path, message) in [
        (
            json!({"add_message": null}),
            "on_answer.add_message",
            "No message defined for ADD_MESSAGE operation",
        ),
        (
            json!({"update_variables": []}),
            "on_answer.update_variables",
            "No variables defined for UPDATE_VARIABLES operation",
        ),
        (json!({"DANCE": null}), "on_answer.DANCE", "Unknown operation type: DANCE"),
    ] {
        assert_eq!(parse(ask(effect)).unwrap_err(), [(path.to_string(), message.to_string())]);
    }
    let forced = OnAnswer { message: Some(None), ..OnAnswer::default() };
    let failure = forced.effects(&json!("x"), &pool(), None).unwrap_err();
    assert_eq!(failure.message, "No message defined for ADD_MESSAGE operation");
}

#[test]
fn an_answer_alone_keeps_its_type_and_is_shown_as_text_among_others() {
    for (expression, input, expected) in [
        (json!("{{input}}"), json!(true), json!(true)),
        (json!(" {{ input }} "), json!({"a": [1]}), json!({"a": [1]})),
        (json!("v={{input}}"), json!(true), json!("v=true")),
        (json!("{{input.a.0}}"), json!({"a": [1]}), json!(1)),
        (json!("{{input}}{{input}}"), json!("x"), json!("xx")),
        (json!("{{#start.name#}}: {{input}}"), json!(null), json!("Ann: ")),
        (json!("{{#start.n#}}"), json!("x"), json!(7)),
        (json!("{{input}}"), json!("{{#start.name#}}"), json!("{{#start.name#}}")),
        (json!("fixed"), json!(1), json!("fixed")),
        (json!("start.name"), json!(1), json!("start.name")),
        (json!([1]), json!(2), json!([1])),
        (json!(""), json!(2), json!("")),
    ] {
        assert_eq!(Expression::parse(&expression).value(&input, &pool()), expected, "{expression}");
    }
}

#[test]
fn a_secret_is_nowhere_in_the_clear() {
    let pool = pool().with("env", "key", Segment::new(SegmentType::Secret, "hush-hush-hush".into()));
    let data = parse(json!({
        "interaction_type": "ask_for_input", "show_message": "use {{#env.key#}}", "user_input": "{{#env.key#}}",
        "on_answer": {
            "update_variables": [{"name": "a", "expression": "{{#env.key#}}"}],
            "add_message": {"content": "{{#env.key#}} {{input}}"},
        },
    }))
    .unwrap();
    let result = data.evaluate(&pool);
    let effects = data.on_answer.effects(&json!("x"), &pool, None).unwrap();
    let all = format!("{result:?} {effects:?} {}", answer::results(&effects));
    assert!(!all.contains("hush-hush-hush"), "{all}");
}

#[test]
fn the_request_checks_its_answer() {
    for (data, fits, not) in [
        (json!({"interaction_type": "ask_for_approval"}), json!(true), json!("yes")),
        (
            json!({"interaction_type": "ask_for_input", "input_schema": {"type": "integer"}}),
            json!(7),
            json!("abc"),
        ),
        (
            json!({"interaction_type": "ask_for_input", "input_schema": "{\"type\": \"integer\"}"}),
            json!(7),
            json!("7"),
        ),
        (
            json!({"interaction_type": "ask_for_selection", "options": ["a", {"id": "b", "label": "B"}]}),
            json!("b"),
            json!("c"),
        ),
        (json!({"interaction_type": "ask_for_selection"}), json!("anything"), json!(5)),
    ] {
        let request = *parse(data).unwrap().evaluate(&pool()).pause.unwrap();
        assert!(check_input(&request, fits).is_ok() && check_input(&request, not).is_err(), "{request:?}");
    }
}

#[test]
fn cx_a26_a_model_gets_the_prompt_of_each_type() {
    for (data, expected) in [
        (json!({"interaction_type": "ask_for_approval"}), "Ask for approval: Please approve this action"),
        (json!({"interaction_type": "ask_for_input"}), "Ask for input: Please provide input"),
        (
            json!({"interaction_type": "ask_for_selection", "show_message": "Which?"}),
            "Ask for selection: Which?",
        ),
        (json!({"interaction_type": "show_message"}), "Show message"),
    ] {
        assert_eq!(parse(data).unwrap().model_prompt(&pool()), expected);
    }
    let by_model =
        parse(json!({"interaction_type": "ask_for_approval", "execution": "llm"})).unwrap().by_model;
    assert_eq!(by_model.unwrap().profile, "default");
    assert!(parse(json!({"interaction_type": "ask_for_approval", "execution": "dream"})).is_err());
}

#[test]
fn handles_are_those_of_the_answer_and_of_the_time() {
    let approval = parse(json!({"interaction_type": "ask_for_approval"})).unwrap();
    assert!(approval.chooses("approved") && approval.chooses("rejected") && !approval.chooses("timeout"));
    let timed = json!({"interaction_type": "ask_for_selection", "options": ["a"], "timeout_ms": 5, "on_timeout": "branch"});
    let selection = parse(timed).unwrap();
    assert!(selection.chooses("a") && selection.chooses("timeout") && !selection.chooses("b"));
    assert_eq!(selection.on_timeout, OnTimeout::Branch);
}

#[test]
fn a_default_answer_must_be_an_answer() {
    let ask = |defaults: Json| json!({"interaction_type": "ask_for_approval", "timeout_ms": 5, "on_timeout": "default", "defaults": defaults});
    assert!(parse(ask(json!(true))).is_ok());
    assert_eq!(parse(ask(json!("perhaps"))).unwrap_err()[0].0, "defaults");
}

#[test]
fn a_message_is_its_text_with_the_answer_filled_in() {
    let message =
        AddMessage { role: "user".into(), content: Expression::of_text("Q: {{input}}"), list: "main".into() };
    let on_answer = OnAnswer { message: Some(Some(message)), ..OnAnswer::default() };
    let effects = on_answer.effects(&json!("why"), &pool(), None).unwrap();
    assert_eq!(
        effects,
        Effects { updates: Vec::new(), message: Some(("main".into(), "user".into(), "Q: why".into())) }
    );
}
