use serde_json::json;

use super::*;

/// The codes and lines of all problems.
fn problems_of(text: &str) -> Vec<(&'static str, Option<u32>)> {
    let (_, problems) = parse(text.as_bytes(), &ParseOptions::default());
    problems.iter().map(|p| (p.code, p.line)).collect()
}

fn document_of(text: &str) -> Document {
    let (document, problems) = parse(text.as_bytes(), &ParseOptions::default());
    document.unwrap_or_else(|| panic!("{problems:?}"))
}

const APP: &str = "kind: app\nversion: 0.6.0\napp: {mode: workflow, name: X}\n";
const GRAPH: &str = "nodes: [{id: s, data: {type: start}}], edges: []";

#[test]
fn every_shape_of_file_gives_its_graph() {
    for text in [
        format!("{APP}workflow: {{graph: {{{GRAPH}}}}}\n"),
        format!("version: 0.6.0\napp: {{mode: advanced-chat}}\nworkflow: {{graph: {{{GRAPH}}}}}\n"),
        format!("kind: graph\nworkflow: {{graph: {{{GRAPH}}}}}\n"),
        format!("graph_config: {{{GRAPH}}}\n"),
        format!("graph: {{{GRAPH}}}\n"),
        format!("{{{GRAPH}}}\n"),
        r#"{"nodes": [{"id": "s", "data": {"type": "start"}}], "edges": null}"#.to_owned(),
    ] {
        let document = document_of(&text);
        assert_eq!((document.nodes.len(), document.edges.len()), (1, 0), "{text}");
        assert_eq!(document.nodes[0].id, "s");
    }
}

#[test]
fn each_problem_of_the_outer_shape_has_its_code_and_line() {
    let graph = format!("workflow: {{graph: {{{GRAPH}}}}}\n");
    for (text, expected) in [
        ("- 1\n".to_owned(), vec![("parse.expected_mapping", None)]),
        ("".to_owned(), vec![("parse.expected_mapping", None)]),
        ("x: 1\n".to_owned(), vec![("kind.missing", None)]),
        (
            "kind: recipe\napp: {mode: workflow}\n".to_owned(),
            vec![("kind.unsupported", Some(1)), ("graph.missing_workflow", None)],
        ),
        ("kind: rag_pipeline\nworkflow: {}\n".to_owned(), vec![("plan.unsupported", Some(1))]),
        (format!("kind: app\n{graph}"), vec![("kind.missing_app", None)]),
        (format!("app: {{mode: workflow}}\n{graph}"), vec![]),
        (APP.to_owned(), vec![("graph.missing_workflow", None)]),
        (format!("{APP}workflow: {{}}\n"), vec![("graph.missing", Some(4))]),
        (format!("kind: app\napp: {{name: x}}\n{graph}"), vec![("plan.unsupported", Some(2))]),
        ("kind: app\napp: {mode: chat}\nmodel_config: {}\n".to_owned(), vec![("plan.unsupported", Some(2))]),
        (
            format!("kind: app\nversion: 0.6\napp: {{mode: workflow}}\n{graph}"),
            vec![("version.invalid", Some(2))],
        ),
        (
            format!("kind: app\nversion: new\napp: {{mode: workflow}}\n{graph}"),
            vec![("version.invalid", Some(2))],
        ),
        (
            format!("kind: app\nversion: 9.0.0\napp: {{mode: workflow}}\n{graph}"),
            vec![("version.unknown", Some(2))],
        ),
        (
            format!("{APP}workflow:\n  features: 5\n  graph: {{{GRAPH}}}\n"),
            vec![("graph.invalid_workflow", Some(5))],
        ),
        (
            format!(
                "{APP}workflow:\n  environment_variables:\n  - {{value: 1}}\n  - {{name: a, value: 1, value_type: x}}\n  graph: {{{GRAPH}}}\n"
            ),
            vec![("runtime_variables.invalid_name", Some(6)), ("runtime_variables.invalid_item", Some(7))],
        ),
        (
            format!("{APP}workflow:\n  conversation_variables: 5\n  graph: {{{GRAPH}}}\n"),
            vec![("runtime_variables.invalid", Some(5))],
        ),
    ] {
        assert_eq!(problems_of(&text), expected, "{text}");
    }
}

