//! Tests of executors of a host: which one a node gets, and what becomes of what it says.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::{Value as Json, json};
use tidemill_common::graph::Graph;
use tidemill_common::graph::builder::import;
use tidemill_common::nodes::NodeResult;
use tidemill_common::value::{Segment, SegmentType};

use crate::host::call::NodeValues;
use crate::host::listen::{End, Said, follow};
use crate::host::{Hosts, HostsError, NodeCall, NodeEvent, NodeExecutor, NodeOutcome, outcome};

/// An executor that ends with its name as an output.
struct Named(&'static str);

impl NodeExecutor for Named {
    fn execute(&self, _: NodeCall) -> BoxStream<'static, NodeEvent> {
        let outputs = json!({"by": self.0}).as_object().cloned().unwrap_or_default();
        stream::iter([NodeEvent::Succeeded(NodeOutcome { outputs, ..NodeOutcome::default() })]).boxed()
    }
}

fn named(name: &'static str) -> Arc<dyn NodeExecutor> {
    Arc::new(Named(name))
}

fn graph() -> Graph {
    let tool = |provider: &str| {
        json!({"type": "tool", "title": "T", "provider_id": provider, "provider_name": provider,
            "provider_type": "builtin", "tool_name": "t", "tool_label": "T", "tool_configurations": {},
            "tool_parameters": {}, "tidemill": {"queue": "gpu"}})
    };
    let nodes = [
        ("start", json!({"type": "start", "title": "S", "variables": []})),
        ("one", tool("acme")),
        ("two", tool("acme")),
        ("three", tool("other")),
        (
            "four",
            json!({"type": "template-transform", "title": "X", "template": "x", "variables": [],
            "tidemill": {"queue": "gpu"}}),
        ),
        ("end", json!({"type": "end", "title": "E", "outputs": [], "tidemill": {"queue": "gpu"}})),
    ];
    let edges: Vec<Json> =
        nodes.windows(2).map(|two| json!({"source": two[0].0, "target": two[1].0})).collect();
    let nodes: Vec<Json> = nodes.iter().map(|(id, data)| json!({"id": id, "data": data})).collect();
    let file = json!({"kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "x"},
        "workflow": {"graph": {"nodes": nodes, "edges": edges}}});
    let imported = import(file.to_string().as_bytes());
    imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics))
}

#[tokio::test]
async fn the_most_exact_registration_executes_a_node() {
    let graph = graph();
    let hosts = Hosts::default().queue("gpu", named("queue")).tool("acme", named("tool"));
    let hosts = hosts.node("two", named("node")).node("end", named("never"));
    let hosts = hosts.node_type("tool", named("type")).unwrap();
    for (node, expected) in [
        ("start", None),
        ("one", Some("tool")),
        ("two", Some("node")),
        ("three", Some("type")),
        ("four", Some("queue")),
        ("end", None),
    ] {
        let node = graph.node(graph.find(node).unwrap());
        let found = match hosts.find(node) {
            None => None,
            Some(executor) => match executor.execute(NodeCall::default()).next().await {
                Some(NodeEvent::Succeeded(outcome)) => outcome.outputs["by"].as_str().map(str::to_owned),
                _ => None,
            },
        };
        assert_eq!(found.as_deref(), expected, "{}", node.id);
        assert_eq!(hosts.takes(node), expected.is_some(), "{}", node.id);
    }
    assert!(!Hosts::default().takes(graph.node(graph.find("one").unwrap())));
}

#[test]
fn types_that_hold_other_nodes_or_begin_or_end_a_run_are_refused() {
    for name in ["iteration", "loop", "start", "end", "loop-end", "trigger-webhook"] {
        let refused = Hosts::default().node_type(name, named("x")).unwrap_err();
        assert_eq!(refused, HostsError::EnginesOwn(name.into()));
    }
    let unknown = Hosts::default().node_type("my-node", named("x")).unwrap_err();
    assert!(unknown.to_string().contains("`call` nodes"), "{unknown}");
}

#[test]
fn a_call_renders_texts_and_shows_no_value_of_its_own() {
    let values = vec![("start".into(), "q".into(), Segment::string("a secret"))];
    let inputs = json!({"q": "a secret", "n": [1, 2]}).as_object().cloned().unwrap_or_default();
    let call = NodeCall { inputs, values: Arc::new(NodeValues(values)), ..NodeCall::default() };
    assert_eq!(call.render("<{{#start.q#}}>"), "<a secret>");
    assert_eq!(call.render_jinja("{{ q }} {{ n | length }}").unwrap(), "a secret 2");
    assert_eq!((call.get(&["start", "q"]), call.get(&["start", "other"])), (Some(json!("a secret")), None));
    assert!(!format!("{call:?}").contains("a secret"));
}

#[test]
fn outputs_are_completed_from_pieces_and_pieces_from_outputs() {
    let sent = std::sync::Mutex::new(Vec::new());
    let out = |output: &str, text: &str| sent.lock().unwrap().push(format!("{output}:{text}"));
    let mut said = Said::new((100, "limit"), &out);
    for (output, text) in [("text", "ab"), ("more", "x"), ("text", "c"), ("other", "y")] {
        said.take(output, text).unwrap();
    }
    let graph = graph();
    let node = graph.node(graph.find("one").unwrap());
    let file = json!({"dify_model_identity": "__dify__file__", "type": "image"});
    let outcome = NodeOutcome {
        outputs: json!({"text": "abcd", "other": "z", "file": file}).as_object().cloned().unwrap(),
        tokens: Some((1, 2)),
        metadata: json!({"total_price": "0.5", "currency": "EUR", "mine": 1}).as_object().cloned().unwrap(),
        ..NodeOutcome::default()
    };
    let result = outcome::result(node, NodeResult::default(), outcome, &said, None);
    let outputs: Vec<_> = result.outputs.iter().map(|(name, value)| (name.as_str(), &value.value)).collect();
    let expected = [("text", &json!("abcd")), ("other", &json!("z")), ("file", &file), ("more", &json!("x"))];
    assert_eq!(outputs, expected);
    assert_eq!(result.outputs[2].1.ty, SegmentType::File);
    let usage = result.usage.unwrap();
    assert_eq!((usage.total_tokens, &*usage.total_price, &*usage.currency), (3, "0.5", "EUR"));
    assert_eq!((&result.metadata["mine"], &result.metadata["total_tokens"]), (&json!(1), &json!(3)));
    assert_eq!(*sent.lock().unwrap(), ["text:ab", "more:x", "text:c", "other:y", "text:d"]);
}

#[tokio::test]
async fn pieces_have_a_limit_that_the_failure_names() {
    struct Endless;
    impl NodeExecutor for Endless {
        fn execute(&self, _: NodeCall) -> BoxStream<'static, NodeEvent> {
            let piece = NodeEvent::Chunk { output: "text".into(), text: "x".repeat(10), is_final: false };
            stream::repeat(piece).boxed()
        }
    }
    let out = |_: &str, _: &str| {};
    let mut said = Said::new((100, "run.value_bytes_max"), &out);
    let End::Failed(failure) = follow(&Endless, NodeCall::default(), &mut said).await else {
        panic!("it has no end")
    };
    assert_eq!(failure.error_type, "ValueTooLargeError");
    assert!(failure.message.contains("run.value_bytes_max"), "{}", failure.message);
}
