use serde_json::{Value as Json, json};

use super::parameters::{AgentTool, resolve};
use super::react::{self, Action};
use super::{AgentData, Strategy, prompt};
use crate::dsl::Problems;
use crate::nodes::tool::ProviderKind;
use tidemill_base::value::JsonMap;
use tidemill_base::value::pool::Pool;

fn map(value: Json) -> JsonMap {
    value.as_object().cloned().unwrap()
}

fn data(parameters: Json) -> Result<AgentData, Vec<String>> {
    let data = json!({
        "type": "agent", "agent_strategy_name": "function_calling",
        "agent_strategy_provider_name": "langgenius/agent/agent", "agent_parameters": parameters,
    });
    let mut problems = Problems::default();
    let read = AgentData::parse(&map(data), &mut problems);
    read.ok_or_else(|| problems.into_vec().into_iter().map(|problem| problem.message).collect())
}

fn model() -> Json {
    json!({"type": "constant", "value": {"provider": "openai", "model": "gpt", "mode": "chat", "completion_params": {"temperature": 0.5}}})
}

#[test]
fn parameters_are_filled_in_under_their_types() {
    let data = data(json!({
        "model": model(),
        "instruction": {"type": "mixed", "value": "Be {{#s.tone#}}."},
        "query": {"type": "variable", "value": ["s", "q"]},
        "maximum_iterations": {"type": "constant", "value": "99"},
        "tools": {"type": "constant", "value": [
            {"enabled": true, "type": "builtin", "provider_name": "time", "tool_name": "current_time",
             "settings": {"timezone": {"value": "UTC"}},
             "parameters": {"format": {"auto": 1, "value": null}, "day": {"auto": 0, "value": {"type": "variable", "value": ["s", "n"]}}},
             "extra": {"description": "What time it is"}},
            {"enabled": false, "type": "mcp", "provider_name": "x", "tool_name": "y"},
            {"type": "api", "provider_name": "x", "tool_name": "z"}
        ]},
    }))
    .unwrap();
    assert_eq!(data.strategy, Strategy::FunctionCalling);
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    for name in ["tone", "q", "n"] {
        assert!(mentions.contains(&("s".into(), name.into())), "{name}: {mentions:?}");
    }
    let given = resolve(&data, &Pool::new(json!({"s": {"tone": "kind", "q": "hello", "n": 3}}))).unwrap();
    assert_eq!((given.instruction.as_str(), given.query.as_str()), ("Be kind.", "hello"));
    assert_eq!((given.iterations_max, given.model.name.as_str()), (30, "gpt"));
    let tool = AgentTool {
        kind: ProviderKind::Builtin,
        provider: "time".into(),
        name: "current_time".into(),
        description: Some("What time it is".into()),
        fixed: map(json!({"timezone": "UTC", "day": 3})),
    };
    assert_eq!(given.tools, [tool]);
}

#[test]
fn settings_of_tools_may_be_variables() {
    let setting = |value: Json| json!({"value": value});
    let data = data(json!({
        "model": model(),
        "query": {"type": "constant", "value": "hello"},
        "tools": {"type": "constant", "value": [
            {"enabled": true, "provider_name": "p", "tool_name": "t", "settings": {
                "region": setting(json!({"type": "variable", "value": ["s", "region"]})),
                "zone": {"type": "variable", "value": ["s", "zone"]},
                "text": setting(json!({"type": "mixed", "value": "in {{#s.region#}}"})),
                "old": setting(json!("plain")), "oldest": 3, "object": setting(json!({"type": "x"})),
                "none": setting(json!(null)), "nothing": setting(json!({"type": "constant", "value": null})),
            }},
        ]},
    }))
    .unwrap();
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    for name in ["region", "zone"] {
        assert!(mentions.contains(&("s".into(), name.into())), "{name}: {mentions:?}");
    }
    let given = resolve(&data, &Pool::new(json!({"s": {"region": "eu", "zone": 7}}))).unwrap();
    let expected = json!({
        "region": "eu", "zone": 7, "text": "in eu", "old": "plain", "oldest": 3, "object": {"type": "x"},
    });
    assert_eq!(Json::Object(given.tools[0].fixed.clone()), expected);
    let failure = resolve(&data, &Pool::new(json!({"s": {"region": "eu"}}))).unwrap_err();
    assert_eq!(failure.message, "Variable '['s', 'zone']' does not exist");
}

