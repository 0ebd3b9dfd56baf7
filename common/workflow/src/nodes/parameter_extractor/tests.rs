use serde_json::{Value as Json, json};

use super::result::extract;
use super::*;
use crate::nodes::llm::message::{Message, ToolCall};
use crate::nodes::llm::{Role, history};
use tidemill_base::value::pool::Pool;

fn parse(changes: Json) -> Result<ParameterExtractorData, Vec<String>> {
    let mut data = json!({
        "query": ["start", "text"],
        "model": {"provider": "p", "name": "m", "mode": "chat", "completion_params": {}},
        "parameters": [{"name": "city", "type": "string", "description": "the city", "required": true}],
        "reasoning_mode": "function_call",
        "instruction": "mind {{#start.kind#}}"
    });
    for (key, value) in changes.as_object().unwrap() {
        data[key] = value.clone();
    }
    let mut problems = Problems::new();
    ParameterExtractorData::parse(data.as_object().unwrap(), &mut problems).ok_or_else(|| {
        problems.into_vec().into_iter().map(|p| format!("{}: {}", p.path, p.message)).collect()
    })
}

fn parameters(list: &[(&str, &str, bool)]) -> Vec<Parameter> {
    let one = |(name, ty, required): &(&str, &str, bool)| Parameter {
        name: (*name).into(),
        ty: ParameterType::from_name(ty).unwrap(),
        options: None,
        description: String::new(),
        required: *required,
    };
    list.iter().map(one).collect()
}

fn facts(features: &[&str]) -> ModelFacts {
    let features = Some(features.iter().map(ToString::to_string).collect());
    ModelFacts { features, ..ModelFacts::default() }
}

fn assembled(changes: Json, features: &[&str]) -> (Vec<Message>, bool) {
    let image = json!({
        "dify_model_identity": "__dify__file__", "type": "image", "extension": ".png", "mime_type": "image/png"
    });
    let pool = Pool::new(json!({
        "start": {"text": "from {{#start.kind#}} { structure }", "kind": "tea"},
        "sys": {"conversation_id": "c", "files": [image]},
        history::NODE: {history::NAME: [{"query": "before?", "answer": "yes"}]}
    }));
    let (prompt, tool, _) = prompt::assemble(&parse(changes).unwrap(), &pool, &facts(features)).unwrap();
    (prompt.messages, tool.is_some())
}

#[test]
fn old_names_of_types_are_read() {
    for (name, today) in [("bool", "boolean"), ("select", "string"), ("array[object]", "array[object]")] {
        assert_eq!(ParameterType::from_name(name).unwrap().name(), today);
    }
    assert_eq!(ParameterType::from_name("object"), None);
}

#[test]
fn mistakes_are_reported_with_difys_messages() {
    let problems = parse(json!({
        "query": 1, "reasoning_mode": "guess",
        "parameters": [
            {"name": "", "type": "string", "description": "", "required": true},
            {"name": "__reason", "type": "file", "description": "", "required": true},
            {"name": "x", "type": "string", "options": [1]}
        ]
    }))
    .unwrap_err();
    for expected in [
        "query: ",
        "reasoning_mode: ",
        "parameters[0].name: Parameter name is required",
        "parameters[1].name: Invalid parameter name, __reason and __is_success are reserved",
        "parameters[1].type: type file is not allowd to use in Parameter Extractor node.",
        "parameters[2].options: ",
        "parameters[2].description: ",
        "parameters[2].required: ",
    ] {
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{expected} in {problems:?}");
    }
    for mode in [json!(null), json!("")] {
        assert!(parse(json!({"reasoning_mode": mode})).unwrap().by_tool);
    }
}

