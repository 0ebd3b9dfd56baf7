use std::borrow::Cow;

use serde_json::{Value as Json, json};

use super::prompt::{Prompt, assemble};
use super::record::Inputs;
use super::*;
use crate::dsl::Diagnostic;
use crate::failure::NodeFailure;
use crate::nodes::evaluate::UndefinedNames;
use crate::value::template::tests::Pool;
use crate::value::{Lookup, Segment, SegmentType, Variables};

fn parse(data: Json) -> Result<LlmData, Vec<Diagnostic>> {
    let Json::Object(map) = data else { panic!("data is an object") };
    let mut problems = Problems::new();
    let parsed = LlmData::parse(&map, &mut problems);
    assert_eq!(parsed.is_none(), problems.has_errors());
    parsed.ok_or_else(|| problems.into_vec())
}

/// A chat node with these changes.
fn node(changes: Json) -> LlmData {
    let mut data = json!({
        "model": {"provider": "a/b/c", "name": "m", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "hi"}],
        "context": {"enabled": false, "variable_selector": []}
    });
    for (key, value) in changes.as_object().unwrap() {
        data[key] = value.clone();
    }
    parse(data).unwrap()
}

fn pool() -> Pool {
    let image = json!({"dify_model_identity": "__dify__file__", "type": "image"});
    Pool::new(json!({
        "start": {"topic": "tea", "points": ["a", "b"], "nul": null, "o": {"k": "K"}, "n": 0.7, "yes": true, "image": image},
        "sys": {"query": "why {{#start.topic#}}?", "files": [image]}
    }))
}

fn run(changes: Json) -> (Result<Prompt, NodeFailure>, Inputs) {
    let mut inputs = Inputs::new();
    let prompt = assemble(&node(changes), &pool(), UndefinedNames::Empty, &mut inputs);
    (prompt, inputs)
}

fn messages(changes: Json) -> Json {
    let prompt = run(changes).0.unwrap();
    prompt.messages.iter().map(|m| json!([m.role.name(), m.joined_text()])).collect()
}

#[test]
fn messages_are_filled_in_and_empty_ones_left_out() {
    let changes = json!({
        "context": {"enabled": true, "variable_selector": ["start", "topic"]},
        "prompt_template": [
            {"role": "system", "text": "Context: {{#context#}}"},
            {"role": "user", "text": "About {{#start.topic#}} / {{#start.points#}} / [{{#start.nul#}}]"},
            {"role": "assistant", "text": ""},
            {"role": "user", "text": "{{#sys.query#}}", "edition_type": "basic"}
        ]
    });
    let expected = json!([
        ["system", "Context: tea"],
        ["user", "About tea / [\"a\", \"b\"] / []"],
        ["user", "why {{#start.topic#}}?"]
    ]);
    assert_eq!(messages(changes), expected);
}

#[test]
fn a_completion_begins_with_a_line_break_unless_it_has_a_place_for_the_history() {
    for (template, memory, text) in [
        (json!({"text": "Q {{#start.topic#}}"}), json!(null), "\nQ tea"),
        (json!({"text": "H {{#histories#}} Q"}), json!(null), "H {{}} Q"),
        (
            json!({"text": "Q"}),
            json!({"window": {"enabled": false}, "query_prompt_template": "{{#sys.query#}}"}),
            "{{#sys.query#}}\n\nQ",
        ),
    ] {
        let changes = json!({"prompt_template": template, "memory": memory});
        assert_eq!(messages(changes), json!([["user", text]]), "{text:?}");
    }
}

#[test]
fn outside_a_conversation_memory_only_adds_the_question() {
    for (template, text) in [("asked: {{#start.topic#}}", "asked: tea"), ("", "why tea?")] {
        let memory = json!({"window": {"enabled": true, "size": 3}, "query_prompt_template": template});
        assert_eq!(
            messages(json!({"memory": memory})),
            json!([["user", "hi"], ["user", text]]),
            "{template:?}"
        );
    }
}

#[test]
fn jinja_messages_see_the_declared_variables_only() {
    let changes = json!({
        "prompt_config": {"jinja2_variables": [
            {"variable": "items", "value_selector": ["start", "points"]},
            {"variable": "gone", "value_selector": ["start", "nul"]}
        ]},
        "prompt_template": [
            {"role": "system", "edition_type": "jinja2", "text": "ignored",
             "jinja2_text": "{% for i in items %}[{{ i }}]{% endfor %} {{ gone }}"},
            {"role": "user", "edition_type": "jinja2", "jinja2_text": ""},
            {"role": "user", "text": "static"}
        ]
    });
    assert_eq!(messages(changes.clone()), json!([["system", "[a][b] None"], ["user", "static"]]));
    let (_, inputs) = run(changes);
    assert_eq!(inputs[0], ("items".into(), Segment::string("a\nb")));
    assert_eq!(inputs[1], ("gone".into(), Segment::string("")));
}

