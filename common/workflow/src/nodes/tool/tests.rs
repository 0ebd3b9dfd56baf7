//! Configuration, parameters and outputs of tool nodes.

use serde_json::json;

use super::outputs::{Collected, Pending};
use super::parameters::{arguments, configured, filled};
use super::*;
use tidemill_base::value::pool::Pool;
use tidemill_base::value::{Segment, SegmentType};

fn data(changes: &Json) -> (Option<ToolData>, Vec<String>) {
    let mut data = json!({
        "type": "tool", "title": "T", "provider_id": "p", "provider_name": "P", "provider_type": "builtin",
        "tool_name": "t", "tool_label": "T", "tool_configurations": {}, "tool_parameters": {},
    });
    for (key, value) in changes.as_object().expect("a mapping") {
        data[key] = value.clone();
    }
    let mut problems = Problems::new();
    let read = ToolData::parse(data.as_object().expect("a mapping"), &mut problems);
    let found = problems.into_vec().into_iter().map(|it| format!("{}: {}", it.path, it.message));
    (read, found.collect())
}

fn usable(changes: Json) -> ToolData {
    let (data, problems) = data(&changes);
    data.unwrap_or_else(|| panic!("{problems:?}"))
}

fn pool() -> Pool {
    Pool::new(json!({"start": {"city": "Bergen", "n": 3, "o": {"k": [1]}}})).with(
        "env",
        "key",
        Segment::new(SegmentType::Secret, json!("sk-0123456789")),
    )
}

#[test]
fn wrong_configurations_are_reported_at_their_places() {
    for (changes, expected) in [
        (
            json!({"tool_configurations": null}),
            "tool_configurations: tool_configurations must be a dictionary",
        ),
        (
            json!({"tool_configurations": {"a": [1]}}),
            "tool_configurations.a: a must be one of: str, int, float, bool, dict",
        ),
        (
            json!({"tool_configurations": {"a": null}}),
            "tool_configurations.a: a must be one of: str, int, float, bool, dict",
        ),
        (
            json!({"tool_parameters": {"a": {"type": "mixed", "value": 1}}}),
            "tool_parameters.a: value must be a string",
        ),
        (
            json!({"tool_parameters": {"a": {"type": "variable", "value": "x"}}}),
            "tool_parameters.a: value must be a list",
        ),
        (
            json!({"tool_parameters": {"a": {"type": "variable", "value": [1]}}}),
            "tool_parameters.a: value must be a list of strings",
        ),
        (
            json!({"tool_parameters": {"a": {"type": "maybe", "value": 1}}}),
            "tool_parameters.a: type must be one of: mixed, variable, constant",
        ),
    ] {
        let (read, problems) = data(&changes);
        assert!(read.is_none() && problems == [expected], "{changes}: {problems:?}");
    }
    assert_eq!(data(&json!({"provider_type": "magic"})).1.len(), 1);
}

#[test]
fn parameters_without_a_value_vanish() {
    let (read, problems) = data(&json!({"tool_parameters": {
        "a": null, "b": {"type": "mixed", "value": null}, "c": {"type": "constant", "value": 0}, "d": {"type": "mixed"},
        "e": "plain", "f": 5, "g": [1], "h": true, "i": {"type": "unknown"},
    }}));
    let names: Vec<String> = read.expect("usable").parameters.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["c"]);
    let warned: Vec<&str> = problems.iter().map(|problem| &problem[.."tool_parameters.e".len()]).collect();
    assert_eq!(warned, ["tool_parameters.e", "tool_parameters.f", "tool_parameters.g", "tool_parameters.h"]);
}

#[test]
fn configurations_are_typed_by_either_version() {
    for (changes, typed) in [
        (json!({}), false),
        (json!({"tool_node_version": null}), false),
        (json!({"tool_node_version": "2"}), true),
        (json!({"version": "2"}), true),
    ] {
        assert_eq!(usable(changes).is_typed, typed);
    }
}

