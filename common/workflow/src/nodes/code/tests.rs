//! Tables for the checks of a result: the returned value, the declaration, and Dify's answer.

use serde_json::{Value as Json, json};

use super::check::outputs;
use super::*;
use tidemill_base::value::pool::Pool;

fn parse(outputs: Json) -> CodeData {
    let data = json!({
        "code": "def main(): ...", "code_language": "python3", "outputs": outputs,
        "variables": [{"variable": "a", "value_selector": ["s", "a"]}, {"variable": "b", "value_selector": ["s", "b"]}],
    });
    let mut problems = Problems::new();
    let data = CodeData::parse(data.as_object().expect("a mapping"), &mut problems);
    data.unwrap_or_else(|| panic!("{:?}", problems.into_vec()))
}

/// The checked outputs, or `class: message`.
fn check(declared: Json, result: Json) -> Result<Json, String> {
    let Json::Object(result) = result else { panic!("a mapping") };
    let checked = outputs(result, &parse(declared).outputs, &CodeLimits::default());
    checked.map(Json::Object).map_err(|failure| format!("{}: {}", failure.error_type, failure.message))
}

/// A table for one declared output `r`: type, returned value, expected result.
fn table(rows: &[(&str, Json, Result<Json, &str>)]) {
    for (ty, value, wanted) in rows {
        let checked = check(json!({"r": {"type": ty, "children": null}}), json!({"r": value}));
        let wanted = wanted.clone().map(|value| json!({"r": value}));
        assert_eq!(checked, wanted.map_err(|text| format!("OutputValidationError: {text}")), "{ty}");
    }
}

#[test]
fn each_type_accepts_its_own_and_null_and_converts_little() {
    let same = |ty, value: Json| (ty, value.clone(), Ok(value));
    for ty in OutputType::ALL {
        table(&[(ty.name(), Json::Null, Ok(Json::Null))]);
    }
    table(&[
        ("string", json!("a\0b"), Ok(json!("ab"))),
        ("number", json!(true), Ok(json!(1))),
        same("number", json!(-1.5)),
        same("boolean", json!("x")),
        same("boolean", json!(5)),
        same("object", json!({"a": [null, "x", 1]})),
        same("object", json!({"nul": "a\0b"})),
        ("array[string]", json!(["a\0", null]), Ok(json!(["a", null]))),
        ("array[number]", json!([1, true, false, 2.5]), Ok(json!([1, 1, 0, 2.5]))),
        same("array[number]", json!([1e300])),
        same("array[object]", json!([{"a": 1}, null])),
        same("array[boolean]", json!([true, null])),
        same("array[string]", json!([])),
    ]);
}

#[test]
fn a_text_in_scientific_notation_is_a_number_only_where_a_number_is_declared() {
    table(&[
        ("string", json!("12e+3"), Ok(json!("12e+3"))),
        ("array[string]", json!(["1e-5"]), Ok(json!(["1e-5"]))),
        ("object", json!({"a": "1e+3"}), Ok(json!({"a": "1e+3"}))),
        ("number", json!("1e-07"), Ok(json!(1e-7))),
        ("array[number]", json!(["1e+3", 2]), Ok(json!([1000.0, 2]))),
        ("number", json!("1e5"), Err("Output r is not a number, got <class 'str'> instead.")),
    ]);
}