#[test]
fn the_schema_has_options_beside_the_items_of_a_list() {
    let data = parse(json!({"parameters": [
        {"name": "tags", "type": "array[string]", "options": ["a"], "description": "d", "required": false},
        {"name": "n", "type": "number", "options": [], "description": "", "required": true}
    ]}));
    assert_eq!(
        data.unwrap().schema(),
        json!({"type": "object", "required": ["n"], "properties": {
            "tags": {"description": "d", "type": "array", "items": {"type": "string"}, "enum": ["a"]},
            "n": {"description": "", "type": "number"}
        }})
    );
}

#[test]
fn a_tool_is_offered_where_the_node_wants_it_and_the_model_is_known_to_call_tools() {
    for (mode, features, offered) in [
        ("function_call", &["tool-call"][..], true),
        ("function_call", &["multi-tool-call"], true),
        ("function_call", &["stream-tool-call"], false),
        ("function_call", &[], false),
        ("prompt", &["tool-call"], false),
    ] {
        let data = parse(json!({"reasoning_mode": mode})).unwrap();
        assert_eq!(data.tool(&facts(features)).is_some(), offered, "{mode} {features:?}");
        assert!(data.tool(&ModelFacts::default()).is_none());
    }
}

#[test]
fn a_prompt_with_a_tool_shows_two_calls_before_the_question() {
    let vision = json!({"enabled": true});
    let (messages, by_tool) = assembled(json!({"vision": vision}), &["tool-call", "vision"]);
    assert!(by_tool);
    let roles: Vec<&str> = messages.iter().map(|message| message.role.name()).collect();
    let group = ["user", "assistant", "tool", "assistant"];
    assert_eq!(roles, [&["system"][..], &group, &group, &["user"]].concat());
    assert_eq!(messages[2].tool_calls[0].id, messages[3].tool_call_id.clone().unwrap());
    assert_eq!(messages[2].tool_calls[0].id.len(), 32);
    let system = messages[0].joined_text();
    assert!(system.contains("<instruction>\nmind tea\n</instruction>"), "{system}");
    assert!(system.contains("<histories>\n\n</histories>"), "{system}");
    let question = &messages[9];
    assert!(question.joined_text().contains("<context>\nfrom tea { structure }\n</context>"));
    assert!(question.joined_text().contains("<structure>\n{\"type\": \"object\""));
    assert_eq!((question.parts.len(), question.files().count()), (2, 1));
}

#[test]
fn a_prompt_in_words_shows_plain_json_and_the_history() {
    let memory = json!({"window": {"enabled": false, "size": 5}});
    let (messages, by_tool) = assembled(json!({"memory": memory}), &[]);
    assert!(!by_tool);
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    let pair = [Role::User, Role::Assistant];
    assert_eq!(roles, [&[Role::System][..], &pair, &pair, &[Role::User]].concat());
    assert!(find::object(&messages[2].joined_text()).is_some());
    assert!(messages[0].joined_text().contains("<histories>\nHuman: before?\nAssistant: yes\n</histories>"));
    assert!(messages[5].joined_text().ends_with("<text>\nfrom tea { structure }\n</text>"));
}

#[test]
fn a_completion_is_one_text_and_the_placeholder_of_the_schema_is_replaced_everywhere() {
    let model = json!({"provider": "p", "name": "m", "mode": "completion", "completion_params": {}});
    let (messages, _) = assembled(json!({"model": model}), &[]);
    assert_eq!(messages.len(), 1);
    let text = messages[0].joined_text();
    assert!(text.contains("<text>\nfrom tea {\"type\": \"object\""), "{text}");
    assert!(text.ends_with("```JSON\n"), "{text}");
}

#[test]
fn a_model_that_calls_tools_cannot_be_asked_to_complete_in_either_mode() {
    let model = json!({"provider": "p", "name": "m", "mode": "completion", "completion_params": {}});
    for mode in ["prompt", "function_call"] {
        let data = parse(json!({"model": model, "reasoning_mode": mode})).unwrap();
        let failure = prompt::assemble(&data, &Pool::new(json!({})), &facts(&["tool-call"])).unwrap_err();
        assert_eq!(failure.message, "Model mode completion not support.");
        assert_eq!(failure.error_type, "WorkflowNodeError");
    }
}

