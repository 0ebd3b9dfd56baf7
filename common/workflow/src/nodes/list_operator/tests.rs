use serde_json::json;

use super::*;
use tidemill_base::value::pool::Pool;

fn parse(data: &Json) -> Result<ListOperatorData, Vec<String>> {
    let mut problems = Problems::new();
    let parsed = ListOperatorData::parse(data.as_object().expect("a mapping"), &mut problems);
    parsed.ok_or_else(|| {
        problems.into_vec().into_iter().map(|found| format!("{}: {}", found.path, found.message)).collect()
    })
}

/// A node's data with all parts off, except the given ones.
fn data(name: &str, parts: Json) -> Json {
    let mut data = json!({
        "variable": ["start", name], "filter_by": {"enabled": false, "conditions": []},
        "order_by": {"enabled": false}, "limit": {"enabled": false},
    });
    for (key, part) in parts.as_object().expect("a mapping") {
        data[key] = part.clone();
    }
    data
}

fn pool() -> Pool {
    let file = |name: &str, kind: &str, size: i64, url: Option<&str>| {
        json!({"dify_model_identity": "__dify__file__", "type": kind, "transfer_method": "remote_url",
               "filename": name, "remote_url": url, "size": size})
    };
    Pool::new(json!({"start": {
        "words": ["banana", "fig", "", "apple", "fig tree"],
        "numbers": [2.5, 11, 0, 3],
        "flags": [true, false, true],
        "files": [
            file("b.txt", "document", 10, Some("http://x/b")),
            file("a.png", "image", 99, None),
            file("c.txt", "document", 10, Some("http://x/c")),
        ],
        "objects": [{"a": 1}], "mixed": [1, "a"], "text": "abc", "zero": 0, "null": null, "empty": "",
        "nested": {"text": "x"}, "needle": "fig", "two": " 2 ",
    }}))
    .with("start", "no_files", Segment::new(SegmentType::ArrayFile, json!([])))
    .with("env", "secret", Segment::new(SegmentType::Secret, json!("abcdefghijkl")))
}

fn run(name: &str, parts: Json) -> NodeResult {
    parse(&data(name, parts)).expect("usable").evaluate(&pool())
}

/// The result in short: the list (names of files), or class and text of the failure.
fn shown(result: NodeResult) -> Json {
    if let Some(failure) = result.failure {
        assert_eq!(result.outputs, []);
        assert_eq!(result.inputs.is_empty(), result.process_data.is_empty());
        // An exception keeps no inputs.
        assert!(failure.error_type.is_empty() || result.inputs.is_empty());
        return json!(format!("{}|{}", failure.error_type, failure.message));
    }
    let items = result.outputs[0].1.value.as_array().expect("a list").clone();
    Json::Array(items.into_iter().map(|item| item.get("filename").cloned().unwrap_or(item)).collect())
}

fn filtered(name: &str, key: &str, operator: &str, value: Json) -> Json {
    let condition = json!({"key": key, "comparison_operator": operator, "value": value});
    shown(run(name, json!({"filter_by": {"enabled": true, "conditions": [condition]}})))
}

#[test]
fn texts_are_filtered_by_their_content() {
    for (operator, value, left) in [
        ("contains", json!("an"), json!(["banana"])),
        ("contains", json!("{{#start.needle#}}"), json!(["fig", "fig tree"])),
        ("not contains", json!("a"), json!(["fig", "", "fig tree"])),
        ("start with", json!("fig"), json!(["fig", "fig tree"])),
        ("end with", json!("e"), json!(["apple", "fig tree"])),
        ("is", json!("fig"), json!(["fig"])),
        ("is not", json!("fig"), json!(["banana", "", "apple", "fig tree"])),
        ("in", json!("a fig a day"), json!(["fig", ""])),
        ("not in", json!("a fig a day"), json!(["banana", "apple", "fig tree"])),
        ("empty", json!("ignored"), json!([""])),
        ("not empty", json!(""), json!(["banana", "fig", "apple", "fig tree"])),
        (">", json!("1"), json!("|Invalid condition: >")),
        ("in", json!(["a", "b'c"]), json!("|Invalid filter value: ['a', \"b'c\"]")),
        ("is", json!(true), json!("|Invalid filter value: True")),
    ] {
        assert_eq!(filtered("words", "", operator, value.clone()), left, "{operator} {value}");
    }
}

#[test]
fn numbers_are_compared_as_python_reads_them() {
    for (operator, value, left) in [
        ("=", json!("2.50"), json!([2.5])),
        ("≠", json!("0"), json!([2.5, 11, 3])),
        ("<", json!(" 3 "), json!([2.5, 0])),
        (">", json!("{{#start.two#}}"), json!([2.5, 11, 3])),
        ("≥", json!("3"), json!([11, 3])),
        ("≤", json!("1_0"), json!([2.5, 0, 3])),
        ("is", json!("3"), json!("|Invalid condition: is")),
        ("=", json!(""), json!("WorkflowNodeError|could not convert string to float: ''")),
        ("is", json!("x"), json!("WorkflowNodeError|could not convert string to float: 'x'")),
        ("=", json!(["3"]), json!("|Invalid filter value: ['3']")),
        (
            "=",
            json!("{{#env.secret#}}"),
            json!("WorkflowNodeError|could not convert string to float: 'abcdef************kl'"),
        ),
    ] {
        assert_eq!(filtered("numbers", "", operator, value.clone()), left, "{operator} {value}");
    }
}

