use super::*;
use crate::nodes::condition::tests::Pool;
use crate::nodes::node::{NodeSettings, RetryConfig};
use crate::nodes::{NodeData, NodeKind};
use serde_json::{Value as Json, json};

fn parse(variables: &Json) -> Result<StartData, Vec<(String, String)>> {
    let mut problems = Problems::new();
    let data = JsonMap::from_iter([("variables".to_owned(), variables.clone())]);
    let parsed = StartData::parse(&data, &mut problems);
    assert_eq!(parsed.is_none(), problems.has_errors());
    parsed.ok_or_else(|| problems.into_vec().into_iter().map(|p| (p.path, p.message)).collect())
}

fn field(extra: Json) -> Json {
    let mut field = json!({"variable": "v", "label": "V", "type": "text-input"});
    let (Json::Object(field_map), Json::Object(extra)) = (&mut field, extra) else { panic!("objects") };
    field_map.extend(extra);
    field
}

fn run(variables: Json, pool: &Pool) -> NodeResult {
    let data = parse(&variables).expect("usable data");
    let node = Node {
        id: "start".into(),
        kind: NodeKind::Start,
        title: String::new(),
        version: "1".into(),
        data: NodeData::Start(data.clone()),
        error_strategy: None,
        retry: RetryConfig::default(),
        settings: NodeSettings::default(),
        chooses: false,
        ins: Vec::new(),
        outs: Vec::new(),
        parent: None,
        loop_id: None,
        mentions: Vec::new(),
        gives_context: false,
        work: None,
        children: Vec::new(),
        child: None,
        quoted: Default::default(),
    };
    data.evaluate(&node, pool)
}

#[test]
fn outputs_are_the_whole_pool_with_prefixes() {
    let secret = Segment::new(SegmentType::Secret, "sk".into());
    let pool = Pool::new(
        json!({"sys": {"query": "q", "files": []}, "start": {"a": 1, "n": null}, "conversation": {"c": "x"}}),
    )
    .with("env", "KEY", secret.clone());
    let result = run(json!([]), &pool);
    assert_eq!(result.failure, None);
    assert_eq!(result.handle, "source");
    let own = [("a".to_owned(), Segment::infer(json!(1))), ("n".to_owned(), Segment::none())];
    assert_eq!(result.inputs, own);
    let names: Vec<&str> = result.outputs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["sys.query", "sys.files", "conversation.c", "env.KEY", "a", "n"]);
    assert_eq!(result.outputs[3].1, secret);
}

#[test]
fn only_objects_are_checked_when_the_node_runs() {
    let schema = r#"{"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}"#;
    let object = |required: bool| {
        json!([
            {"variable": "t", "label": "t", "type": "text-input", "required": true},
            {"variable": "p", "label": "p", "type": "json_object", "required": required, "json_schema": schema},
        ])
    };
    for (required, inputs, expected) in [
        (true, json!({"p": {"age": 3, "more": [1]}}), None),
        (true, json!({"p": {}}), None),
        (true, json!({"p": ""}), None),
        (false, json!({"p": null}), None),
        (false, json!({}), None),
        (true, json!({"p": null}), Some("p is required in input form")),
        (true, json!({}), Some("p is required in input form")),
        (false, json!({"p": [1]}), Some("JSON object for 'p' must be an object")),
        (false, json!({"p": "x"}), Some("JSON object for 'p' must be an object")),
        (
            true,
            json!({"p": {"age": "x"}}),
            Some("JSON object for 'p' does not match schema: 'x' is not of type 'integer'"),
        ),
        (
            true,
            json!({"p": {"name": "x"}}),
            Some("JSON object for 'p' does not match schema: 'age' is a required property"),
        ),
    ] {
        let result = run(object(required), &Pool::new(json!({"start": inputs})));
        assert_eq!(result.failure, expected.map(NodeFailure::escaped), "{required} {inputs}");
        assert_eq!(result.inputs.is_empty(), expected.is_some() || inputs == json!({}));
    }
}

