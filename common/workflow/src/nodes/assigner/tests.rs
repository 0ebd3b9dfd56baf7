use super::*;
use crate::nodes::VariableUpdate;
use crate::nodes::condition::tests::Pool;
use serde_json::{Value as Json, json};
use tidemill_base::value::SegmentType;

fn parse(data: &Json) -> Result<AssignerData, Vec<(String, String)>> {
    let mut problems = Problems::new();
    let parsed = AssignerData::parse(data.as_object().expect("a mapping"), &mut problems);
    assert_eq!(parsed.is_none(), problems.has_errors());
    parsed.ok_or_else(|| problems.into_vec().into_iter().map(|p| (p.path, p.message)).collect())
}

fn run(data: Json, pool: &Pool) -> NodeResult {
    parse(&data).expect("usable data").evaluate(pool)
}

fn pool() -> Pool {
    let own = json!({"count": 3, "ratio": 1.5, "note": "hello", "prefs": {"a": 1}, "on": false, "tags": ["x", "y"],
                     "nums": [1, 2], "objs": [{"k": 1}], "flags": [true]});
    let source = json!({"s": "hi!", "n": 40, "o": {"b": [1]}, "l": ["p", "q"], "ln": [7, 8.5], "lo": [{"z": 1}],
                        "b": true, "nul": null, "nested": [[1]]});
    Pool::new(json!({"conversation": own, "src": source}))
        .with("conversation", "bag", Segment::new(SegmentType::ArrayString, json!([])))
        .with("env", "KEY", Segment::new(SegmentType::Secret, json!("sk-12345678901234567890")))
}

/// `["count", "+=", 2]` is a constant; `["tags", "append", "@src.s"]` a variable.
fn items(short: Json) -> Json {
    let item = |item: &Json| {
        let target = item[0].as_str().expect("a target").split('.').collect::<Vec<_>>();
        let target = if target.len() == 1 { vec!["conversation", target[0]] } else { target };
        let (input, value) = match item.get(2) {
            None => ("variable", Json::Null),
            Some(Json::String(text)) if text.starts_with('@') => {
                ("variable", json!(text[1..].split('.').collect::<Vec<_>>()))
            }
            Some(constant) => ("constant", constant.clone()),
        };
        json!({"variable_selector": target, "input_type": input, "operation": item[1], "value": value, "write_mode": "over-write"})
    };
    json!({"type": "assigner", "version": "2", "title": "T",
           "items": short.as_array().expect("a list").iter().map(item).collect::<Vec<_>>()})
}

fn update(name: &str, ty: SegmentType, value: Json) -> VariableUpdate {
    let (node, name, value) = ("conversation".into(), name.into(), Segment::new(ty, value));
    VariableUpdate { node, name, value, changes: None }
}

/// The updates without the operations that made them.
fn whole(result: &NodeResult) -> Vec<VariableUpdate> {
    result.updates.iter().map(|it| VariableUpdate { changes: None, ..it.clone() }).collect()
}