#[test]
fn parameters_are_filled_in_as_dify_does() {
    let read = usable(json!({"tool_parameters": {
        "place": {"type": "mixed", "value": "in {{#start.city#}}"},
        "raw": {"type": "variable", "value": ["start", "o"]},
        "num": {"type": "constant", "value": 5},
        "flag": {"type": "constant", "value": true},
        "obj": {"type": "constant", "value": {"k": "v"}},
        "gone": {"type": "variable", "value": ["ghost", "x"]},
        "key": {"type": "mixed", "value": "k={{#env.key#}}"},
        "unknown": {"type": "constant", "value": "dropped"},
    }}));
    let names = ["place", "raw", "num", "flag", "obj", "gone", "key"];
    let declared: Vec<Parameter> =
        names.iter().map(|name| Parameter { name: (*name).into(), ..Parameter::default() }).collect();
    let declared_only = filled(&read, KnownParameters::just(&declared), &pool()).expect("filled");
    let expected = json!({
        "place": "in Bergen", "raw": {"k": [1]}, "num": "5", "flag": "True", "obj": "{'k': 'v'}",
        "key": "k=sk-0123456789", "unknown": null,
    });
    assert_eq!(Json::Object(declared_only.values), expected);
    let shown = |name: &str| {
        declared_only.shown.iter().find(|(known, _)| known == name).map(|(_, it)| it.value.clone())
    };
    assert_eq!(shown("key"), Some(json!("k=sk-012************89")));
    assert_eq!(shown("gone"), None);
    // For a tool without a declaration all given values count.
    let undeclared = filled(&read, KnownParameters::NOTHING, &pool()).expect("filled");
    assert_eq!(undeclared.values["unknown"], json!("dropped"));
}

#[test]
fn a_required_variable_that_is_missing_escapes_the_node() {
    let read = usable(json!({"tool_parameters": {"must": {"type": "variable", "value": ["a", "b"]}}}));
    let declared = [Parameter { name: "must".into(), required: true, ..Parameter::default() }];
    let failure = filled(&read, KnownParameters::just(&declared), &pool()).expect_err("missing");
    assert_eq!(failure.message, "Variable ['a', 'b'] does not exist");
    assert_eq!(failure.error_type, "WorkflowNodeError");
}

fn form(name: &str, ty: ParameterType) -> Parameter {
    Parameter { name: name.into(), ty, form: Form::Form, ..Parameter::default() }
}

#[test]
fn configured_values_win_over_filled_ones() {
    let read = usable(json!({
        "tool_node_version": "2",
        "tool_configurations": {
            "region": {"type": "mixed", "value": "{{#start.city#}}"},
            "limit": {"type": "constant", "value": "3"},
            "none": {"type": "mixed", "value": null},
            "not_declared": {"type": "constant", "value": 1},
        },
        "tool_parameters": {"q": {"type": "mixed", "value": "1"}, "over": {"type": "variable", "value": ["start", "n"]}},
    }));
    let q = Parameter { name: "q".into(), ty: ParameterType::Number, ..Parameter::default() };
    let declared = [
        form("region", ParameterType::String),
        form("limit", ParameterType::Number),
        form("none", ParameterType::String),
        form("over", ParameterType::String),
        q,
    ];
    let configured = configured(&read, KnownParameters::just(&declared), &pool()).expect("configured");
    assert_eq!(Json::Object(configured.clone()), json!({"region": "Bergen", "limit": 3, "over": "3"}));
    let mut values = filled(&read, KnownParameters::just(&declared), &pool()).expect("filled").values;
    values.insert("limit".into(), json!("99"));
    let all = arguments(values, configured, KnownParameters::just(&declared)).expect("arguments");
    assert_eq!(Json::Object(all), json!({"q": 1, "over": "3", "limit": 3, "region": "Bergen"}));
}

#[test]
fn the_older_form_has_defaults_and_options() {
    let kind = || Parameter { options: vec!["a".into(), "b".into()], ..form("kind", ParameterType::Select) };
    for (configurations, parameter, expected) in [
        (json!({"kind": "a"}), kind(), Ok(json!({"kind": "a"}))),
        (json!({"kind": "c"}), kind(), Err("tool parameter kind value c not in options ['a', 'b']")),
        (json!({}), Parameter { default: Some(json!("b")), ..kind() }, Ok(json!({"kind": "b"}))),
        (
            json!({}),
            Parameter { required: true, ..kind() },
            Err("tool parameter kind not found in tool config"),
        ),
        (json!({}), kind(), Ok(json!({}))),
    ] {
        let read = usable(json!({"tool_configurations": configurations}));
        let found = configured(&read, KnownParameters::just(&[parameter]), &pool());
        assert_eq!(found.map(Json::Object), expected.map_err(str::to_owned));
    }
}

