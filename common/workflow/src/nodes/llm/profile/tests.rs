use serde_json::{Value as Json, json};

use super::*;
use crate::dsl::Problems;
use crate::graph::{Graph, import};
use crate::nodes::NodeData;
use crate::nodes::tool::ProviderKind;

fn read(data: Json) -> Result<ProfileData, Vec<String>> {
    let mut problems = Problems::new();
    let read = ProfileData::parse(data.as_object().expect("a mapping"), &mut problems);
    read.ok_or_else(|| {
        problems
            .into_vec()
            .into_iter()
            .map(|p| format!("{} {}", p.path, p.message).trim().to_owned())
            .collect()
    })
}

fn plain(more: Json) -> Json {
    let mut data = json!({"profile_id": "fast", "prompt": "Hi"});
    data.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    data
}

#[test]
fn absent_settings_have_defaults() {
    let data = read(plain(json!({}))).unwrap();
    assert_eq!((data.profile_id.as_str(), data.model, data.stream), ("fast", None, false));
    let calling = Calling { calls_max: 3, rounds_max: 0, is_parallel: false, fails: false };
    assert_eq!(data.calling, calling);
    assert_eq!(data.conversation, Some(Conversation { id: "main".into(), output_as: Role::Assistant }));
    assert!(data.tools.is_empty() && data.parameters.is_empty() && !data.emits_context);
}

#[test]
fn everything_is_read() {
    let data = read(plain(json!({
        "model": {"name": "other", "completion_params": {"a": 1, "o": {"x": 1}}}, "parameters": {"o": {"y": 2}},
        "stream": true, "reasoning_format": "separated", "emit_context": true, "output_as": "user",
        "conversation": {"id": "side"}, "max_tool_calls_per_request": 5, "max_tool_rounds": 2,
        "parallel_tool_calls": true, "on_tool_error": "fail", "inputs": {"who": ["start", "name"]},
        "tools": ["time/current_time", {"type": "mcp", "provider": "search", "tool": "find", "description": "Finds",
            "parameters": {"k": 3, "q": {"auto": 1}, "z": {"auto": 0, "value": {"type": "constant", "value": "c"}}}},
            {"tool_name": "off", "provider_name": "x", "enabled": false}],
    })))
    .unwrap();
    assert_eq!(data.model.as_deref(), Some("other"));
    assert_eq!(Json::Object(data.parameters), json!({"a": 1, "o": {"x": 1, "y": 2}}));
    assert_eq!(data.conversation, Some(Conversation { id: "side".into(), output_as: Role::User }));
    assert_eq!(data.calling, Calling { calls_max: 5, rounds_max: 2, is_parallel: true, fails: true });
    assert_eq!(data.names.own, [("who".into(), vec!["start".into(), "name".into()])]);
    let tools: Vec<_> = data.tools.iter().map(|tool| (tool.kind, &*tool.provider, &*tool.name)).collect();
    assert_eq!(
        tools,
        [(ProviderKind::Builtin, "time", "current_time"), (ProviderKind::Mcp, "search", "find")]
    );
    assert_eq!(Json::Object(data.tools[1].fixed.clone()), json!({"k": 3, "z": "c"}));
    let off = read(plain(json!({"conversation": {"enabled": false}}))).unwrap();
    assert_eq!(off.conversation, None);
    let single = read(plain(json!({"max_tool_rounds": 2, "tool_choice_mode": "single_round"}))).unwrap();
    assert_eq!(single.calling.rounds_max, 0);
}

#[test]
fn lp_a03_a_node_needs_a_profile_and_a_prompt() {
    for data in [
        json!({"profile_id": "fast", "prompt": ""}),
        json!({"profile_id": "fast", "prompt": "  "}),
        json!({"profile_id": "", "prompt": "Hi"}),
        json!({"profile_id": 5, "prompt": "Hi"}),
        json!({"profile_id": "fast"}),
        json!({"prompt": "Hi"}),
    ] {
        assert!(is_form_of(data.as_object().unwrap()), "{data}");
        assert_eq!(read(data.clone()).unwrap_err(), [INCOMPLETE], "{data}");
    }
    for other in [
        json!({"model": {}, "prompt_template": []}),
        json!({"model": {}, "prompt": "Hi"}),
        json!({"system_prompt": "s", "user_prompt": "u"}),
        json!({"profile_id": null, "model": {}}),
    ] {
        assert!(!is_form_of(other.as_object().unwrap()), "{other}");
    }
}