#[test]
fn a_result_lists_the_operations_on_each_variable_unless_one_replaces_it() {
    type Changes = Option<Vec<(&'static str, Json)>>;
    let named = |result: NodeResult| -> Vec<(String, Changes)> {
        let one = |it: VariableChange| (it.kind.name(), it.operand.value);
        let of = |update: VariableUpdate| {
            (update.name, update.changes.map(|changes| changes.into_iter().map(one).collect()))
        };
        result.updates.into_iter().map(of).collect()
    };
    let two = run(
        items(json!([
            ["tags", "append", "@src.s"],
            ["count", "+=", 2],
            ["tags", "remove-first"],
            ["nums", "append", "@src.n"],
            ["nums", "clear"],
            ["nums", "append", "@src.n"],
            ["note", "set", "x"]
        ])),
        &pool(),
    );
    let tags = vec![("append", json!("hi!")), ("remove-first", Json::Null)];
    let expected = [
        ("tags".into(), Some(tags)),
        ("count".into(), Some(vec![("+=", json!(2))])),
        ("nums".into(), None),
        ("note".into(), None),
    ];
    assert_eq!(named(two), expected);
    let one = |mode| run(single(json!(["conversation", "tags"]), mode, json!(["src", "s"])), &pool());
    assert_eq!(named(one("append")), [("tags".into(), Some(vec![("append-any", json!("hi!"))]))]);
    assert_eq!(named(one("clear")), [("tags".into(), None)]);
}

#[test]
fn items_see_each_other_and_every_target_is_written_once() {
    let result = run(
        items(json!([
            ["count", "+=", 2],
            ["ratio", "/=", 4],
            ["count", "*=", 4],
            ["count", "-=", 1],
            ["count", "over-write", "@src.n"],
            ["ratio", "+=", 1],
            ["count", "+=", 0.5],
            ["tags", "append", "@conversation.note"]
        ])),
        &pool(),
    );
    assert_eq!(result.failure, None);
    // The variable keeps its type although its value now has a fraction.
    let expected = [
        update("count", SegmentType::Integer, json!(40.5)),
        update("ratio", SegmentType::Float, json!(1.375)),
        update("tags", SegmentType::ArrayString, json!(["x", "y", "hello"])),
    ];
    assert_eq!(whole(&result), expected);
    assert_eq!((result.outputs.len(), result.handle.as_str()), (0, "source"));
    let record = json!({"count": 40.5, "ratio": 1.375, "tags": ["x", "y", "hello"], "__updated_variables": [
        {"name": "count", "selector": ["conversation", "count"], "value_type": "integer", "new_value": 40.5},
        {"name": "ratio", "selector": ["conversation", "ratio"], "value_type": "float", "new_value": 1.375},
        {"name": "tags", "selector": ["conversation", "tags"], "value_type": "array[string]", "new_value": ["x", "y", "hello"]},
    ]});
    assert_eq!(Json::Object(result.process_data), record);
}

#[test]
fn every_operation_does_what_its_name_says() {
    for (item, name, expected) in [
        (json!(["prefs", "set", "{\"c\": [true, null]}"]), "prefs", json!({"c": [true, null]})),
        (json!(["prefs", "over-write", {"d": 1}]), "prefs", json!({"d": 1})),
        (json!(["prefs", "over-write", "@src.o"]), "prefs", json!({"b": [1]})),
        (json!(["on", "set", true]), "on", json!(true)),
        (json!(["on", "clear"]), "on", json!(false)),
        (json!(["count", "clear"]), "count", json!(0)),
        (json!(["ratio", "clear"]), "ratio", json!(0.0)),
        (json!(["count", "set", true]), "count", json!(true)),
        (json!(["note", "set", "{{#src.s#}}"]), "note", json!("{{#src.s#}}")),
        (json!(["tags", "clear"]), "tags", json!([])),
        (json!(["tags", "extend", "@src.l"]), "tags", json!(["x", "y", "p", "q"])),
        (json!(["nums", "over-write", "@src.ln"]), "nums", json!([7, 8.5])),
        (json!(["nums", "append", "@src.b"]), "nums", json!([1, 2, true])),
        (json!(["objs", "append", "@src.o"]), "objs", json!([{"k": 1}, {"b": [1]}])),
        (json!(["nums", "remove-first"]), "nums", json!([2])),
        (json!(["nums", "remove-last"]), "nums", json!([1])),
        (json!(["bag", "remove-first"]), "bag", json!([])),
        (json!(["bag", "remove-last"]), "bag", json!([])),
    ] {
        let result = run(items(json!([item])), &pool());
        assert_eq!(result.failure, None, "{item}");
        let updates: Vec<_> = result.updates.into_iter().map(|u| (u.name, u.value.value)).collect();
        assert_eq!(updates, [(name.to_owned(), expected)], "{item}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_refused_with_difys_message_and_nothing_is_written() {
    for (item, message) in [
        (json!(["nope", "set", 1]), "Variable ['conversation', 'nope'] not found"),
        (json!(["src.o.b", "clear"]), "Variable ['src', 'o', 'b'] not found"),
        (json!(["note", "+=", "x"]), "Operation += is not supported for type string"),
        (json!(["tags", "set", 1]), "Operation set is not supported for type array[string]"),
        (json!(["count", "+=", "@src.n"]), "Input type variable is not supported for operation +="),
        (json!(["tags", "over-write", []]), "Input type constant is not supported for operation over-write"),
        (json!(["tags", "clear", "x"]), "Input type constant is not supported for operation clear"),
        (json!(["note", "over-write", "@ghost.x"]), "Variable ['ghost', 'x'] not found"),
        (json!(["note", "over-write", "@"]), "Variable [''] not found"),
        (json!(["note", "over-write"]), "Invalid input value None"),
        (json!(["count", "/=", 0]), "Invalid input value 0"),
        (json!(["count", "+=", "1"]), "Invalid input value 1"),
        (json!(["tags", "append", "@src.n"]), "Invalid input value 40"),
        (json!(["nums", "extend", "@src.l"]), "Invalid input value ['p', 'q']"),
        (json!(["prefs", "set", "{not json"]), "Invalid input value {not json"),
        (json!(["prefs", "set", "[1]"]), "Invalid input value [1]"),
        (json!(["prefs", "over-write", "{}"]), "Invalid input value {}"),
        (json!(["env.KEY", "over-write", "@src.s"]), "Invalid input value hi!"),
        (json!(["env.KEY", "set", "x"]), "Operation set is not supported for type secret"),
    ] {
        let data = items(json!([["count", "+=", 1], item]));
        let result = run(data.clone(), &pool());
        assert_eq!(result.failure, Some(NodeFailure::new("", message)), "{item}");
        assert_eq!((result.updates.len(), result.process_data.len()), (0, 0));
        assert!(result.inputs.iter().any(|(name, _)| name == "items"));
    }
    let escaped = run(items(json!([["env.KEY", "clear"]])), &pool());
    assert_eq!(escaped.failure, Some(NodeFailure::escaped("unsupported variable type: secret")));
    assert!(escaped.inputs.is_empty());
}

#[test]
fn a_null_source_skips_its_item() {
    let result = run(items(json!([["note", "over-write", "@src.nul"], ["count", "+=", 1]])), &pool());
    assert_eq!(result.failure, None);
    assert_eq!(whole(&result), [update("count", SegmentType::Integer, json!(4))]);
}

#[test]
fn a_value_of_another_kind_than_the_variables_type_fails_without_a_panic() {
    let text = || Segment::new(SegmentType::Integer, json!("q"));
    let odd = Pool::new(json!({})).with("conversation", "n", text()).with(
        "conversation",
        "l",
        Segment { ty: SegmentType::ArrayAny, ..text() },
    );
    for item in
        [json!(["n", "+=", 1]), json!(["l", "append", "@conversation.n"]), json!(["l", "remove-first"])]
    {
        let failure = run(items(json!([item])), &odd).failure.expect("a failure");
        assert_eq!(failure.error_type, "WorkflowNodeError", "{item}: {failure}");
    }
}

#[test]
fn inputs_of_version_2_are_the_whole_configuration() {
    let mut data = items(json!([["count", "+=", 1]]));
    data["selected"] = json!(false);
    let result = run(data, &pool());
    let inputs: JsonMap = result.inputs.into_iter().map(|(name, segment)| (name, segment.value)).collect();
    let expected = json!({
        "type": "assigner", "title": "T", "desc": null, "version": "2", "error_strategy": null, "default_value": null,
        "retry_config": {"max_retries": 0, "retry_interval": 0, "retry_enabled": false},
        "items": [{"variable_selector": ["conversation", "count"], "input_type": "constant", "operation": "+=", "value": 1}],
        "selected": false,
    });
    assert_eq!(Json::Object(inputs), expected);
}

fn single(target: Json, mode: &str, source: Json) -> Json {
    json!({"assigned_variable_selector": target, "write_mode": mode, "input_variable_selector": source})
}

#[test]
fn version_1_writes_one_variable_without_checking_it() {
    let own = |name: &str| json!(["conversation", name]);
    for (data, name, ty, input, value) in [
        (
            single(own("count"), "over-write", json!(["src", "s"])),
            "count",
            SegmentType::Integer,
            json!("hi!"),
            json!("hi!"),
        ),
        (
            single(own("note"), "over-write", json!(["src", "nul"])),
            "note",
            SegmentType::String,
            json!(null),
            json!(null),
        ),
        (
            single(own("tags"), "append", json!(["src", "n"])),
            "tags",
            SegmentType::ArrayString,
            json!(40),
            json!(["x", "y", 40]),
        ),
        (single(own("count"), "clear", json!([])), "count", SegmentType::Integer, json!(0), json!(0)),
    ] {
        let result = run(data.clone(), &pool());
        assert_eq!(result.failure, None, "{data}");
        assert_eq!(whole(&result), [update(name, ty, value.clone())], "{data}");
        assert_eq!((result.inputs.len(), &result.inputs[0].1.value), (1, &input));
        let list = json!([{"name": name, "selector": ["conversation", name], "value_type": ty.name(), "new_value": value}]);
        assert_eq!(Json::Object(result.process_data), json!({"__updated_variables": list}));
    }
}

#[test]
fn failures_of_version_1_escape() {
    for (data, message) in [
        (single(json!(["conversation", "nope"]), "clear", json!([])), "assigned variable not found"),
        (single(json!(["src", "o", "b"]), "clear", json!([])), "assigned variable not found"),
        (single(json!(["conversation", "note"]), "append", json!(["ghost", "x"])), "input value not found"),
        (single(json!(["conversation", "note"]), "over-write", json!([])), "input value not found"),
        (
            single(json!(["conversation", "note"]), "append", json!(["src", "s"])),
            "append mode requires an array variable",
        ),
        (single(json!(["env", "KEY"]), "clear", json!([])), "unsupported variable type: secret"),
    ] {
        assert_eq!(run(data, &pool()), NodeResult::failed(NodeFailure::escaped(message)), "{message}");
    }
}

#[test]
fn secrets_are_written_open_and_shown_masked() {
    let plain = "sk-12345678901234567890";
    for data in [
        items(json!([["note", "over-write", "@env.KEY"], ["tags", "append", "@env.KEY"]])),
        single(json!(["conversation", "tags"]), "append", json!(["env", "KEY"])),
    ] {
        let result = run(data, &pool());
        assert_eq!(result.failure, None);
        assert!(format!("{:?}", result.updates).contains(plain));
        assert!(!format!("{:?}", result.process_data).contains(plain), "{:?}", result.process_data);
        let open = result.inputs.iter().filter(|(_, segment)| segment.ty != SegmentType::Secret);
        assert!(!format!("{:?}", open.collect::<Vec<_>>()).contains(plain));
    }
    let over = run(single(json!(["env", "KEY"]), "over-write", json!(["src", "s"])), &pool());
    assert_eq!(over.updates[0].value, Segment::new(SegmentType::Secret, json!("hi!")));
    assert!(!format!("{:?}", over.process_data).contains("hi!"));
    let refused = run(items(json!([["nums", "append", "@env.KEY"]])), &pool()).failure.expect("a failure");
    assert!(!refused.message.contains(plain), "{refused}");
}

#[test]
fn the_version_follows_from_the_fields() {
    let one = single(json!(["a", "b"]), "clear", json!([]));
    let with_two = |mut data: Json| {
        data["version"] = json!("2");
        data
    };
    let is_two = |data: Json| matches!(parse(&data).expect("usable data").version, Version::Two(_));
    assert!(!is_two(one.clone()) && !is_two(with_two(one)));
    assert!(is_two(json!({"items": []})) && is_two(json!({"version": "2"})));
}

#[test]
fn every_problem_is_reported_with_its_place() {
    let paths = |data: Json| -> Vec<String> {
        parse(&data).expect_err("a problem").into_iter().map(|(path, _)| path).collect()
    };
    assert_eq!(paths(json!({})), ["assigned_variable_selector", "write_mode", "input_variable_selector"]);
    assert_eq!(
        paths(single(json!(["a", 1]), "overwrite", json!("a.b"))),
        ["assigned_variable_selector[1]", "write_mode", "input_variable_selector"]
    );
    assert_eq!(paths(json!({"items": null})), ["items"]);
    let item = |operation: &str, input: &str| json!({"variable_selector": ["a", "b"], "operation": operation, "input_type": input});
    assert_eq!(
        paths(json!({"items": [5, {}, item("+", "constant"), item("set", "text"), item("set", "constant")]})),
        [
            "items[0]",
            "items[1].variable_selector",
            "items[1].input_type",
            "items[1].operation",
            "items[2].operation",
            "items[3].input_type"
        ]
    );
}

#[test]
fn mentions_are_targets_and_the_sources_that_are_read() {
    let pairs = |data: Json| {
        let mut into = Vec::new();
        let data = parse(&data).expect("usable data");
        data.mentions(&mut into);
        let targets: Vec<String> = data.targets().map(|target| target.join(".")).collect();
        (into.into_iter().map(|(node, name)| format!("{node}.{name}")).collect::<Vec<_>>(), targets)
    };
    let mentioned =
        pairs(items(json!([["note", "over-write", "@src.o.b"], ["count", "+=", 1], ["tags", "clear"]])));
    let targets = ["conversation.note", "conversation.count", "conversation.tags"].map(String::from).to_vec();
    let all =
        ["conversation.note", "src.o", "conversation.count", "conversation.tags"].map(String::from).to_vec();
    assert_eq!(mentioned, (all, targets));
    let mentioned = pairs(single(json!(["a", "b"]), "append", json!(["c", "d", "e"])));
    assert_eq!(mentioned, (vec!["a.b".into(), "c.d".into()], vec!["a.b".into()]));
}