#[test]
fn truth_values_know_two_operators() {
    for (operator, value, left) in [
        ("is", json!(true), json!([true, true])),
        ("is not", json!(true), json!([false])),
        ("=", json!(true), json!("|Invalid condition: =")),
        (
            "is",
            json!("true"),
            json!("WorkflowNodeError|Boolean filter expects a boolean value, got <class 'str'>"),
        ),
        (
            "=",
            json!([]),
            json!("WorkflowNodeError|Boolean filter expects a boolean value, got <class 'list'>"),
        ),
    ] {
        assert_eq!(filtered("flags", "", operator, value.clone()), left, "{operator} {value}");
    }
}

#[test]
fn files_are_filtered_by_their_attributes() {
    for (key, operator, value, left) in [
        ("name", "end with", json!(".txt"), json!(["b.txt", "c.txt"])),
        ("url", "empty", json!(""), json!(["a.png"])),
        ("related_id", "is", json!(""), json!(["b.txt", "a.png", "c.txt"])),
        ("type", "in", json!(["image"]), json!(["a.png"])),
        ("type", "not in", json!(["image", "{{#x.y#}}"]), json!(["b.txt", "c.txt"])),
        ("type", "in", json!("documents"), json!(["b.txt", "c.txt"])),
        ("type", "is", json!("image"), json!("|Invalid condition: is")),
        ("size", ">", json!("10"), json!(["a.png"])),
        ("size", "is", json!("10"), json!("|Invalid condition: is")),
        ("size", "=", json!("x"), json!("WorkflowNodeError|could not convert string to float: 'x'")),
        ("size", "=", json!(["1"]), json!("|Invalid key: size")),
        ("name", "=", json!("1"), json!("|Invalid condition: =")),
        ("name", "in", json!(["b.txt"]), json!("|Invalid key: name")),
        ("color", "is", json!("x"), json!("|Invalid key: color")),
        (
            "name",
            "is",
            json!(true),
            json!("WorkflowNodeError|File filter expects a string value, got <class 'bool'>"),
        ),
    ] {
        assert_eq!(filtered("files", key, operator, value.clone()), left, "{key} {operator} {value}");
    }
}

#[test]
fn conditions_are_applied_in_turn_and_an_empty_list_is_not_tested_further() {
    let conditions = json!([
        {"key": "name", "comparison_operator": "is", "value": "nothing"},
        {"key": "type", "comparison_operator": "is", "value": "x"},
        {"key": "size", "comparison_operator": "=", "value": "no number"},
    ]);
    let by = |conditions: Json| json!({"filter_by": {"enabled": true, "conditions": conditions}});
    assert_eq!(shown(run("files", by(conditions))), json!([]));
    let both = json!([
        {"comparison_operator": "contains", "value": "fig"}, {"comparison_operator": "is not", "value": "fig"},
    ]);
    assert_eq!(shown(run("words", by(both))), json!(["fig tree"]));
}

#[test]
fn one_item_is_picked_by_its_number() {
    for (serial, left) in [
        ("1", json!(["banana"])),
        ("{{#start.two#}}", json!(["fig"])),
        ("5", json!(["fig tree"])),
        ("9", json!("|Invalid serial index: must be <= 5, got 9")),
        ("0", json!("WorkflowNodeError|Invalid serial index: must be >= 1, got 0")),
        ("-1", json!("WorkflowNodeError|Invalid serial index: must be >= 1, got -1")),
        ("1.5", json!("WorkflowNodeError|invalid literal for int() with base 10: '1.5'")),
    ] {
        let parts = json!({"extract_by": {"enabled": true, "serial": serial}});
        assert_eq!(shown(run("words", parts)), left, "{serial}");
    }
}

#[test]
fn lists_are_sorted_and_equals_keep_their_order() {
    for (name, key, direction, left) in [
        ("words", "", "asc", json!(["", "apple", "banana", "fig", "fig tree"])),
        ("numbers", "", "desc", json!([11, 3, 2.5, 0])),
        ("flags", "", "asc", json!([false, true, true])),
        ("files", "size", "asc", json!(["b.txt", "c.txt", "a.png"])),
        ("files", "size", "desc", json!(["a.png", "b.txt", "c.txt"])),
        ("files", "name", "asc", json!(["a.png", "b.txt", "c.txt"])),
        ("files", "url", "desc", json!(["c.txt", "b.txt", "a.png"])),
        ("files", "type", "desc", json!(["a.png", "b.txt", "c.txt"])),
        ("files", "color", "asc", json!("|Invalid order key: color")),
    ] {
        let parts = json!({"order_by": {"enabled": true, "key": key, "value": direction}});
        assert_eq!(shown(run(name, parts)), left, "{name} {key} {direction}");
    }
}