#[test]
fn each_misshapen_node_and_edge_is_reported_and_the_rest_is_read() {
    let text = "\
nodes:
- 5
- {data: {type: start}}
- {id: 17, data: {type: start}}
- {id: a}
- {id: b, data: {}}
- {id: note, type: custom-note, data: {type: ''}}
- {id: c, parentId: p, data: {type: code, selected: true, _x: 1, keep: 1}}
edges:
- 5
- {target: c}
- {source: [1], target: c}
- {source: c, target: c, sourceHandle: null}
- {id: e, source: a, target: b}
";
    assert_eq!(
        problems_of(text),
        [
            ("graph.invalid_node", Some(2)),
            ("graph.invalid_node_id", Some(3)),
            ("graph.invalid_node_id", Some(4)),
            ("graph.invalid_node_data", Some(5)),
            ("graph.invalid_node_type", Some(6)),
            ("graph.invalid_edge", Some(10)),
            ("graph.invalid_edge_endpoint", Some(11)),
            ("graph.invalid_edge_endpoint", Some(12)),
            ("graph.edge_dropped", Some(13)),
        ]
    );
    let document = document_of(text);
    let ids: Vec<_> = document.nodes.iter().map(|n| (n.id.as_str(), n.place)).collect();
    assert_eq!(ids, [("17", 2), ("c", 6)]);
    assert_eq!(json!(document.nodes[1].data), json!({"type": "code", "keep": 1}));
    let edge = &document.edges[0];
    assert_eq!((edge.number, &*edge.handle, edge.place), (1, "source", 4), "a dropped handle counts");
    assert_eq!(
        problems_of("nodes: 5\nedges: x\n"),
        [("graph.invalid_nodes", Some(1)), ("graph.invalid_edges", Some(2))]
    );
    assert_eq!(problems_of("nodes: null\n"), [("graph.invalid_nodes", Some(1))]);
}

#[test]
fn the_canonical_text_has_one_order_and_forgets_the_editor() {
    let one = document_of(&format!(
        "{APP}workflow: {{graph: {{nodes: [{{id: s, position: {{x: 1}}, width: 5, data: {{type: start, selected: true}}}}], edges: []}}}}\n"
    ));
    let two = document_of(&format!(
        "workflow: {{graph: {{edges: null, nodes: [{{data: {{type: start}}, id: s}}], viewport: {{}}}}}}\n{APP}"
    ));
    assert_eq!(one.canonical(), two.canonical());
    assert_eq!(one.hash(), two.hash());
    assert_eq!(one.hash().0.len(), 64);
    assert_eq!(
        one.canonical(),
        r#"{"v":1,"version":"0.6.0","name":"X","description":"","mode":"workflow","nodes":[{"id":"s","parent":null,"data":{"type":"start"}}],"edges":[],"environment":[],"conversation":[],"features":{},"options":{}}"#
    );
}

