use super::*;
use crate::dsl::Severity;
use crate::graph::import;
use crate::nodes::SOURCE_HANDLE;
use crate::nodes::condition::tests::Pool;
use crate::nodes::parse::tests::paths_of;
use serde_json::json;
use tidemill_base::value::{Segment, SegmentType};

fn object(value: Json) -> JsonMap {
    value.as_object().expect("an object").clone()
}

fn parse(data: Json) -> HumanInputData {
    let mut problems = Problems::new();
    let parsed = HumanInputData::parse(&object(data), &mut problems);
    parsed.unwrap_or_else(|| panic!("{:?}", problems.into_vec()))
}

fn run(data: Json, pool: &Pool) -> NodeResult {
    match parse(data) {
        HumanInputData::Form(form) => form.evaluate(pool),
        HumanInputData::Simple(simple) => simple.evaluate("me", pool),
    }
}

fn paused(data: Json, pool: &Pool) -> PauseRequest {
    let result = run(data, pool);
    *result.pause.clone().unwrap_or_else(|| panic!("{result:?}"))
}

fn outputs(result: &NodeResult) -> Json {
    assert_eq!((&result.failure, &result.pause), (&None, &None));
    result
        .outputs
        .iter()
        .map(|(name, segment)| (name.clone(), segment.value.clone()))
        .collect::<JsonMap>()
        .into()
}

fn constant(options: Json) -> Json {
    json!({"type": "constant", "selector": [], "value": options})
}

fn variable(path: [&str; 2]) -> Json {
    json!({"type": "variable", "selector": path, "value": null})
}

fn field(kind: &str, more: Json) -> Json {
    let mut field = object(json!({"type": kind, "output_variable_name": "f"}));
    field.extend(object(more));
    field.into()
}

/// A form of one field `f` and the button `ok`.
fn form_of(field: Json) -> Json {
    json!({"form_content": "[{{#$output.f#}}]", "inputs": [field], "user_actions": [{"id": "ok", "title": "Fine"}]})
}

/// Checks one value for the field; returns the form's text with the answer filled in.
fn answer(field: Json, value: Json) -> Result<String, String> {
    let pause = paused(form_of(field), &Pool::new(json!({"n": {"list": ["a", "b"]}})));
    let submitted =
        check_answer(&pause, "ok", &object(json!({"f": value}))).map_err(|error| error.to_string())?;
    let outputs = outputs(&answered(&pause, "ok", &submitted));
    Ok(outputs["__rendered_content"].as_str().expect("a text").to_owned())
}

mod parsing {
    use super::*;