#[test]
fn schema_violations_read_as_python_writes_them() {
    for (schema, value, expected) in [
        (json!({"properties": {"a": {"enum": ["x", 1]}}}), json!({"a": true}), "True is not one of ['x', 1]"),
        (
            json!({"properties": {"a": {}}, "additionalProperties": false}),
            json!({"b": 1}),
            "Additional properties are not allowed ('b' was unexpected)",
        ),
        (json!({"properties": {"a": {"minimum": 2}}}), json!({"a": 1}), "1 is less than the minimum of 2"),
        (json!({"properties": {"a": {"maxLength": 1}}}), json!({"a": "xy"}), "'xy' is too long"),
        (json!({"properties": {"a": {"pattern": "^x"}}}), json!({"a": "y"}), "'y' does not match '^x'"),
        (
            json!({"properties": {"a": {"type": ["string", "null"]}}}),
            json!({"a": 1.0}),
            "1.0 is not of type 'string', 'null'",
        ),
    ] {
        let compiled = schema::compile(&schema).expect("a schema").expect("not empty");
        let found = schema::violation(&compiled, &value).expect("a violation");
        // The library sorts a set of types in its own order.
        let expected =
            expected.replace("'string', 'null'", found.split("of type ").nth(1).unwrap_or_default());
        assert_eq!(found, expected, "{schema}");
    }
}

