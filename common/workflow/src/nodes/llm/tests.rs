use std::borrow::Cow;

use serde_json::{Value as Json, json};

use super::message::{Message, MessagePart, ModelFacts, ToolCall};
use super::prompt::{Prompt, assemble};
use super::record::Inputs;
use super::*;
use crate::dsl::Diagnostic;
use crate::nodes::evaluate::UndefinedNames;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::pool::Pool;
use tidemill_base::value::{Lookup, Segment, SegmentType, Variables};

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
    let file = |ty: &str| {
        json!({
            "dify_model_identity": "__dify__file__", "type": ty, "extension": ".png", "mime_type": "image/png",
            "remote_url": "https://example.com/picture.png", "filename": "f.png"
        })
    };
    let (image, custom) = (file("image"), file("custom"));
    Pool::new(json!({
        "start": {"custom": custom, "topic": "tea", "points": ["a", "b"], "nul": null, "o": {"k": "K"}, "n": 0.7, "yes": true, "image": image},
        "sys": {"query": "why {{#start.topic#}}?", "files": [image]}
    }))
}

fn facts(features: Option<&[&str]>) -> ModelFacts {
    let features = features.map(|features| features.iter().map(ToString::to_string).collect());
    ModelFacts { is_declared: features.is_some(), features, context_size: None }
}

fn run(changes: Json) -> (Result<Prompt, NodeFailure>, Inputs) {
    run_with(changes, &pool(), &facts(None))
}

fn run_with(changes: Json, pool: &Pool, facts: &ModelFacts) -> (Result<Prompt, NodeFailure>, Inputs) {
    let mut inputs = Inputs::new();
    let prompt = assemble(&node(changes), pool, UndefinedNames::Empty, facts, &mut inputs);
    (prompt, inputs)
}

fn messages(changes: Json) -> Json {
    messages_with(changes, &pool(), &facts(None))
}

/// Role and text of each message; files as `[image low]`.
fn messages_with(changes: Json, pool: &Pool, facts: &ModelFacts) -> Json {
    let prompt = run_with(changes, pool, facts).0.unwrap();
    let part = |part: &MessagePart| match part {
        MessagePart::Text(text) => text.clone(),
        MessagePart::File(file) => format!("[{} {}]", file.kind.name(), file.detail),
    };
    let shown = |m: &Message| json!([m.role.name(), m.parts.iter().map(part).collect::<String>()]);
    prompt.messages.iter().map(shown).collect()
}

/// A conversation of two turns.
fn conversation() -> Pool {
    let turns = json!([{"query": "q1", "answer": "a1"}, {"query": "q2", "answer": "a2"}]);
    Pool::new(json!({
        "sys": {"query": "now", "conversation_id": "c"}, history::NODE: {history::NAME: turns},
        "start": {"topic": "tea"}
    }))
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
        context::read(&["k".into(), "result".into()], &pool).map(|context| context.text)
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
    for (item, error_type) in [
        (json!({"title": "t"}), "InvalidContextStructureError"),
        (json!([1]), "InvalidContextStructureError"),
        (json!(5), "TypeError"),
        (json!(null), "TypeError"),
    ] {
        assert_eq!(text(json!([item])).unwrap_err().error_type, error_type, "{item}");
    }
}

#[test]
fn only_passages_of_a_knowledge_base_are_reported_as_resources() {
    let passage = json!({
        "content": "c", "summary": null, "title": "t",
        "metadata": {"_source": "knowledge", "score": 0.5, "segment_hit_count": 3, "dataset_id": "d", "other": 1}
    });
    let pool = Pool::new(
        json!({"k": {"result": [passage, "text", {"content": "x", "metadata": {"_source": "web"}}]}}),
    );
    let context = context::read(&["k".into(), "result".into()], &pool).unwrap();
    assert_eq!(context.text, "c\ntext\nx");
    assert_eq!(context.resources.len(), 1);
    let resource = &context.resources[0];
    assert_eq!(resource.len(), 18);
    assert_eq!(
        (&resource["score"], &resource["hit_count"], &resource["content"]),
        (&json!(0.5), &json!(3), &json!("c"))
    );
    assert_eq!((resource.get("other"), &resource["page"]), (None, &json!(null)));
}