#[test]
fn the_record_shows_the_declaration() {
    let data = parse(json!({})).unwrap();
    let (_, _, inputs) = prompt::assemble(&data, &Pool::new(json!({})), &facts(&[])).unwrap();
    let shown: Vec<(&str, Json)> =
        inputs.iter().map(|(name, value)| (name.as_str(), value.value.clone())).collect();
    let parameter = json!({"name": "city", "type": "string", "options": null, "description": "the city", "required": true});
    assert_eq!(
        shown,
        [
            ("query", json!("")),
            ("files", json!([])),
            ("parameters", json!([parameter])),
            ("instruction", json!("mind {{#start.kind#}}")),
            ("model_provider", json!("p")),
            ("model_name", json!("m"))
        ]
    );
}

#[test]
fn values_are_brought_into_their_types() {
    for (ty, given, made) in [
        ("number", json!(true), json!(1)),
        ("number", json!(2.5), json!(2.5)),
        ("number", json!("3"), json!(3)),
        ("number", json!(" 1_000 "), json!(1000)),
        ("number", json!("2.5"), json!(2.5)),
        ("number", json!("1e5"), json!(0)),
        ("number", json!("many"), json!(0)),
        ("number", json!(null), json!(0)),
        ("boolean", json!(1), json!(true)),
        ("boolean", json!(0), json!(false)),
        ("boolean", json!("true"), json!(false)),
        ("string", json!("x"), json!("x")),
        ("string", json!(5), json!("")),
        ("string", json!(null), json!("")),
        ("array[number]", json!(["1", "x", 2.5, {}]), json!([1, 2.5])),
        ("array[string]", json!(["a", 5]), json!(["a"])),
        ("array[object]", json!([{"a": 1}, 1]), json!([{"a": 1}])),
        ("array[boolean]", json!([true, 1, false]), json!([true, false])),
        ("array[string]", json!("a"), json!([])),
    ] {
        let parameters = parameters(&[("p", ty, false)]);
        let extracted = extract(&parameters, None, &json!({"p": given, "other": 1}).to_string(), true);
        assert_eq!(extracted.values.len(), 1);
        assert_eq!(extracted.values[0].1.value, made, "{ty} {given}");
        if let Some(list) = parameters[0].ty.list() {
            assert_eq!(extracted.values[0].1.ty, list);
        }
    }
}

#[test]
fn the_first_mistake_is_reported_as_on_dify_and_values_are_kept() {
    let wrong = |name: &str, expected: &str, actual: &str, class: &str, value: &str| {
        format!(
            "Invalid value for parameter {name}, expected segment type: {expected}, actual_type: {actual}, python_type: <class '{class}'>, value: {value}"
        )
    };
    for (list, reply, reason) in [
        (&[("a", "string", true)][..], json!({"a": "x"}), None),
        (&[("a", "number", true)], json!({"a": true}), None),
        (&[("a", "array[number]", true)], json!({"a": []}), None),
        (
            &[("a", "string", true), ("b", "string", false)],
            json!({"a": "x"}),
            Some("Invalid number of parameters".into()),
        ),
        (&[("a", "string", true)], json!({"a": "x", "z": 1}), Some("Invalid number of parameters".into())),
        (&[("a", "string", true)], json!({"z": 1}), Some("Parameter a is required".into())),
        (&[("a", "string", false)], json!({"z": 1}), Some(wrong("a", "string", "none", "NoneType", "None"))),
        (&[("a", "number", true)], json!({"a": "2.5"}), Some(wrong("a", "number", "string", "str", "2.5"))),
        (&[("a", "boolean", true)], json!({"a": 1}), Some(wrong("a", "boolean", "integer", "int", "1"))),
        (
            &[("a", "string", true)],
            json!({"a": []}),
            Some(wrong("a", "string", "array[number]", "list", "[]")),
        ),
        (
            &[("a", "array[string]", true)],
            json!({"a": ["x", 5]}),
            Some(wrong("a", "array[string]", "array[any]", "list", "['x', 5]")),
        ),
    ] {
        assert_eq!(extract(&parameters(list), None, &reply.to_string(), true).reason, reason, "{reply}");
    }
    let mut unit = parameters(&[("unit", "select", false)]);
    unit[0].options = Some(vec!["C".into(), "F".into()]);
    let extracted = extract(&unit, None, "{\"unit\": \"K\"}", true);
    assert_eq!(extracted.reason.as_deref(), Some("Invalid `select` value for parameter unit"));
    assert_eq!(extracted.values[0].1.value, "K");
}