    #[test]
    fn each_wrong_field_is_reported_at_its_path() {
        let field = |name: &str| json!({"output_variable_name": name, "type": "paragraph"});
        let of_kind = |kind: &str, more: Json| json!({"inputs": [super::field(kind, more)]});
        let button = |id: &str| json!({"id": id, "title": "T"});
        let check = |data: &JsonMap, problems: &mut Problems| {
            let parsed = HumanInputData::parse(data, problems);
            assert_eq!(parsed.is_none(), problems.has_errors());
        };
        assert_eq!(
            paths_of(check, json!({"inputs": [field("a")], "user_actions": [button("ok")]})),
            Vec::<String>::new()
        );
        for (data, path) in [
            (json!({"inputs": 5}), "inputs"),
            (json!({"inputs": [5]}), "inputs[0]"),
            (json!({"inputs": [{}]}), "inputs[0].output_variable_name"),
            (json!({"inputs": [field("a"), field("a")]}), "inputs[1]"),
            (
                json!({"inputs": [{"output_variable_name": "a", "default": {"type": "variable", "selector": ["x"]}}]}),
                "inputs[0].default",
            ),
            (of_kind("paragraph", json!({"default": 5})), "inputs[0].default"),
            (
                of_kind("paragraph", json!({"default": {"type": "constant", "value": 5}})),
                "inputs[0].default.value",
            ),
            (of_kind("paragraph", json!({"placeholder": {"type": "sum"}})), "inputs[0].placeholder.type"),
            (of_kind("number", json!({})), "inputs[0].type"),
            (of_kind("select", json!({})), "inputs[0].option_source"),
            (
                of_kind("select", json!({"option_source": variable(["x", "y"])["selector"]})),
                "inputs[0].option_source",
            ),
            (
                of_kind("select", json!({"option_source": constant(json!([1]))})),
                "inputs[0].option_source.value",
            ),
            (of_kind("file", json!({"allowed_file_types": ["film"]})), "inputs[0].allowed_file_types"),
            (of_kind("file", json!({"allowed_file_types": ["custom"]})), "inputs[0].allowed_file_extensions"),
            (
                of_kind("file", json!({"allowed_file_upload_methods": ["tool_file"]})),
                "inputs[0].allowed_file_upload_methods",
            ),
            (of_kind("file-list", json!({"number_limits": -1})), "inputs[0].number_limits"),
            (json!({"user_actions": [button("a"), button("a")]}), "user_actions[1]"),
            (json!({"user_actions": [button("1a")]}), "user_actions[0]"),
            (json!({"user_actions": [button("abcdefghijklmnopqrstu")]}), "user_actions[0]"),
            (json!({"user_actions": [{"id": "a", "title": "T".repeat(101)}]}), "user_actions[0]"),
            (
                json!({"user_actions": [{"id": "a", "title": "T", "button_style": "loud"}]}),
                "user_actions[0].button_style",
            ),
            (json!({"form_content": 5}), "form_content"),
            (json!({"timeout": 0}), "timeout"),
            (json!({"timeout_unit": "week"}), "timeout_unit"),
            (json!({"required_variables": "a.b"}), "required_variables"),
            (json!({"pause_reason": 5}), "pause_reason"),
            (json!({"version": "2", "form_content": "", "user_actions": []}), "version"),
            (json!({"recipients_spec": []}), "recipients_spec"),
        ] {
            assert_eq!(paths_of(check, data.clone()), [path], "{data}");
        }
    }

    #[test]
    fn a_configuration_that_cannot_work_gives_a_warning() {
        let email = json!([{"id": "d", "type": "email", "enabled": true, "config": {}}, {"type": "webapp"}]);
        let off = json!([{"id": "d", "type": "email", "enabled": false}]);
        let button = json!([{"id": "ok", "title": "OK"}]);
        for (data, code) in [
            (json!({"user_actions": button, "delivery_methods": email}), Some("human_input.no_email")),
            (json!({"user_actions": button, "delivery_methods": off}), None),
            (json!({"form_content": "x"}), Some("human_input.no_actions")),
            (json!({"required_variables": ["a"]}), Some("human_input.never_ready")),
            (json!({"required_variables": ["a.b"]}), None),
        ] {
            let mut problems = Problems::new();
            assert!(HumanInputData::parse(&object(data.clone()), &mut problems).is_some());
            let found: Vec<&str> = problems
                .into_vec()
                .iter()
                .inspect(|found| assert_eq!(found.severity, Severity::Warning))
                .map(|found| found.code)
                .collect();
            assert_eq!(found, Vec::from_iter(code), "{data}");
        }
    }

    #[test]
    fn a_node_is_a_form_unless_only_the_simple_version_has_its_keys() {
        for (data, is_form) in [
            (json!({}), true),
            (json!({"user_actions": []}), true),
            (json!({"required_variables": []}), false),
            (json!({"pause_reason": null}), false),
            (json!({"required_variables": ["a.b"], "form_content": "x"}), true),
        ] {
            assert_eq!(matches!(parse(data.clone()), HumanInputData::Form(_)), is_form, "{data}");
        }
    }

    #[test]
    fn mentions_are_all_that_is_read() {
        let form = parse(json!({
            "form_content": "{{#a.b#}} {{#$output.f#}}",
            "inputs": [
                {"type": "paragraph", "output_variable_name": "f", "default": variable(["c", "d"])},
                {"type": "select", "output_variable_name": "g", "option_source": variable(["e", "f"])},
                {"type": "select", "output_variable_name": "h", "option_source": constant(json!([]))},
            ],
        }));
        let mut into = Vec::new();
        form.mentions("me", &mut into);
        for (node, name) in [("a", "b"), ("c", "d"), ("e", "f")] {
            assert!(into.contains(&(node.into(), name.into())), "{into:?}");
        }
        into.clear();
        parse(json!({"required_variables": ["a.b", "a", "a.b.c"]})).mentions("me", &mut into);
        assert_eq!(into.len(), 1 + 9);
        assert_eq!(into[0], ("a".into(), "b".into()));
        assert_eq!(into[9], ("me".into(), "handle".into()));
    }
}

