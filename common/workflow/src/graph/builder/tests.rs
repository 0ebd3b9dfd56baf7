use std::time::{Duration, Instant};

use crate::graph::builder::*;
use crate::graph::{AppMode, TemplatePart};

fn graph_of(text: &str) -> Graph {
    let imported = import(text.as_bytes());
    imported.graph.unwrap_or_else(|| panic!("{:#?}", imported.diagnostics))
}

const BRANCHING: &str = "\
kind: app
version: 0.6.0
app: {mode: advanced-chat, name: Flow}
workflow:
  environment_variables: [{name: KEY, value_type: secret, value: hunter2}]
  graph:
    nodes:
    - {id: note, type: custom-note, data: {type: ''}}
    - {id: s, data: {type: start, variables: []}}
    - {id: g, data: {type: if-else, cases: [{case_id: 'true', logical_operator: and, conditions: [
        {comparison_operator: is, variable_selector: [sys, query], value: '{{#s.a#}}'},
        {comparison_operator: is, variable_selector: [sys, query], value: x}]}]}}
    - {id: t, data: {type: template-transform, template: x, variables: [], error_strategy: fail-branch}}
    - {id: z, data: {type: answer, answer: 'Said {{#t.output#}} and {{#sys.query#}}'}}
    - {id: b, data: {type: answer, answer: 'No'}}
    edges:
    - {source: s, target: g}
    - {source: g, target: t, sourceHandle: 'true'}
    - {source: g, target: b, sourceHandle: 5}
    - {source: g, target: b, sourceHandle: 'false'}
    - {source: t, target: z}
";

#[test]
fn a_graph_holds_what_the_file_says() {
    let graph = graph_of(BRANCHING);
    assert_eq!((graph.name.as_str(), graph.mode), ("Flow", AppMode::Chat));
    let ids: Vec<_> = graph.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["s", "g", "t", "z", "b"]);
    assert_eq!(graph.find("t"), Some(NodeIx(2)));
    assert_eq!(graph.node(graph.root).id.as_str(), "s");
    let edges: Vec<_> = graph.edges.iter().map(|e| (e.id.as_str(), &*e.handle)).collect();
    assert_eq!(edges, [("edge_0", "source"), ("edge_1", "true"), ("edge_3", "false"), ("edge_4", "source")]);
    assert_eq!(graph.nodes[1].outs, [EdgeIx(1), EdgeIx(2)]);
    assert_eq!(graph.nodes[3].ins, [EdgeIx(3)]);
    assert_eq!(graph.nodes[1].mentions, [("sys".into(), "query".into()), ("s".into(), "a".into())]);
    assert!(graph.nodes[2].is_branch());
}

#[test]
fn response_nodes_are_sorted_and_know_their_blocking_edges() {
    let graph = graph_of(BRANCHING);
    let ids: Vec<_> = graph.responses.iter().map(|r| graph.node(r.node).id.as_str()).collect();
    assert_eq!(ids, ["b", "z"]);
    // The start's edge does not block; the edges of the branch and of the node with a fail branch do.
    assert_eq!(&*graph.responses[1].blocking, [false, true, true, true]);
    assert!(matches!(&graph.responses[1].template[0], TemplatePart::Text(text) if text == "Said "));
    let mut streamed: Vec<_> = graph.streamed.iter().map(String::as_str).collect();
    streamed.sort_unstable();
    assert_eq!(streamed, ["sys.query", "t.output"]);
}

#[test]
fn sealing_renames_the_version_and_hides_the_secret() {
    let mut imported = import(BRANCHING.as_bytes());
    assert!(imported.seal(None).is_err());
    let key = SealingKey::from_passphrase("p");
    let text = imported.seal(Some(&key)).unwrap().unwrap();
    assert!(!text.contains("hunter2") && !format!("{imported:?}").contains("hunter2"));
    assert_eq!(imported.graph.unwrap().hash, crate::dsl::hash_of(&text));
    let mut stored = Document::from_stored(&text).unwrap();
    let hash = stored.hash();
    stored.open(Some(&key)).unwrap();
    let (graph, problems) = build(&stored, hash);
    assert_eq!(problems, []);
    let secret = graph.unwrap().environment_variable("KEY").unwrap().value.clone();
    assert_eq!(secret.value, "hunter2");
}