#[test]
fn a_default_does_not_win_over_what_the_workflow_fills_in() {
    let read = usable(json!({"tool_parameters": {"kind": {"type": "mixed", "value": "a"}}}));
    let declared = [Parameter { default: Some(json!("b")), ..form("kind", ParameterType::String) }];
    let configured = configured(&read, KnownParameters::just(&declared), &pool()).expect("configured");
    let values = filled(&read, KnownParameters::just(&declared), &pool()).expect("filled").values;
    let all = arguments(values, configured, KnownParameters::just(&declared)).expect("arguments");
    assert_eq!(Json::Object(all), json!({"kind": "a"}));
}

#[test]
fn a_configured_variable_that_is_missing_is_no_way_to_the_tool() {
    let configurations = json!({"a": {"type": "variable", "value": ["x", "y"]}});
    let read = usable(json!({"tool_node_version": "2", "tool_configurations": configurations}));
    for declared in [KnownParameters::NOTHING, KnownParameters::just(&[form("a", ParameterType::Any)])] {
        assert_eq!(configured(&read, declared, &pool()), Err("Variable ['x', 'y'] does not exist".into()));
    }
}

/// Takes messages; returns the streamed texts, the outputs without files, and the files.
fn collected(messages: Json) -> Result<(Vec<String>, Json, Vec<Pending>), String> {
    let mut collected = Collected::default();
    let mut streamed = Vec::new();
    for message in messages.as_array().expect("a list") {
        let message = Message::from_json(message)?;
        let piece = collected.take(message).map_err(|it| format!("{}: {}", it.error_type, it.message))?;
        streamed.extend(piece.map(|(output, text)| format!("{output}={text}")));
    }
    collected.end().map_err(|it| format!("{}: {}", it.error_type, it.message))?;
    let files = collected.files.clone();
    let outputs =
        collected.outputs(Vec::new()).into_iter().map(|(name, value)| (name, value.value)).collect();
    Ok((streamed, Json::Object(outputs), files))
}

#[test]
fn messages_become_outputs_in_order() {
    let (streamed, outputs, _) = collected(json!([
        {"type": "text", "text": "a"},
        {"type": "json", "json": {}},
        {"type": "json", "json": {"x": 1}},
        {"type": "json", "json": [1]},
        {"type": "link", "text": "http://x"},
        {"type": "variable", "name": "v", "value": 1},
        {"type": "variable", "name": "v", "value": 2},
        {"type": "variable", "name": "s", "value": "on", "stream": true},
        {"type": "variable", "name": "s", "value": "ce", "stream": true},
        {"type": "log", "message": {}},
    ]))
    .expect("outputs");
    assert_eq!(streamed, ["text=a", "text=Link: http://x\n", "s=on", "s=ce"]);
    let expected =
        json!({"text": "aLink: http://x\n", "files": [], "json": [{"x": 1}, [1]], "v": 2, "s": "once"});
    assert_eq!(outputs, expected);
    let (_, outputs, _) = collected(json!([])).expect("outputs");
    assert_eq!(outputs, json!({"text": "", "files": [], "json": [{"data": []}]}));
}

#[test]
fn a_piece_after_a_whole_value_is_added_as_python_adds_it() {
    for (whole, expected) in [
        (json!("on"), Ok(json!("once"))),
        (json!([1]), Ok(json!([1, "c", "e"]))),
        (json!(5), Err("int")),
        (json!(2.5), Err("float")),
        (json!(true), Err("bool")),
        (json!(null), Err("NoneType")),
        (json!({"a": 1}), Err("dict")),
    ] {
        let messages = json!([
            {"type": "variable", "name": "v", "value": whole},
            {"type": "variable", "name": "v", "value": "ce", "stream": true},
        ]);
        let found = collected(messages).map(|(_, outputs, _)| outputs["v"].clone());
        let failure =
            |class| format!("WorkflowNodeError: unsupported operand type(s) for +=: '{class}' and 'str'");
        assert_eq!(found, expected.map_err(failure), "{whole}");
    }
}