#[test]
fn another_text_is_refused_as_a_stored_document() {
    let stored = document_of(&format!("{{{GRAPH}}}")).canonical();
    for wrong in [
        "".to_owned(),
        "{}".into(),
        "[]".into(),
        stored.replace("\"v\":1", "\"v\":2"),
        stored.replace("\"workflow\"", "\"other\""),
        stored.replace("\"edges\":[]", "\"edges\":[1]"),
    ] {
        assert!(Document::from_stored(&wrong).is_err(), "{wrong}");
    }
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn scalar() -> impl Strategy<Value = Json> {
        prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<f64>().prop_filter("JSON has no other", |n| n.is_finite()).prop_map(Json::from),
            any::<String>().prop_map(|text| Json::from(text.replace('\0', ""))),
        ]
    }

    fn value() -> impl Strategy<Value = Json> {
        scalar().prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
                proptest::collection::vec(("[^\0]{0,8}", inner), 0..4)
                    .prop_map(|entries| Json::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_parsed_document_reads_back_from_its_stored_form(
            data in value(), feature in value(), option in value(), name in "[^\0]{0,20}",
        ) {
            let text = json!({
                "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": name},
                "workflow": {
                    "features": {"x": feature}, "tidemill": {"o": option},
                    "environment_variables": [{"name": "e", "value_type": "number", "value": 0.1}],
                    "graph": {
                        "nodes": [{"id": "a", "parentId": "p", "data": {"type": "code", "config": data}}],
                        "edges": [{"source": "a", "target": "b", "sourceHandle": "x"}],
                    },
                },
            });
            let (document, _) = parse(text.to_string().as_bytes(), &ParseOptions::default());
            let document = document.unwrap();
            let stored = document.canonical();
            let read = Document::from_stored(&stored).unwrap();
            prop_assert_eq!(read.canonical(), stored);
            prop_assert_eq!(&read.nodes[0].data, &document.nodes[0].data);
            prop_assert_eq!(read, document);
        }

        #[test]
        fn a_damaged_file_never_panics(cut in 0usize..2000, at in 0usize..2000, byte in any::<u8>()) {
            let mut text = SAMPLE.as_bytes().to_vec();
            let at = at % text.len();
            text[at] = byte;
            crate::graph::import(&text);
            text.truncate(cut);
            crate::graph::import(&text);
        }
    }

    const SAMPLE: &str = "\
app: {mode: workflow, name: Sample}
kind: app
version: 0.3.1
workflow:
  conversation_variables: []
  environment_variables:
  - {id: e1, name: TOKEN, value_type: secret, value: abc, description: ''}
  graph:
    edges:
    - {id: a, source: start, sourceHandle: source, target: it, type: custom}
    - {id: b, source: itstart, sourceHandle: source, target: t}
    - {id: c, source: it, sourceHandle: source, target: end}
    nodes:
    - data:
        title: Start
        type: start
        variables:
        - {label: q, variable: q, type: text-input, max_length: 48, required: true}
      id: start
      type: custom
    - data: {type: iteration, start_node_id: itstart, iterator_selector: [start, q], output_selector: [t, output], parallel_nums: 2}
      id: it
    - {data: {type: iteration-start}, id: itstart, parentId: it, type: custom-iteration-start}
    - data:
        type: template-transform
        template: |
          {{ x }} and more
        variables: [{variable: x, value_selector: [it, item]}]
        error_strategy: default-value
        default_value: [{key: output, type: string, value: ''}]
        retry_config: {retry_enabled: true, max_retries: 3, retry_interval: 100}
        tidemill: {queue: gpu, runs_on: worker}
      id: t
      parentId: it
    - {data: {type: end, outputs: [{variable: o, value_selector: [it, output]}]}, id: end}
";
}

#[test]
fn the_rewrites_of_a_bare_file_have_their_paths_and_lines() {
    let text = "nodes:\n- {id: s, type: START, name: S}\n- id: e\n  type: END\n  name: E\nedges:\n- {source: s, target: e}\n";
    let found = explain(text.as_bytes(), &ParseOptions::default());
    let found: Vec<_> = found.iter().map(|one| (one.rule, one.path.as_str(), one.line)).collect();
    assert_eq!(
        found,
        [
            ("foreign-node", "nodes[0]", Some(2)),
            ("foreign-node", "nodes[1]", Some(3)),
            ("foreign-type", "nodes[1].data", Some(3)),
            ("node-type", "nodes[0].data.type", Some(2)),
            ("edge-handle", "edges[0].sourceHandle", Some(7)),
        ]
    );
}