mod form {
    use super::*;

    #[test]
    fn a_form_shows_values_and_keeps_the_places_of_its_fields() {
        let secret = Segment::new(SegmentType::Secret, json!("sk-1234567890"));
        let pool = Pool::new(json!({"n": {"list": ["a", "b"], "o": {"k": 1}}})).with("env", "KEY", secret);
        let pause = paused(
            json!({
                "form_content": "{{#n.list#}} {{#env.KEY#}} {{#n.gone#}} {{#$output.f#}} {{#$outputs.f#}}",
                "inputs": [
                    {"type": "text_input", "output_variable_name": "t", "default": variable(["env", "KEY"])},
                    {"type": "paragraph", "output_variable_name": "o", "default": variable(["n", "o"])},
                    {"type": "paragraph", "output_variable_name": "gone", "default": variable(["n", "gone"])},
                    {"type": "paragraph", "output_variable_name": "c", "default": constant(json!("here"))},
                    {"type": "select", "output_variable_name": "s", "option_source": variable(["n", "list"])},
                    {"type": "file-list", "output_variable_name": "l", "number_limits": "2"},
                ],
                "user_actions": [{"id": "ok", "title": "OK"}],
                "timeout": "2",
                "timeout_unit": "day",
            }),
            &pool,
        );
        let masked = "sk-123************90";
        assert_eq!(
            pause.content,
            format!("- a\n- b {masked} n.gone {{{{#$output.f#}}}} {{{{#$outputs.f#}}}}")
        );
        assert_eq!(pause.defaults, json!({"t": masked, "o": {"k": 1}}));
        assert_eq!(pause.inputs[0]["type"], "paragraph");
        assert_eq!(
            pause.inputs[4],
            json!({"type": "select", "output_variable_name": "s",
                   "option_source": {"type": "variable", "selector": ["n", "list"], "value": ["a", "b"]}})
        );
        assert_eq!(pause.inputs[5]["number_limits"], 2);
        assert_eq!(pause.actions, json!([{"id": "ok", "title": "OK", "button_style": "default"}]));
        assert_eq!((pause.kind, pause.timeout_s), (crate::nodes::PauseKind::Form, Some(2 * 24 * 3600)));
    }

    #[test]
    fn a_form_waits_hours_or_days_and_a_century_at_most() {
        for (data, seconds) in [
            (json!({}), 36 * 3600),
            (json!({"timeout": 3}), 3 * 3600),
            (json!({"timeout": 3, "timeout_unit": "hour"}), 3 * 3600),
            (json!({"timeout": 3, "timeout_unit": "day"}), 3 * 86_400),
            (json!({"timeout": i64::MAX, "timeout_unit": "day"}), 36_600 * 86_400),
        ] {
            assert_eq!(paused(data, &Pool::new(json!({}))).timeout_s, Some(seconds));
        }
    }

    #[test]
    fn options_of_a_variable_must_be_texts() {
        let data = form_of(field("select", json!({"option_source": variable(["n", "v"])})));
        for (value, ty) in [(json!([1]), "array[number]"), (json!([]), "array[any]"), (json!("a"), "string")]
        {
            let failure =
                run(data.clone(), &Pool::new(json!({"n": {"v": value}}))).failure.expect("a failure");
            assert_eq!(failure.error_type, "WorkflowNodeError");
            assert_eq!(
                failure.message,
                format!("the options of select input 'f' must be array[string], but n.v is {ty}")
            );
        }
        assert_eq!(paused(data, &Pool::new(json!({}))).inputs[0]["option_source"]["value"], json!([]));
    }
}

mod answers {
    use super::*;