#[test]
fn parameters_that_no_strategy_accepts_are_refused() {
    let missing =
        data(json!({"model": model(), "query": {"type": "variable", "value": ["s", "gone"]}})).unwrap();
    let failure = resolve(&missing, &Pool::new(json!({}))).unwrap_err();
    assert_eq!(failure.message, "Variable '['s', 'gone']' does not exist");
    let wrong = data(json!({"query": {"type": "extraction", "value": 1}})).unwrap_err();
    assert_eq!(wrong, ["Unknown agent input type 'extraction'"]);
    let mut problems = Problems::default();
    let other = map(json!({"agent_strategy_name": "tree_of_thought", "agent_parameters": {}}));
    assert!(AgentData::parse(&other, &mut problems).is_none());
}

#[test]
fn arguments_are_the_models_but_fixed_ones_stay() {
    let tool = AgentTool {
        kind: ProviderKind::Api,
        provider: "p".into(),
        name: "find".into(),
        description: None,
        fixed: map(json!({"limit": 3, "lang": "en"})),
    };
    let given = prompt::arguments(&tool, r#"{"q": "x", "lang": "de"}"#).unwrap();
    assert_eq!(Json::Object(given), json!({"limit": 3, "lang": "en", "q": "x"}));
    assert_eq!(Json::Object(prompt::arguments(&tool, " ").unwrap()), json!({"limit": 3, "lang": "en"}));
    for wrong in ["{", "[1]"] {
        assert!(prompt::arguments(&tool, wrong).is_err(), "{wrong}");
    }
}

#[test]
fn replies_are_read_however_models_spell_them() {
    let action = |name: &str, input: Json| Some(Action { name: name.into(), input });
    for (text, thought, expected, answer) in [
        ("Thought: I know\nFinalAnswer: 42", "I know", None, Some("42")),
        ("thought: I know\nfinal answer: 42", "I know", None, Some("42")),
        (
            "Thought: look\nAction:\n```json\n{\"action\": \"find\", \"action_input\": {\"q\": 1}}\n```",
            "look",
            action("find", json!({"q": 1})),
            None,
        ),
        (
            "look it up {\"tool\": \"find\", \"arguments\": {\"q\": 1}}",
            "look it up",
            action("find", json!({"q": 1})),
            None,
        ),
        (
            "Action: {\"tool_call\": {\"name\": \"find\", \"parameters\": {}}}",
            "",
            action("find", json!({})),
            None,
        ),
        ("Action: {\"action\": \"Final Answer\", \"action_input\": \"done\"}", "", None, Some("done")),
        ("<think>{\"action\": \"no\"}</think>just this", "just this", None, Some("just this")),
        ("Thought: a {not json} b", "a {not json} b", None, Some("a {not json} b")),
        ("reaction: is no prefix", "reaction: is no prefix", None, Some("reaction: is no prefix")),
        ("", "", None, Some("")),
    ] {
        let read = react::read(text);
        assert_eq!(
            (read.thought.as_str(), &read.action, read.answer.as_deref()),
            (thought, &expected, answer),
            "{text}"
        );
    }
}

#[test]
fn an_input_that_is_no_object_is_the_first_parameter() {
    let names = ["q".to_string(), "n".to_string()];
    for (input, expected) in [
        (json!({"n": 1}), json!({"n": 1})),
        (json!("{\"n\": 1}"), json!({"n": 1})),
        (json!("plain"), json!({"q": "plain"})),
        (json!("7"), json!({"q": 7})),
        (json!(null), json!({})),
    ] {
        assert_eq!(Json::Object(react::arguments(&input, &names)), expected, "{input}");
    }
    assert!(react::arguments(&json!("x"), &[]).is_empty());
}