#[test]
fn schemas_are_checked_with_the_file() {
    for (schema, expected) in [
        (json!(null), None),
        (json!("  "), None),
        (json!({}), None),
        (json!({"type": "object"}), None),
        (json!("{\"type\": \"object\"}"), None),
        (json!("{"), Some("json_schema is not valid JSON: ")),
        (json!("{\"minimum\": NaN}"), Some("json_schema is not valid JSON: invalid constant NaN")),
        (
            json!("{\"a\": \"\\\"é NaN\", \"b\": -Infinity}"),
            Some("json_schema is not valid JSON: invalid constant -Infinity"),
        ),
        (json!("[]"), Some("json_schema must be a JSON object, got list")),
        (json!("1.5"), Some("json_schema must be a JSON object, got float")),
        (json!(["x"]), Some("json_schema must be a JSON object, got list")),
        (json!({"type": "thing"}), Some("Invalid JSON schema: 'thing' is not valid")),
        (json!({"$ref": "http://127.0.0.1:9/x.json"}), Some("Invalid JSON schema: ")),
    ] {
        let found = parse(&json!([field(json!({"type": "json_object", "json_schema": schema}))]));
        match (found, expected) {
            (Ok(_), None) => {}
            (Err(found), Some(expected)) => {
                assert_eq!(found[0].0, "variables[0]");
                assert!(found[0].1.starts_with(expected), "{}", found[0].1);
            }
            (found, expected) => panic!("{schema}: {found:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn fields_are_read_as_leniently_as_dify_does() {
    let data = parse(&json!([field(json!({
        "description": null, "required": "true", "hide": 1, "max_length": "48", "options": null,
        "allowed_file_types": null, "label": "Frage",
    }))]))
    .expect("usable data");
    let read = &data.variables[0];
    assert_eq!((read.label.as_str(), read.description.as_str()), ("Frage", ""));
    assert_eq!((read.required, read.hide, read.max_length), (true, true, Some(48)));
    assert!(parse(&json!([])).expect("usable data").variables.is_empty());
    for (name, kind) in [
        ("string", InputKind::TextInput),
        ("integer", InputKind::Number),
        ("boolean", InputKind::Checkbox),
        ("object", InputKind::JsonObject),
        ("array[file]", InputKind::FileList),
    ] {
        assert_eq!(
            parse(&json!([field(json!({"type": name}))])).expect("usable data").variables[0].kind,
            kind
        );
    }
    for kind in InputKind::ALL {
        assert_eq!(InputKind::read(kind.name()), Some(kind));
    }
}

#[test]
fn invalid_values_are_reported_at_their_place() {
    for (extra, expected) in [
        (json!({"type": "slider"}), "type \"slider\" is not a kind of input"),
        (json!({"variable": 5}), "variable of an input must be a text"),
        (json!({"required": "maybe"}), "required of an input must be true or false"),
        (json!({"max_length": "many"}), "max_length of an input must be a whole number"),
        (json!({"max_length": -1}), "max_length of an input must not be negative"),
        (json!({"options": ["a", 1]}), "options of an input must be a list of texts"),
        (
            json!({"allowed_file_types": ["image", "pictures"]}),
            "allowed_file_types of an input holds \"pictures\"; known are: image, document, audio, video, custom",
        ),
    ] {
        let found = parse(&json!([field(json!({})), field(extra)])).expect_err("a problem");
        assert_eq!(found, [("variables[1]".to_owned(), expected.to_owned())]);
    }
}

mod of_the_form {
    use super::*;

    fn check(extra: &Json, given: Option<Json>, expected: Result<Json, &str>) {
        let fields = parse(&json!([field(extra.clone())])).expect("usable data").variables;
        let mut inputs = JsonMap::from_iter([("undeclared".to_owned(), json!(1))]);
        inputs.extend(given.clone().map(|given| ("v".to_owned(), given)));
        let found = validate_form(&fields, &inputs).map(Json::Object);
        let found = found.as_ref().map_err(FormError::message);
        let expected = expected.map(|value| json!({"v": value}));
        assert_eq!(found, expected.as_ref().map_err(|message| *message), "{extra} {given:?}");
    }

    #[test]
    fn required_and_default_come_first() {
        let plain = json!({});
        let required = json!({"required": true, "default": "d"});
        let default = json!({"default": "d"});
        check(&plain, None, Ok(json!(null)));
        check(&plain, Some(json!(null)), Ok(json!(null)));
        check(&plain, Some(json!("")), Ok(json!("")));
        check(&required, None, Err("v is required in input form"));
        check(&required, Some(json!(null)), Err("v is required in input form"));
        check(&required, Some(json!("")), Ok(json!("")));
        check(&default, None, Ok(json!("d")));
        check(&default, Some(json!(null)), Ok(json!("d")));
        check(&json!({"default": 5}), None, Err("(type 'text-input') v in input form must be a string"));
        check(&json!({"default": "5", "type": "number"}), None, Ok(json!(5)));
    }

    #[test]
    fn texts_have_a_longest_length_in_characters() {
        let limited = json!({"type": "paragraph", "max_length": 3});
        check(&limited, Some(json!("äöü")), Ok(json!("äöü")));
        check(&limited, Some(json!("äöüß")), Err("v in input form must be less than 3 characters"));
        check(&json!({"max_length": 0}), Some(json!("long")), Ok(json!("long")));
        check(&limited, Some(json!(5)), Err("(type 'paragraph') v in input form must be a string"));
        check(&json!({}), Some(json!("a\0b\0")), Ok(json!("ab")));
    }

    #[test]
    fn a_choice_is_one_of_the_options() {
        let select = json!({"type": "select", "options": ["a", "it's"]});
        check(&select, Some(json!("a")), Ok(json!("a")));
        check(
            &select,
            Some(json!("c")),
            Err("v in input form must be one of the following: ['a', \"it's\"]"),
        );
        check(&select, Some(json!(["a"])), Err("(type 'select') v in input form must be a string"));
    }

    #[test]
    fn numbers_may_be_texts() {
        let number = json!({"type": "number"});
        for (given, expected) in [
            (json!(5), json!(5)),
            (json!(2.5), json!(2.5)),
            (json!(true), json!(true)),
            (json!("  "), json!(null)),
            (json!(""), json!(null)),
            (json!(" 12 "), json!(12)),
            (json!("1_000"), json!(1000)),
            (json!("1."), json!(1.0)),
            (json!("-0.5e3"), json!(-500.0)),
            (json!("18446744073709551615"), json!(u64::MAX)),
        ] {
            check(&number, Some(given), Ok(expected));
        }
        for given in ["1e5", "abc", "1,5", "1.2.3", "1.0e999"] {
            check(&number, Some(json!(given)), Err("v in input form must be a valid number"));
        }
        let wrong = "expected value type int, float or str, got <class 'list'>, value: [1, 'a']";
        check(&number, Some(json!([1, "a"])), Err(wrong));
    }

    #[test]
    fn only_a_wrong_class_of_number_is_no_bad_request() {
        let fields = parse(&json!([field(json!({"type": "number"}))])).expect("usable data").variables;
        let error = |given: Json| {
            validate_form(&fields, &JsonMap::from_iter([("v".to_owned(), given)])).expect_err("an error")
        };
        assert!(error(json!("x")).is_invalid_param());
        assert!(!error(json!({})).is_invalid_param());
    }

    #[test]
    fn files_are_objects() {
        let (one, many) = (json!({"type": "file"}), json!({"type": "file-list", "max_length": 1}));
        let file = json!({"transfer_method": "remote_url"});
        check(&one, Some(file.clone()), Ok(file.clone()));
        check(&one, Some(json!("")), Ok(json!(null)));
        check(
            &json!({"type": "file", "required": true}),
            Some(json!("")),
            Err("v in input form must be a file"),
        );
        check(&one, Some(json!([file])), Err("v in input form must be a file"));
        check(&many, Some(json!([file])), Ok(json!([file])));
        check(&many, Some(json!([])), Ok(json!([])));
        check(&many, Some(json!("")), Ok(json!(null)));
        check(&many, Some(json!(["x"])), Err("v in input form must be a list of files"));
        check(&many, Some(file.clone()), Err("v in input form must be a list of files"));
        check(&many, Some(json!([file, file])), Err("v in input form must be less than 1 files"));
    }

    #[test]
    fn checkboxes_read_words_and_pass_other_values_unchanged() {
        let checkbox = json!({"type": "checkbox"});
        for (given, expected) in [
            (json!(true), json!(true)),
            (json!(" Yes "), json!(true)),
            (json!("ON"), json!(true)),
            (json!("1"), json!(true)),
            (json!("off"), json!(false)),
            (json!("no"), json!(false)),
            (json!(1), json!(true)),
            (json!(0.0), json!(false)),
            (json!(2), json!(2)),
            (json!("perhaps"), json!("perhaps")),
        ] {
            check(&checkbox, Some(given), Ok(expected));
        }
        check(&checkbox, Some(json!({})), Err("Invalid input type for ['v']"));
        check(&checkbox, Some(json!([1, {}])), Err("Invalid input type for ['v']"));
    }

    #[test]
    fn external_data_is_taken_as_it_is() {
        let tool = json!({"type": "external_data_tool"});
        for given in [json!("x"), json!(5), json!(["a"])] {
            check(&tool, Some(given.clone()), Ok(given));
        }
        check(&tool, Some(json!({"a": 1})), Err("Invalid input type for ['v']"));
    }

    #[test]
    fn the_first_field_that_does_not_fit_is_reported_and_objects_last() {
        let fields = |extra: Json| {
            let one = json!({"variable": "a", "label": "a", "type": "checkbox"});
            let two = json!({"variable": "b", "label": "b", "type": "checkbox"});
            parse(&json!([one, two, field(extra)])).expect("usable data").variables
        };
        let objects = JsonMap::from_iter([("a".to_owned(), json!({"x": 1})), ("b".to_owned(), json!({}))]);
        let said =
            |extra| validate_form(&fields(extra), &objects).expect_err("an error").message().to_owned();
        assert_eq!(said(json!({})), "Invalid input type for ['a', 'b']");
        assert_eq!(said(json!({"required": true})), "v is required in input form");
    }

    #[test]
    fn objects_are_objects_or_empty() {
        let object = json!({"type": "json_object"});
        check(&object, Some(json!({"a": 1})), Ok(json!({"a": 1})));
        check(&object, Some(json!("")), Ok(json!("")));
        check(&object, Some(json!([])), Ok(json!([])));
        check(&object, Some(json!("{}")), Err("v in input form must be a dict"));
        check(&object, Some(json!([1])), Err("v in input form must be a dict"));
    }
}