    #[test]
    fn values_are_checked_in_difys_words() {
        let options = json!({"option_source": constant(json!(["warm", "cold"]))});
        let of_variable = json!({"option_source": variable(["n", "list"])});
        let png = |more: Json| {
            let mut file = object(
                json!({"type": "image", "transfer_method": "remote_url", "url": "http://h/x.PNG?y=z"}),
            );
            file.extend(object(more));
            Json::Object(file)
        };
        let documents = json!({"allowed_file_types": ["document"]});
        let custom = json!({"allowed_file_types": ["custom"], "allowed_file_extensions": [".png"]});
        let local = json!({"allowed_file_upload_methods": ["local_file"]});
        let two = json!({"number_limits": 2});
        let file = |reason: &str| format!("Invalid value for file input 'f': {reason}");
        let list = |reason: &str| format!("Invalid value for file list input 'f': {reason}");
        let select = |reason: &str| format!("Invalid value for select input 'f': {reason}");
        let denied = "file is not allowed by config";
        for (kind, config, value, expected) in [
            ("paragraph", json!({}), json!("fine {{#$output.f#}}"), Ok("[fine {{#$output.f#}}]")),
            ("paragraph", json!({}), json!(null), Ok("[]")),
            ("paragraph", json!({}), json!([1, true]), Ok("[[1, True]]")),
            ("select", options.clone(), json!("warm"), Ok("[warm]")),
            ("select", options.clone(), json!("hot"), Err(select("hot"))),
            ("select", options, json!(["warm"]), Err(select("expected string"))),
            ("select", of_variable, json!("anything"), Ok("[anything]")),
            ("file", json!({}), png(json!({})), Ok("[[file]]")),
            ("file", json!({}), json!("http://h/x.png"), Err(file("expected mapping"))),
            ("file", json!({}), png(json!({"type": "film"})), Err(file("unsupported file type"))),
            (
                "file",
                json!({}),
                png(json!({"transfer_method": null})),
                Err(file("unsupported transfer method")),
            ),
            ("file", documents.clone(), png(json!({})), Err(file(denied))),
            ("file", documents, png(json!({"transfer_method": "tool_file"})), Ok("[[file]]")),
            ("file", custom.clone(), png(json!({})), Ok("[[file]]")),
            ("file", custom.clone(), png(json!({"filename": "x.gif"})), Err(file(denied))),
            ("file", custom, png(json!({"type": "custom", "extension": "PNG"})), Ok("[[file]]")),
            ("file", local, png(json!({})), Err(file(denied))),
            ("file-list", two.clone(), json!([png(json!({})), png(json!({}))]), Ok("[[2 files]]")),
            ("file-list", two.clone(), json!([{}, {}, {}]), Err(list("exceeds number limit"))),
            ("file-list", two.clone(), json!([{}, 5]), Err(list("expected list of mappings"))),
            ("file-list", two.clone(), json!({}), Err(list("expected list"))),
            ("file-list", two.clone(), json!([{}]), Err(file("unsupported file type"))),
            ("file-list", two, json!([]), Ok("[[0 files]]")),
        ] {
            let found = answer(field(kind, config.clone()), value.clone());
            assert_eq!(found, expected.map(str::to_owned), "{kind} {config} {value}");
        }
    }

    #[test]
    fn all_problems_are_reported_in_the_order_of_difys_checks() {
        let paragraph = |name: &str| json!({"type": "paragraph", "output_variable_name": name});
        let select = field("select", json!({"option_source": constant(json!(["a"]))}));
        let data = json!({"inputs": [paragraph("x"), select, paragraph("y")], "user_actions": [{"id": "ok", "title": "OK"}]});
        let pause = paused(data, &Pool::new(json!({})));
        let error = check_answer(&pause, "no", &object(json!({"f": "b"}))).unwrap_err();
        assert_eq!(
            error.problems,
            [
                AnswerProblem::UnknownAction("no".into()),
                AnswerProblem::MissingInputs(vec!["x".into(), "y".into()]),
                AnswerProblem::InvalidValue { kind: "select", name: "f".into(), reason: "b".into() },
            ]
        );
        assert_eq!(
            error.to_string(),
            "Invalid action: no; Missing required inputs: x, y; Invalid value for select input 'f': b"
        );
    }

