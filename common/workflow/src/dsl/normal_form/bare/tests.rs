//! Tables of what a bare graph leaves out and how it is read; the same in an export stays.

use serde_json::{Value as Json, json};

use super::super::{Migrations, apply, apply_bare};
use tidemill_base::value::JsonMap;

#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Export,
    Bare,
}

fn read(graph: &Json, origin: Origin) -> Json {
    let mut graph: JsonMap = graph.as_object().unwrap().clone();
    let read = |graph: &mut JsonMap| {
        // Whatever the setting for migrations says.
        apply(graph, Migrations::Off);
        if origin == Origin::Bare {
            apply_bare(graph);
        }
    };
    read(&mut graph);
    let once = graph.clone();
    read(&mut graph);
    assert_eq!(graph, once, "a form applied twice changes nothing more");
    Json::Object(graph)
}

fn data(data: Json, origin: Origin) -> Json {
    let graph =
        json!({"nodes": [{"id": "s", "data": {"type": "start"}}, {"id": "n", "data": data}], "edges": []});
    read(&graph, origin)["nodes"][1]["data"].clone()
}

fn no_context() -> Json {
    json!({"enabled": false, "variable_selector": []})
}

#[test]
fn a_node_of_a_bare_graph_gets_what_the_editor_would_have_written() {
    let model = json!({"provider": "openai", "name": "m"});
    let whole = json!({"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}});
    for (old, new) in [
        (
            json!({"type": "llm", "model": model, "prompt_template": []}),
            json!({"type": "llm", "model": whole, "prompt_template": [], "context": no_context()}),
        ),
        (
            json!({"type": "LLM", "model": {"provider": "openai", "name": "m", "mode": "completion", "completion_params": {"a": 1}}, "context": null}),
            json!({"type": "llm", "model": {"provider": "openai", "name": "m", "mode": "completion", "completion_params": {"a": 1}}, "context": no_context()}),
        ),
        (
            json!({"type": "question-classifier", "model": model}),
            json!({"type": "question-classifier", "model": whole}),
        ),
        (
            json!({"type": "tool", "tool_name": "find"}),
            json!({"type": "tool", "tool_name": "find", "provider_type": "any", "provider_id": "", "provider_name": "find",
                "tool_label": "find", "tool_configurations": {}, "tool_parameters": {}}),
        ),
        (
            json!({"type": "tool", "tool_name": "find", "provider_name": "acme", "tool_parameters": {"q": 1}}),
            json!({"type": "tool", "tool_name": "find", "provider_name": "acme", "tool_parameters": {"q": 1},
                "provider_type": "any", "provider_id": "acme", "tool_label": "find", "tool_configurations": {}}),
        ),
    ] {
        assert_eq!(data(old.clone(), Origin::Bare), new, "{old}");
        let in_an_export = data(old.clone(), Origin::Export);
        assert_eq!(in_an_export.as_object().unwrap().len(), old.as_object().unwrap().len(), "{old}");
    }
    for kept in [
        json!({"type": "llm", "profile_id": "p", "prompt": "x", "model": {"name": "m"}}),
        json!({"type": "llm", "user_prompt": "x"}),
        // A type of provider without a provider is a mistake.
        json!({"type": "tool", "tool_name": "find", "provider_type": "api"}),
        json!({"type": "tool", "tool_name": ""}),
    ] {
        assert_eq!(data(kept.clone(), Origin::Bare), kept);
    }
}

#[test]
fn a_node_inside_another_may_leave_out_the_same_also_in_an_export() {
    let child = |data: Json| json!({"id": "c", "type": "llm", "data": data});
    let old =
        json!({"type": "code", "virtual_nodes": [child(json!({"model": {"provider": "p", "name": "m"}}))]});
    let new = json!({"type": "code", "virtual_nodes": [child(json!({
        "model": {"provider": "p", "name": "m", "mode": "chat", "completion_params": {}}, "context": no_context(),
    }))]});
    for origin in [Origin::Bare, Origin::Export] {
        assert_eq!(data(old.clone(), origin), new);
    }
}

#[test]
fn a_container_begins_where_its_body_begins_without_migrations() {
    let graph = json!({"nodes": [
        {"id": "s", "data": {"type": "start"}},
        {"id": "each", "data": {"type": "iteration"}},
        {"id": "a", "parentId": "each", "data": {"type": "code"}},
    ], "edges": []});
    assert_eq!(read(&graph, Origin::Bare)["nodes"][1]["data"]["start_node_id"], "eachstart");
    assert_eq!(read(&graph, Origin::Export)["nodes"][1]["data"].get("start_node_id"), None);
}

#[test]
fn a_graph_without_a_start_node_begins_at_the_only_node_that_no_edge_leads_to() {
    let node = |id: &str| json!({"id": id, "data": {"type": "code"}});
    let edge = |from: &str, to: &str| json!({"source": from, "target": to});
    let begun = |nodes: &[Json], edges: &[Json], origin: Origin| {
        let graph = read(&json!({"nodes": nodes, "edges": edges}), origin);
        let added = graph["nodes"].as_array().unwrap().get(nodes.len()).cloned();
        let last = graph["edges"].as_array().unwrap().last().cloned();
        added.map(|added| (added["id"].clone(), last.unwrap()["target"].clone()))
    };
    let chain = [node("a"), node("b")];
    let edges = [edge("a", "b")];
    assert_eq!(begun(&chain, &edges, Origin::Bare), Some((json!("start"), json!("a"))));
    assert_eq!(begun(&chain, &edges, Origin::Export), None);
    // A node in a container is no beginning, and an id that is taken is not given again.
    let inner = json!({"id": "start", "parentId": "a", "data": {"type": "code"}});
    let with_inner = [node("a"), node("b"), inner];
    assert_eq!(begun(&with_inner, &edges, Origin::Bare), Some((json!("start_"), json!("a"))));
    for (nodes, edges) in [
        (vec![node("a")], vec![]),
        (vec![node("a"), node("b"), node("c")], vec![edge("a", "c"), edge("b", "c")]),
        (vec![node("a"), node("b")], vec![edge("a", "b"), edge("b", "a")]),
    ] {
        assert_eq!(begun(&nodes, &edges, Origin::Bare), None, "{nodes:?}");
    }
}
