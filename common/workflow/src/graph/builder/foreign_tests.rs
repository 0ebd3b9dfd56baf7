//! Files in the forms of other programs and of design documents: which are read, and what is said about the others.

use serde_json::{Value as Json, json};

use crate::dsl::Diagnostic;
use crate::graph::{Graph, Imported, import};
use crate::nodes::NodeKind;

fn read(nodes: &Json, edges: &Json) -> Imported {
    import(json!({"nodes": nodes, "edges": edges}).to_string().as_bytes())
}

fn graph(nodes: &Json, edges: &Json) -> Graph {
    let imported = read(nodes, edges);
    assert_eq!(imported.diagnostics, [], "{nodes}");
    imported.graph.expect("a graph without problems is built")
}

fn kind(graph: &Graph, id: &str) -> NodeKind {
    graph.node(graph.find(id).expect("the node is there")).kind
}

/// A chain of edges.
fn chain(ids: &[&str]) -> Json {
    ids.windows(2).map(|pair| json!({"source": pair[0], "target": pair[1]})).collect()
}

#[test]
fn types_in_upper_case_are_read_where_they_say_what_they_do() {
    let foreign =
        |id: &str, kind: &str, config: Json| json!({"id": id, "type": kind, "name": id, "config": config});
    let nodes = json!([
        foreign("s", "START", json!({"variables": [{"variable": "n", "label": "n", "type": "number", "required": true}]})),
        foreign("f", "FORK", json!({})),
        foreign("c", "CODE", json!({"code_language": "python3", "code": "def main(n): return {'r': n}",
            "variables": [{"variable": "n", "value_selector": ["s", "n"]}], "outputs": {"r": {"type": "number"}}})),
        foreign("t", "TOOL", json!({"tool_name": "weekday", "tool_parameters": {}})),
        {"id": "j", "type": "JOIN", "name": "j"},
        foreign("r", "ROUTE", json!({"conditions": [{"id": "many", "logical_operator": "and", "conditions": [
            {"variable_selector": ["s", "n"], "comparison_operator": ">", "value": "3"}]}]})),
        {"id": "l", "type": "LOOP", "name": "l", "config": {"start_node_id": "ls", "loop_count": 2,
            "logical_operator": "and", "break_conditions": [],
            "loop_variables": [{"label": "k", "var_type": "number", "value_type": "constant", "value": 0}]}},
        foreign("ls", "LOOP_START", json!({})),
        {"id": "v", "parentId": "l", "type": "VARIABLE", "name": "v", "config": {"items": [{
            "variable_selector": ["l", "k"], "input_type": "constant", "operation": "+=", "value": 1}]}},
        {"id": "le", "parentId": "l", "type": "LOOP_END", "name": "le", "config": {}},
        foreign("e", "END", json!({})),
    ]);
    let mut edges = chain(&["s", "f", "c", "j", "r"]);
    let more = [
        json!({"source": "f", "target": "t"}),
        json!({"source": "t", "target": "j"}),
        json!({"source": "r", "target": "l", "sourceHandle": "many"}),
        json!({"source": "r", "target": "e", "sourceHandle": "false"}),
        json!({"source": "ls", "target": "v"}),
        json!({"source": "v", "target": "le"}),
    ];
    edges.as_array_mut().unwrap().extend(more);
    let graph = graph(&nodes, &edges);
    for (id, expected) in [
        ("s", NodeKind::Start),
        ("f", NodeKind::VariableAggregator),
        ("c", NodeKind::Code),
        ("t", NodeKind::Tool),
        ("j", NodeKind::VariableAggregator),
        ("r", NodeKind::IfElse),
        ("l", NodeKind::Loop),
        ("ls", NodeKind::LoopStart),
        ("v", NodeKind::Assigner),
        ("le", NodeKind::LoopEnd),
        ("e", NodeKind::End),
    ] {
        assert_eq!(kind(&graph, id), expected, "{id}");
    }
}

#[test]
fn a_type_that_does_not_say_what_it_does_is_refused_with_the_node_to_use_instead() {
    for (name, config, instead) in [
        ("VARIABLE", json!({"variableName": "x", "expression": "1"}), "type assigner"),
        ("ROUTE", json!({"routes": []}), "type if-else"),
        ("LOOP_START", json!({}), "type loop"),
        ("LOOP_END", json!({}), "type loop"),
        ("START_FROM_TRIGGER", json!({}), ""),
    ] {
        let nodes = json!([
            {"id": "s", "data": {"type": "start"}}, {"id": "n", "type": name, "name": "n", "config": config},
        ]);
        let found = read(&nodes, &chain(&["s", "n"])).diagnostics;
        let refused = |one: &&Diagnostic| one.code == "plan.unsupported" && one.path == "nodes[1].data.type";
        let refused = found.iter().find(refused).unwrap_or_else(|| panic!("{name}: {found:?}"));
        assert!(refused.message.contains(name), "{refused:?}");
        let hint = refused.hint.as_deref().unwrap_or_default();
        assert!(hint.contains(instead), "{name}: {hint}");
    }
}