    #[test]
    fn files_keep_their_type_and_an_empty_list_has_none() {
        let pause = paused(form_of(field("file-list", json!({}))), &Pool::new(json!({})));
        let ty = |value: Json| answered(&pause, "ok", &object(json!({"f": value}))).outputs[0].1.ty;
        assert_eq!(ty(json!([{"type": "image"}])), SegmentType::ArrayFile);
        assert_eq!(ty(json!([])), SegmentType::ArrayAny);
        let pause = paused(form_of(field("file", json!({}))), &Pool::new(json!({})));
        let result = answered(&pause, "ok", &object(json!({"f": {"type": "image"}})));
        assert_eq!(result.outputs[0].1, Segment::restore_files(result.outputs[0].1.value.clone()));
    }

    #[test]
    fn a_form_without_actions_is_answered_without_one() {
        let pause = paused(json!({"form_content": "Read this"}), &Pool::new(json!({})));
        let error = check_answer(&pause, "ok", &JsonMap::new()).unwrap_err();
        assert_eq!(error.to_string(), "Invalid action: ok");
        let submitted = check_answer(&pause, "", &JsonMap::new()).unwrap();
        let result = answered(&pause, "", &submitted);
        assert_eq!(result.handle, SOURCE_HANDLE);
        assert_eq!(
            outputs(&result),
            json!({"__action_id": "", "__action_value": "", "__rendered_content": "Read this"})
        );
        // A form with actions refuses an empty action.
        let pause = paused(json!({"user_actions": [{"id": "ok", "title": "OK"}]}), &Pool::new(json!({})));
        assert!(check_answer(&pause, "", &JsonMap::new()).is_err());
    }
}

mod simple {
    use super::*;

    #[test]
    fn it_goes_on_when_everything_is_there() {
        let data = |required: Json| json!({"required_variables": required, "pause_reason": "needs approval"});
        let pool = Pool::new(json!({"gate": {"yes": true, "null": null}}));
        for (required, goes_on) in [
            (json!(["gate.yes"]), true),
            (json!(["gate.yes", "gate.null"]), true),
            (json!(["gate.yes", "gate.no"]), false),
            (json!(["gate.yes.more"]), false),
            (json!(["gate"]), false),
            (json!([]), false),
        ] {
            let result = run(data(required.clone()), &pool);
            assert_eq!(result.pause.is_none(), goes_on, "{required}");
            match result.pause {
                Some(pause) => {
                    assert_eq!((pause.message.as_str(), pause.timeout_s), ("needs approval", None))
                }
                None => assert_eq!((result.outputs, result.handle.as_str()), (Vec::new(), SOURCE_HANDLE)),
            }
        }
    }

    #[test]
    fn a_variable_of_its_own_names_the_handle() {
        let default = |value: &str| json!([{"key": "branch", "type": "string", "value": value}]);
        for (own, defaults, handle) in [
            (json!({"handle": " a ", "branch": "b"}), json!([]), "b"),
            (json!({"handle": " a ", "branch": " "}), json!([]), "a"),
            (json!({"edge_source_handle": {"value": "v", "branch": "b"}, "handle": "a"}), json!([]), "b"),
            (json!({"edge_source_handle": {"other": "x"}, "handle": "a"}), json!([]), "a"),
            (json!({"handle": 5}), default("d"), "d"),
            (json!({"handle": "a"}), default("d"), "a"),
            (json!({}), json!([]), "source"),
        ] {
            let pool = Pool::new(json!({"me": own, "gate": {"yes": 1}}));
            let data = |required: &str| json!({"required_variables": [required], "default_value": defaults});
            assert_eq!(run(data("gate.yes"), &pool).handle, handle, "{own} {defaults}");
            // The same handle is used when the answer gives none.
            let pause = paused(data("gate.no"), &pool);
            let submitted = check_answer(&pause, "", &object(json!({"x": 1}))).unwrap();
            assert_eq!(submitted, JsonMap::new());
            assert_eq!(answered(&pause, "", &submitted).handle, handle);
            assert_eq!(answered(&pause, " other ", &submitted).handle, "other");
        }
    }
}

mod observed {
    //! The forms of the conformance corpus, as far as this node is concerned.
    use super::*;