#[test]
fn the_history_is_between_the_template_and_the_question() {
    let memory =
        json!({"window": {"enabled": true, "size": 1}, "query_prompt_template": "asked: {{#sys.query#}}"});
    let expected = json!([["user", "hi"], ["user", "q2"], ["assistant", "a2"], ["user", "asked: now"]]);
    assert_eq!(messages_with(json!({"memory": memory}), &conversation(), &facts(None)), expected);
    // A window that is off uses all turns, whatever its size.
    let memory = json!({"window": {"enabled": false, "size": 1}});
    let all = messages_with(json!({"memory": memory}), &conversation(), &facts(None));
    assert_eq!(all.as_array().unwrap().len(), 6);
}

#[test]
fn a_history_takes_the_window_of_the_model_but_for_the_reply() {
    let memory = json!({"window": {"enabled": false}});
    let model =
        json!({"provider": "p", "name": "m", "mode": "chat", "completion_params": {"max_tokens": 90}});
    let facts = ModelFacts { context_size: Some(95), ..ModelFacts::default() };
    let messages = messages_with(json!({"memory": memory, "model": model}), &conversation(), &facts);
    assert_eq!(messages, json!([["user", "hi"], ["assistant", "a2"], ["user", "now"]]));
}

#[test]
fn a_completion_holds_the_history_as_text_under_the_names_of_the_speakers() {
    let prefix = json!({"user": "Human", "assistant": "Bot"});
    let memory = json!({"window": {"enabled": true, "size": 1}, "role_prefix": prefix});
    for (template, text) in
        [("H {{#histories#}} Q", "now\nH {{Human: q2\nBot: a2}} Q"), ("Q", "now\nHuman: q2\nBot: a2\nQ")]
    {
        let changes = json!({"prompt_template": {"text": template}, "memory": memory});
        assert_eq!(messages_with(changes, &conversation(), &facts(None)), json!([["user", text]]));
    }
    let memory = json!({"window": {"enabled": true}});
    let changes = json!({"prompt_template": {"text": "Q"}, "memory": memory});
    let failure = run_with(changes, &conversation(), &facts(None)).0.unwrap_err();
    assert_eq!(failure.error_type, "MemoryRolePrefixRequiredError");
    assert_eq!(failure.message, "Memory role prefix is required for completion model.");
}

#[test]
fn files_of_a_text_follow_it_and_those_of_the_switch_go_before_them() {
    let text = json!([{"role": "user", "text": "look: {{#start.image#}} {{#start.custom#}} please"}]);
    let vision = |on: bool| json!({"enabled": on, "configs": {"variable_selector": ["sys", "files"], "detail": "low"}});
    let seeing = facts(Some(&["vision"]));
    for (vision, facts, expected) in [
        (vision(true), &seeing, json!([["user", "look:   please"], ["user", "[image low][image low]"]])),
        (vision(false), &seeing, json!([["user", "look:   please"], ["user", "[image low]"]])),
        (json!({"enabled": false}), &seeing, json!([["user", "look:   please"], ["user", "[image high]"]])),
        (vision(true), &facts(None), json!([["user", "look:   please"]])),
    ] {
        let changes = json!({"prompt_template": text, "vision": vision});
        assert_eq!(messages_with(changes, &pool(), facts), expected, "{vision}");
    }
    let changes = json!({"vision": vision(true)});
    assert_eq!(messages_with(changes.clone(), &pool(), &seeing), json!([["user", "[image low]hi"]]));
    let (prompt, inputs) = run_with(changes, &pool(), &facts(None));
    assert_eq!(prompt.unwrap().files_left_out, 1);
    assert_eq!((inputs[0].0.as_str(), inputs[0].1.ty), ("#files#", SegmentType::ArrayFile));
    let only = json!({"prompt_template": [{"role": "user", "text": "{{#start.image#}}"}]});
    assert_eq!(run(only).0.unwrap_err().error_type, "NoPromptFoundError");
}

