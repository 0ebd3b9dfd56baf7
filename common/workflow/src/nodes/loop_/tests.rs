use serde_json::{Value as Json, json};

use super::super::parse::tests::paths_of;
use super::*;
use crate::nodes::condition::tests::Pool;

fn config(conditions: Json, variables: Json) -> Json {
    json!({
        "start_node_id": "s", "loop_count": "3", "logical_operator": "and",
        "break_conditions": conditions, "loop_variables": variables,
    })
}

fn loop_of(conditions: Json, variables: Json) -> LoopData {
    let mut problems = Problems::new();
    let read = LoopData::parse(config(conditions, variables).as_object().unwrap(), &mut problems);
    read.unwrap_or_else(|| panic!("{:?}", problems.into_vec()))
}

fn variable(label: &str, ty: &str, source: &str, value: Json) -> Json {
    json!({"id": "x", "label": label, "var_type": ty, "value_type": source, "value": value})
}

fn condition(selector: [&str; 2], operator: &str, value: &str) -> Json {
    json!([{"id": "c", "varType": "string", "variable_selector": selector, "comparison_operator": operator, "value": value}])
}

/// The initial value of a constant, or the loop's error.
fn constant(ty: &str, value: Json) -> Result<Segment, String> {
    let opened =
        loop_of(json!([]), json!([variable("v", ty, "constant", value)])).open("lp", &Pool::new(json!({})));
    match opened.failure {
        Some(failure) => {
            assert_eq!((failure.error_type.as_str(), opened.inputs), ("WorkflowNodeError", vec![]));
            Err(failure.message)
        }
        None => Ok(opened.outputs[0].1.clone()),
    }
}

#[test]
fn each_wrong_field_is_reported_at_its_path() {
    let check = |data: &JsonMap, problems: &mut Problems| {
        let read = LoopData::parse(data, problems);
        assert_eq!(read.is_none(), problems.has_errors());
    };
    let right = config(json!([]), json!([variable("n", "number", "constant", json!(1))]));
    assert_eq!(paths_of(check, right.clone()), Vec::<String>::new());
    for (key, value, path) in [
        ("start_node_id", json!(null), "start_node_id"),
        ("start_node_id", json!(""), "start_node_id"),
        ("loop_count", json!(0), "loop_count"),
        ("logical_operator", json!("xor"), "logical_operator"),
        ("break_conditions", json!(null), "break_conditions"),
        ("break_conditions", json!([5]), "break_conditions[0]"),
        ("loop_variables", json!(5), "loop_variables"),
        ("loop_variables", json!([5]), "loop_variables[0]"),
    ] {
        let mut data = right.clone();
        data[key] = value;
        assert_eq!(paths_of(check, data), [path]);
    }
    let mut data = right;
    data["loop_variables"][0] = json!({"label": 1, "var_type": "file", "value_type": "mixed"});
    let wrong = ["label", "var_type", "value_type"].map(|key| format!("loop_variables[0].{key}"));
    assert_eq!(paths_of(check, data), wrong);
    assert_eq!(
        paths_of(check, json!({"start_node_id": "s"})),
        ["loop_count", "logical_operator", "break_conditions"]
    );
}

#[test]
fn constants_that_fit_or_can_be_read_as_json_are_taken() {
    for (ty, given, value) in [
        ("string", json!("txt"), json!("txt")),
        ("string", json!("5"), json!("5")),
        ("string", json!(""), json!("")),
        ("number", json!(0), json!(0)),
        ("number", json!(1.5), json!(1.5)),
        ("number", json!("12"), json!(12)),
        ("boolean", json!(true), json!(true)),
        ("boolean", json!("true"), json!(true)),
        ("object", json!({"a": 1}), json!({"a": 1})),
        ("object", json!("{\"a\": [1]}"), json!({"a": [1]})),
        ("array[string]", json!("[\"q\"]"), json!(["q"])),
        ("array[number]", json!("[1, 2.5]"), json!([1, 2.5])),
        ("array[object]", json!("[{\"z\": 1}]"), json!([{"z": 1}])),
        ("array[string]", json!("[]"), json!([])),
        ("array[string]", json!(["lost"]), json!([])),
        ("array[number]", json!(""), json!([])),
        ("array[object]", json!(null), json!([])),
        ("array[boolean]", json!([true, false]), json!([true, false])),
        ("array[boolean]", json!("[true]"), json!([true])),
        ("array[boolean]", json!([]), json!([])),
    ] {
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        // An empty list has the declared type, so that only such items can be added.
        let ty_of_list = ty.parse::<SegmentType>().ok().filter(|_| is_empty);
        let expected =
            ty_of_list.map_or_else(|| Segment::infer(value.clone()), |ty| Segment::new(ty, value.clone()));
        assert_eq!(constant(ty, given.clone()), Ok(expected), "{ty} {given}");
    }
}

