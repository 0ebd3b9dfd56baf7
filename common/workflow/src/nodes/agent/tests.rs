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
    assert_eq!(data.strategy, Some(Strategy::FunctionCalling));
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
        plugin: None,
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
fn a_strategy_is_known_by_its_plugin_and_its_name() {
    let (calling, react) = (Some(Some(Strategy::FunctionCalling)), Some(Some(Strategy::ReAct)));
    // Only a plugin has it.
    let foreign = Some(None);
    let url = json!({"type": "constant", "value": "http://h/sse"});
    let with_server = json!({"mcp_server": url, "model": model()});
    let with_config = json!({"mcp_servers_config": url, "model": model()});
    let plain = json!({"model": model()});
    for (provider, name, parameters, expected) in [
        ("langgenius/agent/agent", "function_calling", &plain, calling),
        ("langgenius/agent/agent", "ReAct", &plain, react),
        ("langgenius/agent/agent", "TOD", &plain, None),
        ("one", "TOD", &plain, None),
        ("", "function_calling", &plain, calling),
        ("hjlarry/agent/mcp_agent", "function_calling", &with_server, calling),
        ("junjiem/mcp_see_agent/mcp_see_agent", "mcp_sse_function_calling", &with_config, calling),
        ("junjiem/mcp_see_agent/mcp_see_agent", "mcp_sse_ReAct", &with_config, react),
        ("someone/mcp_agent/mcp_agent", "react", &with_server, react),
        // Without servers it is a strategy with an empty list of them.
        ("junjiem/mcp_see_agent/mcp_see_agent", "mcp_sse_ReAct", &plain, react),
        ("someone/mcp_agent/mcp_agent", "mcp_function_calling", &plain, calling),
        ("junjiem/mcp_see_agent/mcp_see_agent", "mcp_sse_TOD", &plain, foreign),
        // The name alone says nothing: another plugin works in another way.
        ("hjlarry/agent/mcp_agent", "function_calling", &plain, foreign),
        ("afeaad50-3ca8/agent/agent", "function_calling", &plain, foreign),
        ("svcvit/agent/agent", "TOD", &with_server, foreign),
    ] {
        let data = json!({
            "agent_strategy_name": name, "agent_strategy_provider_name": provider, "agent_parameters": parameters,
        });
        let mut problems = Problems::default();
        let read = AgentData::parse(&map(data), &mut problems).map(|data| data.strategy);
        assert_eq!(read, expected, "{provider} {name}");
        let problems = problems.into_vec();
        assert_eq!(
            problems.iter().filter(|found| found.is_error()).count(),
            usize::from(read.is_none()),
            "{problems:?}"
        );
        assert!(problems.iter().all(|found| found.hint.is_some()), "{problems:?}");
    }
}

#[test]
fn parameters_that_only_another_plugin_knows_are_one_warning() {
    let constant = |value: Json| json!({"type": "constant", "value": value});
    let data = json!({
        "agent_strategy_name": "mcp_sse_function_calling", "agent_strategy_provider_name": "junjiem/mcp_see_agent/mcp_see_agent",
        "agent_parameters": {
            "model": model(), "query": constant(json!("q")), "mcp_servers_config": constant(json!("")),
            "mcp_prompts_as_tools": constant(json!(true)), "mcp_resources_as_tools": constant(json!(true)),
            "storage_key": constant(json!("")), "other": constant(json!(false)), "nothing": constant(json!(null)),
        },
    });
    let mut problems = Problems::default();
    assert!(AgentData::parse(&map(data), &mut problems).is_some());
    let found: Vec<(&str, String)> =
        problems.into_vec().into_iter().map(|it| (it.code, it.message)).collect();
    let message = "parameters of the agent that only a plugin's strategy knows: mcp_prompts_as_tools, mcp_resources_as_tools";
    assert_eq!(found, [("agent.unknown_parameters", message.to_owned())]);
}

#[test]
fn an_agent_that_is_refused_has_one_problem_and_one_of_a_plugin_none() {
    let other = json!({"type": "constant", "value": "x"});
    let data = |provider: &str, name: &str| {
        json!({
            "agent_strategy_name": name, "agent_strategy_provider_name": provider,
            "agent_parameters": {"model": model(), "other": other},
        })
    };
    let mut problems = Problems::default();
    assert!(AgentData::parse(&map(data("langgenius/agent/agent", "Dance")), &mut problems).is_none());
    let found: Vec<_> = problems.into_vec().into_iter().map(|it| (it.is_error(), it.message)).collect();
    assert_eq!(found, [(true, r#"the agent strategy "Dance" is not known"#.to_owned())]);
    let mut problems = Problems::default();
    let of_plugin = map(data("someone/agent/agent", "Function_Calling"));
    let read = AgentData::parse(&of_plugin, &mut problems).expect("a plugin may have it");
    assert_eq!((read.strategy, read.strategy_name()), (None, "Function_Calling"));
    assert!(problems.into_vec().is_empty());
}

#[test]
fn servers_are_read_from_the_filled_in_parameters() {
    let data = data(json!({
        "model": model(), "query": {"type": "constant", "value": "hello"},
        "mcp_server": {"type": "constant", "value": "http://h/sse?key={{#s.key#}}"},
    }))
    .unwrap();
    let given = resolve(&data, &Pool::new(json!({"s": {"key": "k-1"}}))).unwrap();
    assert_eq!(given.servers.len(), 1);
    assert_eq!(
        (given.servers[0].name.as_str(), given.servers[0].url.0.as_str()),
        ("h", "http://h/sse?key=k-1")
    );
    assert_eq!(resolve(&data, &Pool::new(json!({"s": {"key": "k"}}))).unwrap().tools, []);
}

#[test]
fn arguments_are_the_models_but_fixed_ones_stay() {
    let tool = AgentTool {
        kind: ProviderKind::Api,
        provider: "p".into(),
        name: "find".into(),
        plugin: None,
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