#[test]
fn files_of_other_kinds_are_named_in_words_when_the_switch_adds_them() {
    let vision = json!({"enabled": true, "configs": {"variable_selector": ["start", "custom"]}});
    let messages = messages_with(json!({"vision": vision}), &pool(), &facts(None));
    assert_eq!(messages, json!([["user", "[Unsupported file type: f.png (custom)]hi"]]));
}

#[test]
fn parameters_are_filled_in_and_stop_is_separate() {
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
fn the_record_keeps_hash_marks_and_the_inputs_before_a_failure() {
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
    let prompt = assemble(&data, &pool, UndefinedNames::Empty, &facts(None), &mut inputs).unwrap();
    assert_eq!(prompt.messages[0].joined_text(), "sk-hidden-key sk-hidden-key");
    assert_eq!(inputs.len(), 5);
    let shown = format!("{inputs:?} {} {:?}", prompt.record(ModelMode::Chat), prompt.secrets);
    assert!(!shown.contains("hidden-key"), "{shown}");
}

#[test]
fn a_prompt_that_cannot_be_built_fails_with_difys_names() {
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
            json!({"prompt_template": [{"role": "user", "edition_type": "jinja2", "jinja2_text": "", "text": "x"}]}),
            "NoPromptFoundError",
            "No prompt found",
        ),
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
    ] {
        let failure = run(changes.clone()).0.unwrap_err();
        assert_eq!(failure.error_type, error_type, "{changes}");
        assert!(failure.message.starts_with(message), "{}", failure.message);
    }
}

#[test]
fn a_model_known_to_be_unable_is_not_asked_for_structured_output() {
    let schema = json!({"structured_output_enabled": true, "structured_output": {"schema": {}}});
    for (features, allowed) in [(None, true), (Some(&["structured-output"][..]), true), (Some(&[]), false)] {
        let (prompt, inputs) = run_with(schema.clone(), &pool(), &facts(features));
        assert_eq!(prompt.is_ok(), allowed, "{features:?}");
        assert_eq!(inputs.len(), if allowed { 2 } else { 0 });
    }
}

#[test]
fn the_switch_of_structured_output_has_an_old_name_that_the_present_one_beats() {
    for (old, present, on) in [
        (json!(true), json!(null), true),
        (json!(true), json!(false), false),
        (json!(false), json!(true), true),
    ] {
        let mut changes = json!({"structured_output_enabled": old, "structured_output": {"schema": {}}});
        if !present.is_null() {
            changes["structured_output_switch_on"] = present.clone();
        }
        assert_eq!(node(changes).structured_output.is_some(), on, "{old} {present}");
    }
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
        "#history.turns",
        "jin.text",
        "jin.var",
        "know.result",
        "mem.q",
        "par.am",
        "start.topic",
        "sys.conversation_id",
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
    let seeing = facts(Some(&["vision"]));
    let mut prompt = run_with(json!({"vision": {"enabled": true}}), &pool(), &seeing).0.unwrap();
    let picture = json!({"type": "image", "data": "https://ex...[TRUNCATED]...icture.png", "detail": "high"});
    assert_eq!(prompt.record(ModelMode::Chat)[0]["files"], json!([picture]));
    assert_eq!(prompt.record(ModelMode::Completion)[0]["files"], json!([picture]));
    prompt.messages[0].tool_calls =
        vec![ToolCall { id: "1".into(), name: "f".into(), arguments: "{}".into() }];
    let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    assert_eq!(prompt.record(ModelMode::Chat)[0]["tool_calls"], json!([call]));
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