#[test]
fn constants_that_do_not_fit_fail_the_loop_in_the_words_of_dify() {
    for (ty, given, message) in [
        ("number", json!(true), "Type mismatch: expected number, but got boolean, value=True"),
        ("boolean", json!(1), "Type mismatch: expected boolean, but got integer, value=1"),
        ("string", json!(5), "Type mismatch: expected string, but got integer, value=5"),
        ("number", json!("five"), "Type mismatch: expected number, but got string, value=five"),
        ("number", json!("\"5\""), "Type mismatch: expected number, but got string, value=5"),
        ("number", json!("null"), "Type mismatch: expected number, but got None"),
        ("number", json!(null), "Type mismatch: expected number, but got None"),
        ("object", json!([]), "Type mismatch: expected object, but got empty list"),
        ("object", json!([1]), "Type mismatch: expected object, but got array[number], value=[1]"),
        (
            "array[string]",
            json!("[\"a\", 1]"),
            "Type mismatch: expected array[string], but got array[any], value=['a', 1]",
        ),
        ("array[string]", json!("abc"), "Expecting value: line 1 column 1 (char 0)"),
        ("array[number]", json!("[1,"), "Expecting value: line 1 column 4 (char 3)"),
        ("array[boolean]", json!("abc"), "Type mismatch: expected array[boolean], but got string, value=abc"),
        ("array[boolean]", json!(null), "Type mismatch: expected array[boolean], but got None"),
    ] {
        assert_eq!(constant(ty, given.clone()), Err(message.to_owned()), "{ty} {given}");
    }
}

#[test]
fn variables_are_copied_whatever_their_declared_type() {
    let pool = Pool::new(json!({"start": {"n": 4, "nul": null, "o": {"k": "deep"}}})).with(
        "start",
        "empty",
        Segment::new(SegmentType::ArrayString, json!([])),
    );
    let first = |value: Json| {
        let opened =
            loop_of(json!([]), json!([variable("v", "number", "variable", value)])).open("lp", &pool);
        opened.failure.map_or_else(|| Ok(opened.outputs[0].1.clone()), |failure| Err(failure.message))
    };
    let invalid = || Err("Invalid value for loop variable v".to_owned());
    for (selector, expected) in [
        (json!(["start", "n"]), Ok(Segment::infer(json!(4)))),
        (json!(["start", "nul"]), Ok(Segment::none())),
        (json!(["start", "o", "k"]), Ok(Segment::string("deep"))),
        (json!(["start", "empty"]), Ok(Segment::infer(json!([])))),
        (json!(["start", "gone"]), invalid()),
        (json!(["start"]), invalid()),
        (json!("start.n"), invalid()),
        (json!(null), invalid()),
        (json!(["start", 5]), invalid()),
    ] {
        assert_eq!(first(selector.clone()), expected, "{selector}");
    }
}

#[test]
fn opening_records_the_count_and_every_variable_and_later_ones_see_earlier_ones() {
    let data = loop_of(
        json!([]),
        json!([
            variable("n", "number", "constant", json!("7")),
            variable("again", "number", "variable", json!(["lp", "n"])),
        ]),
    );
    let opened = data.open("lp", &Pool::new(json!({"lp": {"n": "of an earlier run"}})));
    let named = |name: &str, value: i32| (name.to_owned(), Segment::infer(value.into()));
    assert_eq!(opened.outputs, [named("n", 7), named("again", 7)]);
    assert_eq!(opened.inputs, [named("loop_count", 3), named("n", 7), named("again", 7)]);
    assert_eq!((opened.failure, opened.handle.as_str()), (None, "source"));
    let mut mentions = Vec::new();
    let breaks = condition(["start", "a"], "is", "{{#start.b#}}");
    loop_of(breaks, json!([variable("v", "string", "variable", json!(["start", "c", "k"]))]))
        .mentions(&mut mentions);
    let names: Vec<_> = mentions.iter().map(|(node, name)| format!("{node}.{name}")).collect();
    assert_eq!(names, ["start.c", "start.a", "start.b"]);
}

#[test]
fn break_conditions_are_lenient_before_the_first_round_and_strict_after() {
    let pool = Pool::new(json!({"s": {"n": 5, "t": "text", "b": true}, "lp": {"k": 7}}));
    // Handle or error before a round, handle or error after it.
    type Seen = Result<&'static str, (&'static str, &'static str)>;
    let rows: [(Json, Seen, Seen); 8] = [
        (json!([]), Ok("source"), Ok("source")),
        (condition(["lp", "k"], ">", "1"), Ok("break"), Ok("break")),
        (condition(["lp", "k"], ">", "9"), Ok("source"), Ok("source")),
        (condition(["ghost", "v"], "is", "x"), Ok("source"), Err(("", "Variable ['ghost', 'v'] not found"))),
        (condition(["lp", "k"], ">", "many"), Ok("source"), Err(("", "Cannot convert 'many' to number"))),
        (condition(["s", "t"], ">", "1"), Ok("source"), Err(("", "Invalid actual value type: number"))),
        (
            condition(["s", "n"], "start with", "5"),
            Err(("TypeError", "Invalid actual value type: string")),
            Err(("", "Invalid actual value type: string")),
        ),
        (
            condition(["s", "b"], "is", "1.5"),
            Err(("TypeError", "unexpected value: type=<class 'str'>, value=1.5")),
            Err(("", "unexpected value: type=<class 'str'>, value=1.5")),
        ),
    ];
    for (conditions, before, after) in rows {
        let data = loop_of(conditions.clone(), json!([variable("k", "number", "constant", json!(7))]));
        for (result, expected) in [(data.open("lp", &pool), before), (data.check(&pool), after)] {
            match expected {
                Ok(handle) => assert_eq!((result.failure, result.handle.as_str()), (None, handle)),
                Err((class, message)) => {
                    assert_eq!(result.failure, Some(NodeFailure::new(class, message)), "{conditions}");
                    assert_eq!((result.inputs, result.outputs), (vec![], vec![]));
                }
            }
        }
    }
}