#[test]
fn settings_of_a_fork_or_a_join_are_named_in_one_warning() {
    let nodes = json!([
        {"id": "s", "data": {"type": "start"}},
        {"id": "f", "type": "FORK", "name": "f", "config": {"strategy": "parallel", "arms": 2}},
        {"id": "j", "data": {"type": "JOIN", "title": "J", "mode": "any"}},
    ]);
    let imported = read(&nodes, &chain(&["s", "f", "j"]));
    let found: Vec<_> =
        imported.diagnostics.iter().map(|one| (one.path.as_str(), one.message.as_str())).collect();
    assert_eq!(
        found,
        [
            ("nodes[1].config", "a FORK node does not read strategy, arms"),
            ("nodes[2].data", "a JOIN node does not read mode"),
        ]
    );
    assert!(imported.graph.is_some(), "a warning refuses nothing");
}

#[test]
fn steps_begin_and_end_a_flow_in_their_own_spelling() {
    let step = |id: &str, kind: &str, node: &str| json!({"id": id, "name": id, "description": "a step", "type": kind, "node": node, "params": {}});
    let nodes = json!([step("a", "START", ""), step("b", "EMPTY", "EMPTY"), step("c", "END", "")]);
    let graph = graph(&nodes, &chain(&["a", "b", "c"]));
    assert_eq!((kind(&graph, "a"), kind(&graph, "c")), (NodeKind::Start, NodeKind::End));
}

#[test]
fn a_model_call_without_any_configuration_lacks_a_profile_and_a_prompt() {
    for config in [json!({}), json!(null), json!({"parameters": {"temperature": 1}})] {
        let nodes = json!([
            {"id": "s", "data": {"type": "start"}}, {"id": "n", "type": "LLM", "name": "n", "config": config},
        ]);
        let found = read(&nodes, &chain(&["s", "n"])).diagnostics;
        let messages: Vec<_> = found.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(messages, ["LLM node must have profileId and prompt"], "{config}");
    }
}

#[test]
fn a_type_may_stand_beside_the_data() {
    let nodes = json!([
        {"id": "s", "type": "start", "data": {"title": "S", "variables": []}},
        {"id": "e", "type": "END", "data": {"title": "E"}},
    ]);
    let both = graph(&nodes, &chain(&["s", "e"]));
    assert_eq!((kind(&both, "s"), kind(&both, "e")), (NodeKind::Start, NodeKind::End));
    // An unknown type is named, and an empty model call has the error of this spelling.
    for (node, expected) in [
        (json!({"type": "FETCH", "data": {"a": 1}}), "node \"n\" is of the unknown type \"FETCH\""),
        (json!({"type": "FETCH"}), "node \"n\" is of the unknown type \"FETCH\""),
        (json!({"type": "LLM", "data": {}}), "LLM node must have profileId and prompt"),
        (json!({"type": "LLM"}), "LLM node must have profileId and prompt"),
        (json!({"type": "TOOL"}), "`tool_name` is missing; it must be a text"),
        (json!({"type": "TOOL", "data": {}}), "`tool_name` is missing; it must be a text"),
    ] {
        let mut node = node;
        node["id"] = json!("n");
        let nodes = json!([{"id": "s", "data": {"type": "start"}}, node]);
        let found = read(&nodes, &chain(&["s", "n"])).diagnostics;
        let messages: Vec<_> = found.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(messages, [expected], "{nodes}");
    }
    // The outer type of Dify's canvas says nothing.
    let custom = json!([{"id": "s", "type": "custom", "data": {"title": "S"}}]);
    assert_eq!(read(&custom, &json!([])).diagnostics[0].code, "graph.invalid_node_type");
}

#[test]
fn a_node_may_have_nothing_but_its_id_and_its_type() {
    let graph =
        graph(&json!([{"id": "s", "type": "START"}, {"id": "e", "type": "END"}]), &chain(&["s", "e"]));
    assert_eq!((kind(&graph, "s"), kind(&graph, "e")), (NodeKind::Start, NodeKind::End));
}

#[test]
fn a_node_that_cannot_be_read_has_one_error_and_what_follows_from_it_has_none() {
    let end = json!({"id": "e", "data": {"type": "end", "outputs": []}});
    for (nodes, edges) in [
        (json!([{"id": "s"}, end]), chain(&["s", "e"])),
        (json!([{"id": "s", "type": "custom"}]), json!([])),
        (
            json!([{"id": "s", "data": {"type": "start"}}, {"id": "n", "data": {"title": "N"}}, end]),
            chain(&["s", "n", "e"]),
        ),
    ] {
        let found = read(&nodes, &edges).diagnostics;
        let codes: Vec<_> = found.iter().map(|one| one.code).collect();
        assert!(matches!(codes[..], ["graph.invalid_node_data" | "graph.invalid_node_type"]), "{found:?}");
    }
    // Another id that no node has is an error of its own.
    let found = read(&json!([{"id": "s"}, end]), &chain(&["s", "x"])).diagnostics;
    let codes: Vec<_> = found.iter().map(|one| one.code).collect();
    assert_eq!(codes, ["graph.invalid_node_data", "graph.edge_unknown_node"]);
}

#[test]
fn a_bare_graph_knows_that_it_is_one() {
    let nodes =
        json!([{"id": "s", "data": {"type": "start"}}, {"id": "e", "data": {"type": "end", "outputs": []}}]);
    let edges = chain(&["s", "e"]);
    let export = json!({"kind": "app", "version": "0.6.0", "app": {"mode": "workflow"},
        "workflow": {"graph": {"nodes": nodes, "edges": edges}}});
    let of_export = import(export.to_string().as_bytes()).graph.expect("an export is read");
    assert_eq!((graph(&nodes, &edges).is_bare, of_export.is_bare), (true, false));
}