#[test]
fn containers_are_known_by_parent_by_owner_and_by_start_node() {
    let text = "\
nodes:
- {id: s, data: {type: start, variables: []}}
- {id: lp, data: {type: loop, start_node_id: lps, loop_count: 2, logical_operator: and, break_conditions: []}}
- {id: lps, data: {type: loop-start}}
- {id: it, data: {type: iteration, start_node_id: its, loop_id: lp, iterator_selector: [s, n], output_selector: [t, o]}}
- {id: its, parentId: it, data: {type: iteration-start}}
- {id: t, data: {type: answer, answer: x, iteration_id: it, loop_id: lp}}
edges: []
";
    let imported = import(text.as_bytes());
    let document = imported.document.unwrap();
    let mut problems = Problems::new();
    let draft = Draft::new(&document, &[], &mut problems);
    let none = Parent::None;
    assert_eq!(draft.parents, [none, none, Parent::In(1), Parent::In(1), Parent::In(3), Parent::In(3)]);
    let codes: HashSet<_> = imported.diagnostics.iter().map(|p| p.code).collect();
    assert_eq!(codes, HashSet::from(["graph.unreachable_node"]), "{:#?}", imported.diagnostics);
}

#[test]
fn a_graph_of_ten_thousand_nodes_is_built_quickly() {
    let mut nodes = String::from("- {id: s, data: {type: start, variables: []}}\n");
    let mut edges = String::new();
    for at in 0..10_000 {
        nodes += &format!(
            "- data: {{type: answer, answer: 'n {{{{#s.a#}}}}', title: t}}\n  id: n{at}\n  position: {{x: 1, y: 2}}\n"
        );
        let source = if at == 0 { "s".to_owned() } else { format!("n{}", at - 1) };
        edges += &format!("- {{id: e{at}, source: {source}, target: n{at}, sourceHandle: source}}\n");
    }
    let text = format!("nodes:\n{nodes}edges:\n{edges}");
    let before = Instant::now();
    let graph = graph_of(&text);
    assert_eq!((graph.nodes.len(), graph.responses.len()), (10_001, 10_000));
    // About a second without optimisation; a quadratic algorithm would take minutes.
    assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
}

#[test]
fn se_a16_our_own_node_types_are_tried_again_when_retries_are_set() {
    let graph = |node: serde_json::Value| {
        let text = serde_json::json!({
            "nodes": [{"id": "s", "data": {"type": "start", "variables": []}}, {"id": "n", "data": node}],
            "edges": [{"source": "s", "target": "n"}],
        });
        graph_of(&text.to_string())
    };
    for (mut node, is_own) in [
        (serde_json::json!({"type": "api", "url": "http://h"}), true),
        (serde_json::json!({"type": "sql", "datasource": "d", "sql": "select 1"}), true),
        (serde_json::json!({"type": "call", "node": "c"}), true),
        (serde_json::json!({"type": "llm", "user_prompt": "x"}), true),
        (
            serde_json::json!({"type": "tool", "provider_id": "time", "provider_name": "time", "provider_type": "builtin",
            "tool_name": "current_time", "tool_label": "T", "tool_configurations": {}, "tool_parameters": {}}),
            false,
        ),
    ] {
        node["retry_config"] = serde_json::json!({"max_retries": 2});
        let read = graph(node.clone());
        let found = &read.nodes[1];
        // In a bare graph retries need no switch; only our own types try temporary failures alone.
        assert_eq!((found.retry.enabled, found.settings.passing_only), (true, is_own), "{node}");
        node["retry_config"]["retry_enabled"] = false.into();
        assert!(!graph(node.clone()).nodes[1].retry.enabled, "{node}");
    }
}
