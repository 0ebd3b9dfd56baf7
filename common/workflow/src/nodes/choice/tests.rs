use serde_json::{Value as Json, json};

use super::operator::Operator;
use super::{ChoiceData, NOTHING};
use crate::dsl::Problems;
use tidemill_base::value::pool::Pool;

fn parse(data: Json) -> ChoiceData {
    let mut problems = Problems::new();
    let parsed = ChoiceData::parse(data.as_object().unwrap(), &mut problems);
    parsed.unwrap_or_else(|| panic!("{:?}", problems.into_vec()))
}
fn chosen(data: Json, pool: Json) -> String {
    let result = parse(data).evaluate(&Pool::new(pool));
    assert_eq!(result.failure, None);
    assert_eq!(result.outputs[0].0, "branch_id");
    let id = result.outputs[0].1.value.as_str().unwrap().to_owned();
    assert_eq!(result.handle, if id.is_empty() { NOTHING } else { &id });
    id
}
fn condition(operate: &str, right: Json) -> Json {
    json!({"id": "c", "left": {"step_id": "w", "type": "string", "name": "text"}, "operate": operate, "right": {"value": right}})
}
fn branch(id: &str, conditions: Vec<Json>) -> Json {
    json!({"branch_id": id, "logic": "and", "conditions": conditions})
}
fn default() -> Json {
    json!({"branch_id": "d", "is_default": true})
}

#[test]
fn se_a18_the_first_branch_that_holds_is_chosen_and_else_the_default() {
    let rain = condition("string_contains", json!("rain"));
    let hot = condition("number_greater_than", json!(30));
    let choices = json!([branch("b1", vec![rain.clone()]), branch("b2", vec![hot.clone()]), default()]);
    let with = |value: Json| json!({"w": {"text": value}});
    for (value, expected) in
        [(json!("light rain"), "b1"), (json!(31), "b2"), (json!(30), "d"), (json!([]), "d")]
    {
        assert_eq!(chosen(json!({"choices": choices}), with(value.clone())), expected, "{value}");
    }
    // Both conditions of b1 have the wrong type: the branch is skipped, though `and` over no conditions would hold.
    let invalid = vec![condition("number_equal", json!(1)), condition("string_contains", json!(5))];
    assert_eq!(
        chosen(json!({"choices": [branch("b1", invalid), default()]}), with(json!("light rain"))),
        "d"
    );
    let anchored = vec![condition("string_regex_match", json!("rain"))];
    assert_eq!(
        chosen(json!({"choices": [branch("b1", anchored), default()]}), with(json!("light rain"))),
        "d"
    );
    assert_eq!(chosen(json!({"choices": [branch("b1", vec![rain])]}), with(json!("sun"))), "");
}

#[test]
fn a_condition_that_cannot_be_judged_does_not_count() {
    let pool = || json!({"w": {"text": "light rain"}});
    let held = condition("string_contains", json!("rain"));
    let absent =
        json!({"left": {"step_id": "gone", "name": "x"}, "operate": "string_equal", "right": {"value": "x"}});
    let unknown = condition("string_resembles", json!("rain"));
    for others in [vec![absent], vec![unknown], vec![json!({})], vec![]] {
        let conditions: Vec<Json> = [held.clone()].into_iter().chain(others).collect();
        assert_eq!(
            chosen(json!({"choices": [branch("b", conditions.clone())]}), pool()),
            "b",
            "{conditions:?}"
        );
    }
}

#[test]
fn one_of_several_is_enough_where_the_logic_is_or() {
    let mut either =
        branch("b", vec![condition("string_equal", json!("no")), condition("string_equal", json!("yes"))]);
    let pool = || json!({"w": {"text": "yes"}});
    assert_eq!(chosen(json!({"choices": [either.clone()]}), pool()), "");
    either["logic"] = json!("or");
    assert_eq!(chosen(json!({"choices": [either]}), pool()), "b");
}

#[test]
fn operands_are_steps_paths_and_selectors_on_both_sides() {
    let pool = || json!({"w": {"result": {"code": 200}, "want": 200}, "sys": {"query": "hi"}});
    for (left, operate, right) in [
        (
            json!({"step_id": "w", "name": "result/code"}),
            "number_equal",
            json!({"step_id": "w", "name": "want"}),
        ),
        (json!({"step_id": "w", "value": "w/result/code"}), "number_equal", json!({"value": 200.0})),
        (
            json!({"variable_selector": ["w", "result", "code"]}),
            "number_equal",
            json!({"selector": ["w", "want"]}),
        ),
        (
            json!({"step_id": "start", "name": "question"}),
            "string_equal",
            json!({"type": "string", "value": "hi"}),
        ),
    ] {
        let given = json!({"left": left, "operate": operate, "right": right});
        assert_eq!(chosen(json!({"choices": [branch("b", vec![given.clone()])]}), pool()), "b", "{given}");
    }
}