#[test]
fn a_call_wins_over_the_text_also_when_it_cannot_be_read() {
    let call = |arguments: &str| ToolCall { id: "1".into(), name: "any".into(), arguments: arguments.into() };
    let city = parameters(&[("city", "string", true)]);
    let extracted = extract(&city, Some(&call("{\"city\": \"Rome\"}")), "{\"city\": \"Oslo\"}", true);
    assert_eq!((extracted.values[0].1.value.as_str(), extracted.reason), (Some("Rome"), None));
    let extracted = extract(&city, Some(&call("")), "{\"city\": \"Oslo\"}", true);
    assert_eq!(extracted.values[0].1.value, "");
    assert_eq!(extracted.reason.as_deref(), Some("Invalid number of parameters"));
}

#[test]
fn without_any_object_there_are_defaults_and_a_reason() {
    for (list, reason) in [
        (
            &[("a", "string", true), ("b", "number", true)][..],
            "Failed to extract result from function call or text response, using empty result.",
        ),
        (&[("a", "string", true), ("b", "array[string]", false)], "Invalid number of parameters"),
    ] {
        for reply in ["no idea", "{}"] {
            assert_eq!(
                extract(&parameters(list), None, reply, true).reason.as_deref(),
                Some(reason),
                "{reply}"
            );
        }
    }
}

#[test]
fn an_optional_parameter_may_be_absent_or_null() {
    const COUNT: &str = "Invalid number of parameters";
    const NOTHING: &str = "Failed to extract result from function call or text response, using empty result.";
    let mixed = &[("a", "string", true), ("b", "number", false), ("c", "array[string]", false)][..];
    let optional = &[("b", "number", false)][..];
    for (list, reply, reason, on_dify) in [
        (mixed, "{\"a\": \"x\"}", None, Some(COUNT)),
        (mixed, "{\"a\": \"x\", \"b\": null}", None, Some(COUNT)),
        (mixed, "{\"a\": \"x\", \"b\": 1, \"c\": []}", None, None),
        (mixed, "{\"b\": 1}", Some(COUNT), Some(COUNT)),
        (mixed, "{\"a\": \"x\", \"z\": 1}", Some(COUNT), Some(COUNT)),
        (
            mixed,
            "{\"b\": 1, \"c\": [], \"z\": 1}",
            Some("Parameter a is required"),
            Some("Parameter a is required"),
        ),
        (mixed, "no idea", Some(NOTHING), Some(COUNT)),
        (optional, "{}", None, Some(NOTHING)),
        (optional, "no idea", Some(NOTHING), Some(NOTHING)),
    ] {
        for (requires_all, reason) in [(false, reason), (true, on_dify)] {
            let extracted = extract(&parameters(list), None, reply, requires_all);
            assert_eq!(extracted.reason.as_deref(), reason, "{reply} {requires_all}");
        }
    }
    let values = extract(&parameters(mixed), None, "{\"a\": \"x\", \"b\": null}", false).values;
    let values: Vec<Json> = values.into_iter().map(|(_, value)| value.value).collect();
    assert_eq!(values, [json!("x"), json!(0), json!([])]);
}