#[test]
fn a_limit_counts_from_the_front_or_off_the_end() {
    for (size, left) in [
        (json!(0), json!([])),
        (json!(2), json!(["banana", "fig"])),
        (json!("1"), json!(["banana"])),
        (json!(99), json!(["banana", "fig", "", "apple", "fig tree"])),
        (json!(-1), json!(["banana", "fig", "", "apple"])),
        (json!(-9), json!([])),
    ] {
        assert_eq!(shown(run("words", json!({"limit": {"enabled": true, "size": size}}))), left, "{size}");
    }
}

#[test]
fn steps_follow_one_another_filter_extract_sort_limit() {
    let result = run(
        "words",
        json!({
            "filter_by": {"enabled": true, "conditions": [{"comparison_operator": "not empty"}]},
            "order_by": {"enabled": true, "value": "desc"},
            "limit": {"enabled": true, "size": 2},
        }),
    );
    let outputs: Vec<_> = result.outputs.iter().map(|(name, s)| (name.as_str(), s.value.clone())).collect();
    assert_eq!(
        outputs,
        [
            ("result", json!(["fig tree", "fig"])),
            ("first_record", json!("fig tree")),
            ("last_record", json!("fig")),
        ]
    );
    assert_eq!(result.inputs[0].1.value, result.process_data["variable"]);
    assert_eq!(result.inputs[0].1.value.as_array().map(Vec::len), Some(5));
    let picked =
        json!({"extract_by": {"enabled": true, "serial": "3"}, "limit": {"enabled": true, "size": 0}});
    let nothing = run("words", picked);
    assert_eq!(nothing.outputs[0].1, Segment::new(SegmentType::ArrayString, json!([])));
    assert_eq!(nothing.outputs[1].1, Segment::none());
}

#[test]
fn empty_values_are_an_empty_list_and_other_types_are_refused() {
    for (name, ty) in [
        ("no_files", SegmentType::ArrayFile),
        ("empty", SegmentType::ArrayAny),
        ("zero", SegmentType::ArrayAny),
        ("null", SegmentType::ArrayAny),
    ] {
        let result = run(name, json!({"extract_by": {"enabled": true, "serial": "7"}}));
        assert_eq!(result.outputs[0].1, Segment::new(ty, json!([])), "{name}");
        assert_eq!((&result.inputs[0].1.value, &result.process_data["variable"]), (&json!([]), &json!([])));
    }
    let classed = |class: &str, named: &str| {
        format!("|Variable {named} is not an array type, actual type: <class 'graphon.variables.{class}'>")
    };
    for (name, class) in [
        ("text", "variables.StringVariable"),
        ("objects", "variables.ArrayObjectVariable"),
        ("mixed", "variables.ArrayAnyVariable"),
    ] {
        assert_eq!(shown(run(name, json!({}))), json!(classed(class, &format!("['start', '{name}']"))));
    }
    let nested = run("nested", json!({"variable": ["start", "nested", "text"]}));
    assert_eq!(shown(nested), json!(classed("segments.StringSegment", "['start', 'nested', 'text']")));
    let missing = run("ghost", json!({}));
    assert_eq!(shown(missing), json!("|Variable not found for selector: ['start', 'ghost']"));
    assert_eq!(shown(run("x", json!({"variable": []}))), json!("|Variable not found for selector: []"));
}

#[test]
fn every_mistake_of_the_file_is_reported_at_its_place() {
    let found = parse(&json!({
        "variable": "start.x",
        "filter_by": {"enabled": "perhaps", "conditions": [
            {"comparison_operator": "regex match"}, {"key": 1, "value": 5},
        ]},
        "order_by": {"value": "down"}, "extract_by": {"serial": 1},
    }))
    .expect_err("mistakes");
    let places: Vec<&str> = found.iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(
        places,
        [
            "variable",
            "filter_by.enabled",
            "filter_by.conditions[0].comparison_operator",
            "filter_by.conditions[1].key",
            "filter_by.conditions[1].value",
            "order_by.value",
            "limit",
            "extract_by.serial",
        ],
        "{found:?}"
    );
}

#[test]
fn templates_and_the_list_are_mentioned() {
    let data = data(
        "words",
        json!({
            "filter_by": {"enabled": true, "conditions": [{"value": "{{#a.b#}}"}, {"value": ["{{#c.d#}}"]}]},
            "extract_by": {"enabled": true, "serial": "{{#e.f#}}"},
        }),
    );
    let mut found = Vec::new();
    parse(&data).expect("usable").mentions(&mut found);
    let own = |node: &str, name: &str| (node.to_string(), name.to_string());
    assert_eq!(found, [own("start", "words"), own("a", "b"), own("e", "f")]);
}