#[test]
fn passages_of_a_knowledge_base_become_lines_of_context() {
    let text = |items: Json| {
        let pool = Pool::new(json!({"k": {"result": items}}));
        context::text(&["k".into(), "result".into()], &pool)
    };
    for (items, expected) in [
        (json!(["a", "b"]), "a\nb"),
        (json!([{"content": "c", "summary": "s"}, {"content": "d", "summary": ""}]), "s\nc\nd"),
        (json!(" as it is "), " as it is "),
        (json!([]), ""),
        (json!(5), ""),
    ] {
        assert_eq!(text(items.clone()).unwrap(), expected, "{items}");
    }
    let failure = text(json!([{"title": "t"}])).unwrap_err();
    assert_eq!(failure.error_type, "InvalidContextStructureError");
}

#[test]
fn parameters_are_filled_in_and_stop_stands_apart() {
    let long = "x".repeat(1100);
    let given = json!({
        "stop": ["END"], "temperature": "{{#start.n#}}", "note": "n {{#start.topic#}}", "flag": "{{#start.yes#}}",
        "kept": "{{#foo#}}", "list": "{{#start.points#}}", "top_p": 1, "plain": "0.5", "long": format!("{long}{{{{#start.topic#}}}}")
    });
    let Json::Object(given) = given else { panic!() };
    let params = params::resolve(&given, &pool());
    assert_eq!(params.stop, ["END"]);
    assert_eq!(
        Json::Object(params.values),
        json!({
            "temperature": 0.7, "note": "n tea", "flag": "True", "kept": "{{#foo#}}", "list": "[\"a\", \"b\"]",
            "top_p": 1, "plain": "0.5", "long": "x".repeat(1024)
        })
    );
    for stop in [json!("END"), json!(null), json!({})] {
        let Json::Object(given) = json!({"stop": stop}) else { panic!() };
        assert_eq!(params::resolve(&given, &pool()), params::Params::default());
    }
}

#[test]
fn the_record_keeps_hash_marks_and_what_was_known_before_a_failure() {
    let changes = json!({"prompt_template": [{"role": "user", "text": "{{#start.nul#}}{{#start.topic#}}{{#start.nul#}}"}]});
    let (_, inputs) = run(changes);
    let shown: Vec<_> = inputs.iter().map(|(key, value)| (key.as_str(), value.value.clone())).collect();
    assert_eq!(
        shown,
        [
            ("#start.nul#", json!("")),
            ("#start.topic#", json!("tea")),
            ("model_provider", json!("a/b/c")),
            ("model_name", json!("m"))
        ]
    );
    let (prompt, inputs) =
        run(json!({"prompt_template": [{"role": "user", "text": "{{#start.topic#}}{{#ghost.text#}}"}]}));
    assert_eq!(prompt.unwrap_err().message, "Variable #ghost.text# not found");
    assert_eq!(inputs.len(), 1);
}

#[test]
fn secrets_are_sent_and_never_recorded() {
    struct Environment(Segment);
    impl Variables for Environment {
        fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
            let found = (node, name) == ("env", "KEY");
            if found { Lookup::Found(Cow::Borrowed(&self.0)) } else { Lookup::Missing }
        }
        fn names(&self) -> Vec<(String, String)> {
            Vec::new()
        }
    }
    let pool = Environment(Segment::new(SegmentType::Secret, json!("sk-hidden-key")));
    let data = node(json!({
        "context": {"enabled": true, "variable_selector": ["env", "KEY"]},
        "prompt_template": [{"role": "user", "text": "{{#env.KEY#}} {{#context#}}"}],
        "prompt_config": {"jinja2_variables": [{"variable": "v", "value_selector": ["env", "KEY"]}]}
    }));
    let mut inputs = Inputs::new();
    let prompt = assemble(&data, &pool, UndefinedNames::Empty, &mut inputs).unwrap();
    assert_eq!(prompt.messages[0].joined_text(), "sk-hidden-key sk-hidden-key");
    assert_eq!(inputs.len(), 5);
    let shown = format!("{inputs:?} {} {:?}", prompt.record(ModelMode::Chat), prompt.secrets);
    assert!(!shown.contains("hidden-key"), "{shown}");
}