#[test]
fn a_list_of_the_original_format_is_tried_from_its_end() {
    let any = || vec![condition("string_not_equal", json!("x"))];
    let choices = json!([default(), branch("first", any()), branch("last", any())]);
    let pool = || json!({"w": {"text": "yes"}});
    assert_eq!(chosen(json!({"params": {"choices": choices}}), pool()), "last");
    assert_eq!(chosen(json!({"choices": choices}), pool()), "first");
}

#[test]
fn every_operator_compares_its_own_type() {
    let text = || json!("light");
    let list = || json!([1, "a", {"k": 1}]);
    let dict = || json!({"k": 1});
    for (name, left, right, expected) in [
        ("number_equal", json!(1), json!(1.0), Some(true)),
        ("number_not_equal", json!(1), json!(2), Some(true)),
        ("number_greater_than", json!(2), json!(1), Some(true)),
        ("number_greater_than_or_equal", json!(1), json!(1), Some(true)),
        ("number_less_than", json!(1), json!(1), Some(false)),
        ("number_less_than_or_equal", json!(1), json!(1), Some(true)),
        ("number_equal", json!(true), json!(1), None),
        ("number_equal", json!(1), json!("1"), None),
        ("string_equal", text(), json!("light"), Some(true)),
        ("string_not_equal", text(), json!("light"), Some(false)),
        ("string_contains", text(), json!("gh"), Some(true)),
        ("string_not_contains", text(), json!("gh"), Some(false)),
        ("string_starts_with", text(), json!("li"), Some(true)),
        ("string_ends_with", text(), json!("li"), Some(false)),
        ("string_length_equal", json!("äö"), json!(2), Some(true)),
        ("string_length_greater_than", text(), json!(4), Some(true)),
        ("string_length_greater_than_or_equal", text(), json!(5), Some(true)),
        ("string_length_less_than", text(), json!(5), Some(false)),
        ("string_length_less_than_or_equal", text(), json!(5), Some(true)),
        ("string_length_equal", text(), json!("5"), None),
        ("string_regex_match", text(), json!("l.*t$"), Some(true)),
        ("string_regex_match", text(), json!("ight"), Some(false)),
        ("string_regex_match", text(), json!("x|light"), Some(true)),
        ("string_regex_match", text(), json!("("), None),
        ("string_contains", json!(null), json!("x"), None),
        ("list_equal", list(), json!([1.0, "a", {"k": 1}]), Some(true)),
        ("list_not_equal", list(), json!([]), Some(true)),
        ("list_contains", list(), json!({"k": 1.0}), Some(true)),
        ("list_not_contains", list(), json!("b"), Some(true)),
        ("list_length_equal", list(), json!(3), Some(true)),
        ("list_length_greater_than", list(), json!(3), Some(false)),
        ("list_length_less_than_or_equal", list(), json!(3), Some(true)),
        ("list_equal", list(), json!("[]"), None),
        ("bool_equal", json!(true), json!(true), Some(true)),
        ("bool_not_equal", json!(true), json!(false), Some(true)),
        ("bool_equal", json!(1), json!(true), None),
        ("dict_equal", dict(), json!({"k": 1.0}), Some(true)),
        ("dict_not_equal", dict(), json!({}), Some(true)),
        ("dict_contains_key", dict(), json!("k"), Some(true)),
        ("dict_not_contains_key", dict(), json!("k"), Some(false)),
        ("dict_contains_key", dict(), json!(1), None),
    ] {
        let operator = Operator::from_name(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(operator.compare(&left, &right), expected, "{name} {left} {right}");
    }
    for name in
        ["bool_contains", "dict_length_equal", "string_matches", "number_contains", "equal", "", "text_equal"]
    {
        assert_eq!(Operator::from_name(name), None, "{name}");
    }
}

#[test]
fn ids_are_unique_texts_without_dots_and_one_branch_is_the_default() {
    let problems_of = |choices: Json| {
        let mut problems = Problems::new();
        assert!(ChoiceData::parse(json!({"choices": choices}).as_object().unwrap(), &mut problems).is_none());
        problems.into_vec().into_iter().filter(|p| p.is_error()).map(|p| p.path).collect::<Vec<_>>()
    };
    for (choices, path) in [
        (json!([branch("a", vec![]), branch("a", vec![])]), "choices[1]"),
        (json!([branch("a.b", vec![])]), "choices[0]"),
        (json!([{"branch_id": 1}]), "choices[0]"),
        (json!([default(), {"branch_id": "e", "is_default": true}]), "choices[1]"),
        (json!([{"branch_id": "a", "logic": "xor"}]), "choices[0]"),
        (json!("a"), "choices"),
    ] {
        assert_eq!(problems_of(choices.clone()), [path], "{choices}");
    }
}

#[test]
fn compared_variables_are_mentioned() {
    let mut mentions = Vec::new();
    let given = json!({"left": {"step_id": "w", "name": "a/b"}, "operate": "string_equal", "right": {"selector": ["n", "x"]}});
    parse(json!({"choices": [branch("b", vec![given])]})).mentions(&mut mentions);
    assert_eq!(mentions, [("w".into(), "a".into()), ("n".into(), "x".into())]);
}