#[test]
fn a_wrong_type_is_named_in_python_words() {
    table(&[
        ("string", json!(5), Err("Output r must be a string, got int instead.")),
        ("string", json!(false), Err("Output r must be a string, got bool instead.")),
        ("number", json!("5"), Err("Output r is not a number, got <class 'str'> instead.")),
        ("object", json!([1]), Err("Output r is not an object, got <class 'list'> instead.")),
        ("array[string]", json!({}), Err("Output r is not an array, got <class 'dict'> instead.")),
        ("array[number]", json!(1.5), Err("Output r is not an array, got <class 'float'> instead.")),
        ("array[object]", json!("x"), Err("Output r is not an array, got <class 'str'> instead.")),
        ("array[boolean]", json!(true), Err("Output r is not an array, got <class 'bool'> instead.")),
        ("array[string]", json!(["a", 3]), Err("Output r[1] must be a string, got int instead.")),
        (
            "array[number]",
            json!([1, "b"]),
            Err("The element at index 1 of output variable `r` must be a number."),
        ),
        (
            "array[number]",
            json!([null]),
            Err("The element at index 0 of output variable `r` must be a number."),
        ),
        (
            "array[object]",
            json!([{}, 2]),
            Err("Output r[1] is not an object, got <class 'int'> instead at index 1."),
        ),
        ("array[boolean]", json!([true, 1]), Err("Output r[1] is not a boolean, got <class 'int'> instead.")),
    ]);
}

#[test]
fn limits_hold_at_the_number_itself_and_fail_one_beyond() {
    let same = |ty, value: Json| (ty, value.clone(), Ok(value));
    let range = "Output variable `r` is out of range, it must be between -9223372036854775807 and 9223372036854775807.";
    let precision = "Output variable `r` has too high precision, it must be less than 20 digits.";
    let few = "The length of output variable `r` must be less than 30 elements.";
    table(&[
        same("string", json!("é".repeat(400_000))),
        (
            "string",
            json!("\0".repeat(400_001)),
            Err("The length of output variable `r` must be less than 400000 characters"),
        ),
        same("array[string]", json!(vec!["x"; 30])),
        ("array[string]", json!(vec!["x"; 31]), Err(few)),
        ("array[object]", json!(vec![json!({}); 31]), Err(few)),
        same("array[number]", json!(vec![1; 1000])),
        (
            "array[number]",
            json!(vec![1; 1001]),
            Err("The length of output variable `r` must be less than 1000 elements."),
        ),
        same("array[boolean]", json!(vec![true; 2000])),
        same("object", json!({"l": vec!["x"; 500]})),
        same("number", json!(i64::MAX)),
        ("number", json!(i64::MIN), Err(range)),
        ("number", json!(9_223_372_036_854_775_808_u64), Err(range)),
        ("number", json!(9_223_372_036_854_775_808.0), Err(range)),
        ("number", json!(f64::MAX), Err(range)),
        same("number", json!(1e-20)),
        ("number", json!(1e-21), Err(precision)),
        ("number", json!(1.2345678e-15), Err(precision)),
        same("number", json!(1e16)),
        same("number", json!(0.0)),
        same("number", json!(0.30000000000000004)),
    ]);
}