#[test]
fn what_cannot_be_asked_fails_under_difys_names() {
    let user = |text: &str| json!([{"role": "user", "text": text}]);
    let memory = json!({"window": {"enabled": true}, "query_prompt_template": "{{#ghost.q#}}"});
    for (changes, error_type, message) in [
        (
            json!({"prompt_template": user("{{#ghost.text#}}")}),
            "VariableNotFoundError",
            "Variable #ghost.text# not found",
        ),
        (json!({"memory": memory}), "VariableNotFoundError", "Variable #ghost.q# not found"),
        (
            json!({"prompt_config": {"jinja2_variables": [{"variable": "v", "value_selector": ["g", "x"]}]}}),
            "VariableNotFoundError",
            "Variable v not found",
        ),
        (
            json!({"prompt_template": user("")}),
            "NoPromptFoundError",
            "No prompt found in the LLM configuration. ",
        ),
        (json!({"prompt_template": []}), "NoPromptFoundError", "No prompt found"),
        (
            json!({"prompt_template": [{"role": "tool", "text": "x"}]}),
            "NotImplementedError",
            "Role tool is not supported",
        ),
        (
            json!({"context": {"enabled": true, "variable_selector": ["sys", "files"]}}),
            "InvalidContextStructureError",
            "Invalid context structure: ",
        ),
        (
            json!({"vision": {"enabled": true, "configs": {"variable_selector": ["start", "topic"]}}}),
            "InvalidVariableTypeError",
            "Invalid variable type: ",
        ),
        (json!({"vision": {"enabled": true}}), "LLMNodeError", "vision with files is not supported yet"),
        (
            json!({"prompt_template": user("{{#start.image#}}")}),
            "LLMNodeError",
            "a file in a message is not supported yet",
        ),
        (
            json!({"reasoning_format": "separated"}),
            "LLMNodeError",
            "reasoning_format separated is not supported yet",
        ),
        (
            json!({"structured_output_enabled": true, "structured_output": {"schema": {}}}),
            "LLMNodeError",
            "structured output is not supported yet",
        ),
    ] {
        let failure = run(changes.clone()).0.unwrap_err();
        assert_eq!(failure.error_type, error_type, "{changes}");
        assert!(failure.message.starts_with(message), "{}", failure.message);
    }
}

#[test]
fn memory_is_refused_only_where_there_is_a_history_that_would_be_missing() {
    let data = node(json!({"memory": {"window": {"enabled": false}}}));
    let turn = |count: i64| {
        let pool = Pool::new(json!({"sys": {"query": "q", "conversation_id": "c", "dialogue_count": count}}));
        assemble(&data, &pool, UndefinedNames::Empty, &mut Inputs::new()).err().map(|f| f.message)
    };
    assert_eq!(turn(1), None);
    assert_eq!(
        turn(2).as_deref(),
        Some("memory after the first turn of a conversation is not supported yet")
    );
}

#[test]
fn switches_that_are_off_change_nothing() {
    let changes = json!({
        "vision": {"enabled": false, "configs": {"variable_selector": ["sys", "files"]}},
        "structured_output_switch_on": false, "structured_output_enabled": true, "structured_output": {"schema": {}},
        "memory": null, "prompt_config": null, "reasoning_format": "tagged", "tools": [], "future": {"x": 1}
    });
    assert_eq!(messages(changes), json!([["user", "hi"]]));
}

#[test]
fn everything_a_job_must_carry_is_mentioned() {
    let data = node(json!({
        "model": {"provider": "p", "name": "m", "mode": "chat", "completion_params": {"t": "{{#par.am#}}"}},
        "prompt_template": [
            {"role": "user", "text": "{{#start.topic.deep#}}{{#context#}}"},
            {"role": "user", "edition_type": "jinja2", "jinja2_text": "{{#jin.text#}}"}
        ],
        "prompt_config": {"jinja2_variables": [{"variable": "v", "value_selector": ["jin", "var"]}]},
        "memory": {"window": {"enabled": false}, "query_prompt_template": "{{#mem.q#}}"},
        "context": {"enabled": true, "variable_selector": ["know", "result"]},
        "vision": {"enabled": true}
    }));
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    let mut mentions: Vec<String> =
        mentions.into_iter().map(|(node, name)| format!("{node}.{name}")).collect();
    mentions.sort();
    let expected = [
        "jin.text",
        "jin.var",
        "know.result",
        "mem.q",
        "par.am",
        "start.topic",
        "sys.dialogue_count",
        "sys.files",
        "sys.query",
    ];
    assert_eq!(mentions, expected);
}

#[test]
fn prompts_are_recorded_by_mode() {
    let prompt = run(json!({})).0.unwrap();
    assert_eq!(prompt.record(ModelMode::Chat), json!([{"role": "user", "text": "hi", "files": []}]));
    assert_eq!(prompt.record(ModelMode::Completion), json!([{"role": "user", "text": "hi"}]));
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    let problems = parse(json!({
        "model": {"provider": "", "mode": "telepathy", "completion_params": []},
        "prompt_template": [{"role": "boss", "text": 5}, "x", {"role": "user", "edition_type": "mustache"}],
        "prompt_config": {"jinja2_variables": [{"variable": "v"}]},
        "memory": {},
        "vision": true,
        "structured_output_switch_on": true, "structured_output": 1,
        "reasoning_format": "loud"
    }))
    .unwrap_err();
    let mut places: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    places.sort_unstable();
    assert_eq!(
        places,
        [
            "context",
            "memory",
            "model.completion_params",
            "model.mode",
            "model.name",
            "model.provider",
            "prompt_config.jinja2_variables[0]",
            "prompt_template[0].role",
            "prompt_template[0].text",
            "prompt_template[1]",
            "prompt_template[2].edition_type",
            "reasoning_format",
            "structured_output",
            "vision"
        ]
    );
    assert!(parse(json!({})).is_err());
}