#[test]
fn files_come_whole_in_pieces_or_by_reference() {
    let file = json!({"dify_model_identity": "__dify__file__", "type": "image"});
    let (_, outputs, files) = collected(json!([
        {"type": "blob", "base64": "YQ==", "meta": {"mime_type": "image/png", "filename": "a.png"}},
        {"type": "blob_chunk", "id": "c", "base64": "YQ==", "total_length": 3},
        {"type": "blob_chunk", "id": "c", "base64": "Yg==", "total_length": 3, "end": true},
        {"type": "image_link", "text": "", "meta": {"tool_file_id": "r", "mime_type": "image/png"}},
        {"type": "image", "text": "http://x/pic.png?y=1"},
        {"type": "link", "text": "f", "meta": {"file": file}},
        {"type": "file", "meta": {"file": file}},
    ]))
    .expect("files");
    assert_eq!(outputs["text"], json!("File: f\n"));
    let keep = |bytes: &[u8], mime_type: &str, filename: Option<&str>| Pending::Keep {
        bytes: bytes.to_vec(),
        mime_type: mime_type.into(),
        filename: filename.map(str::to_owned),
    };
    assert_eq!(files[0], keep(b"a", "image/png", Some("a.png")));
    assert_eq!(files[1], keep(b"ab", "application/octet-stream", None));
    assert!(matches!(&files[2], Pending::Kept { reference, is_blob: false, .. } if reference == "r"));
    let Pending::Object(remote) = &files[3] else { panic!("{:?}", files[3]) };
    assert_eq!((&remote["transfer_method"], &remote["filename"]), (&json!("remote_url"), &json!("pic.png")));
    assert_eq!(files[4..], [Pending::Object(file.clone()), Pending::Object(file)]);
}

#[test]
fn messages_that_make_no_sense_fail_the_node() {
    for (message, expected) in [
        (
            json!({"type": "image", "text": "x"}),
            "ToolFileError: tool message is missing tool_file_id metadata",
        ),
        (json!({"type": "file"}), "ToolNodeError: Tool message file is missing metadata."),
        (json!({"type": "file", "meta": {}}), "ToolNodeError: File message is missing 'file' key in meta"),
        (
            json!({"type": "file", "meta": {"file": "x"}}),
            "ToolNodeError: Expected File object but got <class 'str'>",
        ),
        (
            json!({"type": "variable", "name": "text", "value": 1}),
            "ToolRuntimeInvocationError: The variable name 'text' is reserved.",
        ),
        (
            json!({"type": "variable", "name": "v", "value": 1, "stream": true}),
            "ToolNodeError: When 'stream' is True, 'variable_value' must be a string.",
        ),
        (
            json!({"type": "blob_chunk", "base64": "", "total_length": 1}),
            "ToolFileError: tool blob chunk message is missing id",
        ),
        (
            json!({"type": "blob_chunk", "id": "c", "base64": ""}),
            "ToolFileError: tool blob chunk total_length must be non-negative",
        ),
        (
            json!({"type": "blob_chunk", "id": "c", "base64": "YWI=", "total_length": 1}),
            "ToolFileError: tool blob chunk c exceeds declared total_length",
        ),
        (
            json!({"type": "blob_chunk", "id": "c", "base64": "YQ==", "total_length": 2}),
            "ToolFileError: tool blob chunk stream ended before completion: c",
        ),
    ] {
        assert_eq!(collected(json!([message])).map(drop), Err(expected.to_owned()), "{message}");
    }
}

#[test]
fn pieces_of_a_file_agree_on_its_length_and_may_stay_below_it() {
    let piece = |id: &str, base64: &str, total: i64, end: bool| json!({"type": "blob_chunk", "id": id, "base64": base64, "total_length": total, "end": end});
    for (second, expected) in [
        (
            piece("c", "Yg==", 4, true),
            Err("ToolFileError: tool blob chunk c changed total_length".to_owned()),
        ),
        (piece("c", "Yg==", 3, true), Ok(())),
        // A second file has its own length, and the first is still incomplete.
        (
            piece("d", "Yg==", 1, true),
            Err("ToolFileError: tool blob chunk stream ended before completion: c".to_owned()),
        ),
    ] {
        let messages = json!([piece("c", "YQ==", 3, false), second]);
        assert_eq!(collected(messages.clone()).map(drop), expected, "{messages}");
    }
}