    /// The pause of a node of the corpus, compared with the corpus's form, and the case.
    fn form(name: &str, node: &str, pool: Json) -> (PauseRequest, Json) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/cases");
        let read =
            |file: &str| std::fs::read(format!("{folder}/{name}/{file}")).expect("a file of the corpus");
        let case: Json = serde_json::from_slice(&read("case.json")).expect("JSON");
        let document = import(&read("workflow.yml")).document.expect("a document");
        let data = &document.nodes.iter().find(|found| found.id == node).expect("the node").data;
        let pause = paused(Json::Object(data.clone()), &Pool::new(pool));
        // When the order of two forms was undetermined, the corpus shows neither.
        if let Some(expected) = case["expect"]["forms"].get(node) {
            assert_eq!(shown(data, &pause), *expected, "{name}");
        }
        (pause, case)
    }

    fn shown(data: &JsonMap, pause: &PauseRequest) -> Json {
        let part = |list: &Json, read: fn(&Json) -> Json| -> Json {
            list.as_array().expect("a list").iter().map(read).collect()
        };
        json!({
            "title": data["title"],
            "content": pause.content,
            "inputs": part(&pause.inputs, |field| field["output_variable_name"].clone()),
            "actions": part(&pause.actions, |action| json!([action["id"], action["title"]])),
            "defaults": pause.defaults,
        })
    }

    fn given(pause: &PauseRequest, answer: &Json) -> NodeResult {
        let (action, inputs) =
            (answer["action"].as_str().expect("an action"), object(answer["inputs"].clone()));
        let submitted = check_answer(pause, action, &inputs).expect("an answer that fits");
        answered(pause, action, &submitted)
    }

    #[test]
    fn every_form_is_shown_and_takes_its_answers() {
        let failed = json!({"h": {"error_message": "Request failed with status code 500"}});
        for (name, node, pool, handle, content) in [
            (
                "human_input_after_error",
                "ask",
                failed,
                "stop",
                "It failed: Request failed with status code 500",
            ),
            ("human_input_inside_iteration", "ok", json!({"it": {"item": "Bo"}}), "yes", "Greet Bo? Hi"),
            ("human_input_inside_loop", "ask", json!({"lp": {"tries": 0}}), "send", "Try 0: no"),
        ] {
            let (pause, case) = form(name, node, pool);
            let result = given(&pause, &case["resume"][0]["human_input"]);
            assert_eq!(result.handle, handle, "{name}");
            assert_eq!(outputs(&result)["__rendered_content"], content, "{name}");
        }
        for (node, answer, handle) in [("right", 0, "stop"), ("left", 1, "go")] {
            let (pause, case) = form("human_input_parallel_forms", node, json!({"start": {"a": "x"}}));
            assert_eq!(given(&pause, &case["resume"][0]["human_inputs"][answer]).handle, handle);
        }
    }

    #[test]
    fn an_approved_draft_has_the_answer_in_its_text() {
        let (pause, case) = form("human_input_approve", "review", json!({"draft": {"text": "dear all"}}));
        let result = given(&pause, &case["resume"][0]["human_input"]);
        assert_eq!(result.handle, "approve");
        let inputs = [("note", "fine"), ("tone", "warm")];
        assert_eq!(result.inputs, inputs.map(|(name, text)| (name.to_owned(), Segment::string(text))));
        assert_eq!(
            outputs(&result),
            json!({"note": "fine", "tone": "warm", "__action_id": "approve", "__action_value": "Approve it",
                   "__rendered_content": "Draft:\ndear all\n\nYour note: fine / warm"})
        );
    }

    #[test]
    fn a_form_that_expired_has_no_action() {
        let (pause, case) = form("human_input_timeout", "review", json!({"draft": {"text": "dear all"}}));
        assert_eq!(case["resume"][0]["human_input"]["timeout"], true);
        let result = expired(&pause);
        assert_eq!((result.handle.as_str(), result.inputs.len()), ("__timeout", 0));
        assert_eq!(
            outputs(&result),
            json!({"__action_id": "", "__action_value": "", "__rendered_content": pause.content})
        );
    }
}