#[test]
fn the_result_has_the_declared_keys_and_no_others() {
    let two = json!({"a": {"type": "string"}, "b": {"type": "number"}});
    assert_eq!(check(two.clone(), json!({"b": 1, "a": "x"})).unwrap().to_string(), r#"{"a":"x","b":1}"#);
    assert_eq!(
        check(two.clone(), json!({"b": 1})),
        Err("OutputValidationError: Output a is missing.".into())
    );
    let surplus = Err("CodeNodeError: Not all output parameters are validated.".into());
    assert_eq!(check(two, json!({"a": "x", "b": 1, "c": 2})), surplus);
    assert_eq!(check(json!({}), json!({})), Ok(json!({})));
    assert_eq!(check(json!({}), json!({"a": 1})), surplus);
}

#[test]
fn children_are_checked_as_outputs_are() {
    let object =
        json!({"r": {"type": "object", "children": {"a": {"type": "number"}, "b": {"type": "string"}}}});
    let list = json!({"r": {"type": "array[object]", "children": {"k": {"type": "number"}}}});
    for (declared, value, wanted) in [
        (&object, json!({"a": true, "b": "x\0"}), Ok(json!({"a": 1, "b": "x"}))),
        (&object, json!({"a": 1}), Err("OutputValidationError: Output r.b is missing.")),
        (
            &object,
            json!({"a": 1, "b": "", "c": 2}),
            Err("CodeNodeError: Not all output parameters are validated."),
        ),
        (&list, json!([{"k": 1}, null]), Ok(json!([{"k": 1}, null]))),
        (
            &list,
            json!([{"k": 1}, {"k": "2"}]),
            Err("OutputValidationError: Output r[1].k is not a number, got <class 'str'> instead."),
        ),
        (
            &list,
            json!([{"k": "2"}, 5]),
            Err("OutputValidationError: Output r[1] is not an object, got <class 'int'> instead at index 1."),
        ),
    ] {
        let checked = check(declared.clone(), json!({"r": value}));
        assert_eq!(checked, wanted.map(|value| json!({"r": value})).map_err(str::to_owned));
    }
}

#[test]
fn undeclared_values_are_checked_by_their_first_item_and_to_a_depth() {
    let deep = "DepthLimitError: Depth limit 5 reached, object too deep.";
    let mixed = "OutputValidationError: Output r.l is not a valid array. make sure all elements are of the same type.";
    for (value, wanted) in [
        (json!({"a": {"b": {"c": {"d": 1}}}}), Ok(())),
        (json!({"a": {"b": {"c": {"d": {}}}}}), Err(deep)),
        (json!({"a": {"b": [{"c": [{}]}]}}), Ok(())),
        (json!({"a": {"b": [{"c": [{"d": [{}]}]}]}}), Err(deep)),
        (json!({"l": [1, "a"]}), Err(mixed)),
        (json!({"l": ["a", 1]}), Err(mixed)),
        (json!({"l": [{}, 1]}), Err(mixed)),
        (json!({"l": [[1], 1]}), Err(mixed)),
        (json!({"l": [1, true, null]}), Ok(())),
        (json!({"l": [[1], [2]]}), Err("WorkflowNodeError: 'list' object has no attribute 'items'")),
        (
            json!({"l": [{"x": ["y".repeat(400_001)]}]}),
            Err(
                "OutputValidationError: The length of output variable `r.l[0].x[0]` must be less than 400000 characters",
            ),
        ),
    ] {
        let checked = check(json!({"r": {"type": "object"}}), json!({"r": value}));
        assert_eq!(checked.map(drop), wanted.map_err(str::to_owned), "{value}");
    }
}

#[test]
fn inputs_are_null_for_missing_variables_and_files_are_passed_only_as_lists() {
    let file = json!({"dify_model_identity": "__dify__file__", "filename": "f"});
    let data = parse(json!({}));
    let mentions = |data: &CodeData| {
        let mut all = Vec::new();
        data.mentions(&mut all);
        all
    };
    assert_eq!(mentions(&data), [("s".to_string(), "a".to_string()), ("s".into(), "b".into())]);
    let inputs = data.inputs(&Pool::new(json!({"s": {"a": 1.0}}))).unwrap();
    assert_eq!(inputs_json(&inputs), r#"{"a":1.0,"b":null}"#);
    let typed = |ty, value| Pool::new(json!({"s": {}})).with("s", "a", Segment::new(ty, value));
    let inputs = |ty, value| data.inputs(&typed(ty, value)).map(|inputs| inputs_json(&inputs));
    assert_eq!(inputs(SegmentType::ArrayFile, json!([])), Ok(r#"{"a":null,"b":null}"#.into()));
    let listed = inputs(SegmentType::ArrayFile, json!([file.clone()])).unwrap();
    assert!(listed.contains(r#""filename":"f""#), "{listed}");
    let failure = inputs(SegmentType::File, file).unwrap_err();
    assert_eq!(
        (failure.error_type.as_str(), failure.message.as_str()),
        ("WorkflowNodeError", "Type is not JSON serializable: File")
    );
}

#[test]
fn a_placeholder_in_the_code_is_filled_as_well() {
    assert_eq!(filled("x = '{{inputs}}'", || "e30=".into()), "x = 'e30='");
    assert_eq!(filled("x = 1", || "e30=".into()), "x = 1");
}
