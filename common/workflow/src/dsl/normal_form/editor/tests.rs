//! Tables of old forms and what the editor makes of them.

use serde_json::{Value as Json, json};

use super::super::{Migrations, apply};
use tidemill_base::value::JsonMap;

fn migrated(graph: Json) -> Json {
    let mut graph: JsonMap = graph.as_object().unwrap().clone();
    apply(&mut graph, Migrations::On);
    let once = graph.clone();
    apply(&mut graph, Migrations::On);
    assert_eq!(graph, once, "a migration applied twice changes nothing more");
    Json::Object(graph)
}

fn node(data: Json) -> Json {
    json!({"nodes": [{"id": "n", "data": data}], "edges": []})
}

#[test]
fn options_of_unversioned_tools_become_those_of_today() {
    for (old, new) in [
        (
            json!({"a": null, "b": 1, "c": "x"}),
            json!({"type": "tool", "tool_configurations": {"b": 1, "c": "x"}}),
        ),
        (
            json!({"a": [1], "b": 1.5, "c": null}),
            json!({"type": "tool", "tool_node_version": "2", "tool_configurations": {
                "a": {"type": "constant", "value": [1]}, "b": {"type": "constant", "value": 1.5},
            }}),
        ),
        (
            json!({"a": {"type": "mixed", "value": "{{#s.x#}}"}, "b": {"k": 1}}),
            json!({"type": "tool", "tool_node_version": "2", "tool_configurations": {
                "a": {"type": "mixed", "value": "{{#s.x#}}"}, "b": {"type": "constant", "value": {"k": 1}},
            }}),
        ),
        (json!({"a": {"k": 1}}), json!({"type": "tool", "tool_configurations": {"a": {"k": 1}}})),
    ] {
        assert_eq!(migrated(node(json!({"type": "tool", "tool_configurations": old}))), node(new));
    }
    for key in ["version", "tool_node_version"] {
        let versioned = node(json!({"type": "tool", key: "1", "tool_configurations": {"a": null}}));
        assert_eq!(migrated(versioned.clone()), versioned, "{key}");
    }
    let other = node(json!({"type": "code", "tool_configurations": {"a": null}}));
    assert_eq!(migrated(other.clone()), other);
}

#[test]
fn an_agent_of_version_2_with_a_strategy_is_one_of_version_1() {
    let agent = |version: &str, more: Json| {
        let mut data = json!({"type": "agent", "version": version});
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node(data)
    };
    let strategy = json!({"agent_strategy_name": "ReAct"});
    assert_eq!(migrated(agent("2", strategy.clone())), agent("1", strategy));
    for kept in [json!({}), json!({"agent_strategy_name": "ReAct", "agent_node_kind": "dify_agent"})] {
        assert_eq!(migrated(agent("2", kept.clone())), agent("2", kept));
    }
}

/// Returns the start nodes, the edges from them as (start, target), and the ids that containers name.
fn starts(graph: &Json) -> (Vec<(String, String)>, Vec<String>) {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let edges = graph["edges"].as_array().unwrap();
    let edges = edges.iter().map(|edge| (text(&edge["source"]), text(&edge["target"]))).collect();
    let named =
        graph["nodes"].as_array().unwrap().iter().filter(|node| node["data"].get("start_node_id").is_some());
    (edges, named.map(|node| text(&node["data"]["start_node_id"])).collect())
}

#[test]
fn a_container_whose_body_begins_at_another_node_gets_a_start_node() {
    for (kind, start) in [("iteration", "iteration-start"), ("loop", "loop-start")] {
        let graph = migrated(json!({"nodes": [
            {"id": "each", "data": {"type": kind, "start_node_id": "first"}},
            {"id": "first", "parentId": "each", "data": {"type": "code"}},
        ], "edges": []}));
        assert_eq!(starts(&graph), (vec![("eachstart".into(), "first".into())], vec!["eachstart".into()]));
        assert_eq!(graph["nodes"][2]["data"]["type"], start);
        assert_eq!(graph["nodes"][2]["parentId"], "each");
    }
}

#[test]
fn a_container_that_names_no_start_begins_where_its_body_begins() {
    let body = |nodes: &[Json], edges: Json| {
        let mut all = vec![json!({"id": "each", "data": {"type": "iteration"}})];
        all.extend(nodes.iter().cloned());
        migrated(json!({"nodes": all, "edges": edges}))
    };
    let a = json!({"id": "a", "data": {"type": "code", "iteration_id": "each"}});
    let b = json!({"id": "b", "parentId": "each", "data": {"type": "code"}});
    let marked = json!({"id": "m", "parentId": "each", "data": {"type": "code", "isIterationStart": true}});
    let start = json!({"id": "s", "parentId": "each", "data": {"type": "iteration-start"}});
    let edge = json!([{"source": "a", "target": "b", "sourceHandle": "source"}]);
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());

    let graph = body(&[a.clone(), b.clone()], edge.clone());
    assert_eq!(starts(&graph).0, [pair("a", "b"), pair("eachstart", "a")]);
    let graph = body(&[a.clone(), b.clone()], json!([]));
    assert_eq!(starts(&graph).0, [pair("eachstart", "a"), pair("eachstart", "b")]);
    let graph = body(&[a.clone(), marked], json!([]));
    assert_eq!(starts(&graph).0, [pair("eachstart", "m")]);
    let graph = body(&[start, a], json!([]));
    assert_eq!(starts(&graph), (vec![], vec!["s".into()]));
    // Nothing to begin at: the checks report it.
    let graph = body(&[], json!([]));
    assert_eq!(starts(&graph), (vec![], vec![]));
}

#[test]
fn the_id_of_a_new_start_node_is_unused() {
    let graph = migrated(json!({"nodes": [
        {"id": "each", "data": {"type": "iteration", "start_node_id": "eachstart"}},
        {"id": "eachstart", "parentId": "each", "data": {"type": "code"}},
    ], "edges": []}));
    assert_eq!(starts(&graph).0, [("eachstart_".to_owned(), "eachstart".to_owned())]);
}

#[test]
fn without_the_setting_nothing_is_migrated() {
    let old = node(json!({"type": "tool", "tool_configurations": {"a": null}}));
    let mut graph = old.as_object().unwrap().clone();
    apply(&mut graph, Migrations::Off);
    assert_eq!(Json::Object(graph), old);
}