#[test]
fn problems_are_reported_at_their_place() {
    for (more, begin) in [
        (json!({"prompt": "{{{{{{{{{{{{a}}}}}}}}}}}}"}), "prompt PromptNestingTooDeep: "),
        (json!({"inputs": {"a": "b"}}), "inputs `inputs` must be"),
        (json!({"model": 5}), "model `model` must be"),
        (json!({"model": {"name": 5}}), "model.name "),
        (json!({"parameters": []}), "parameters "),
        (json!({"stream": "perhaps"}), "stream "),
        (json!({"reasoning_format": "x"}), "reasoning_format "),
        (json!({"tools": {}}), "tools "),
        (json!({"tools": ["time"]}), "tools[0] "),
        (json!({"tools": ["a/t", "b/t"]}), "tools[1] there are two tools named t"),
        (json!({"tools": [{"type": "magic", "provider": "a", "tool": "t"}]}), "tools[0] "),
        (json!({"max_tool_calls_per_request": -1}), "max_tool_calls_per_request "),
        (json!({"on_tool_error": "ignore"}), "on_tool_error "),
        (json!({"conversation": 5}), "conversation "),
        (json!({"conversation": {"id": 5}}), "conversation.id "),
        (json!({"conversation": {"id": "a b"}}), "conversation "),
        (json!({"output_as": "system"}), "output_as "),
    ] {
        let problems = read(plain(more.clone())).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with(begin), "{more}: {problems:?}");
    }
}

const WORKFLOW: &str = "\
kind: app
version: 0.6.0
app: {mode: workflow, name: W}
workflow:
  conversation_variables: [{id: c, name: v_conv, value_type: string, value: x}]
  graph:
    nodes:
    - {id: s, data: {type: start, variables: [{variable: v_en, type: text-input, label: v, required: true}]}}
    - {id: lp, data: {type: loop, start_node_id: ls, loop_count: 2, logical_operator: and, break_conditions: [],
        loop_variables: [{id: v, label: v_loop, var_type: number, value_type: constant, value: '1'}]}}
    - {id: ls, parentId: lp, data: {type: loop-start}}
    - {id: m, parentId: lp, data: {type: llm, profileId: fast, prompt: 'Hi {{name}} {{v_{{lang}}}}', inputs: {own: [s, v_en]}}}
    edges:
    - {source: s, target: lp}
    - {source: ls, target: m}
";

fn graph_of(text: &str) -> Graph {
    let imported = import(text.as_bytes());
    imported.graph.unwrap_or_else(|| panic!("{:#?}", imported.diagnostics))
}

#[test]
fn a_job_carries_all_variables_that_names_in_its_prompt_can_refer_to() {
    let graph = graph_of(WORKFLOW);
    let node = graph.node(graph.find("m").unwrap());
    let NodeData::ProfileLlm(data) = &node.data else { panic!("the profile form") };
    assert_eq!(data.names.scopes, ["lp", "local", "run", "conversation", "s", "sys"]);
    let mentions: Vec<_> = node.mentions.iter().map(|(node, name)| format!("{node}.{name}")).collect();
    let of = |name: &str| data.names.scopes.iter().map(|scope| format!("{scope}.{name}")).collect::<Vec<_>>();
    let computed = ["lp.v_loop", "conversation.v_conv", "s.v_en"].map(str::to_owned);
    let expected: Vec<_> = of("name")
        .into_iter()
        .chain(of("lang"))
        .chain(computed)
        .chain(["#messages.main".to_owned()])
        .collect();
    assert_eq!(mentions, expected);
}
