//! The names of the engine's events as the cases use them.

use std::collections::HashSet;

use serde_json::Value as Json;
use tidemill_tests::check::Event;

/// The result of a node, from the type of the event that ends it.
pub(crate) fn result(kind: &str) -> Option<&'static str> {
    match kind {
        "node_run_succeeded" => Some("succeeded"),
        "node_run_failed" => Some("failed"),
        "node_run_exception" => Some("exception"),
        "node_run_pause_requested" => Some("paused"),
        _ => None,
    }
}

/// The names of these events. Chunks and skipped edges have none, and the generated start nodes of containers are
/// left out.
pub(crate) fn names(all: &[Event], since: &[Event]) -> Vec<String> {
    let synthetic =
        |event: &&Event| matches!(event.data["node_type"].as_str(), Some("iteration-start" | "loop-start"));
    let synthetic: HashSet<&str> = all.iter().filter(synthetic).filter_map(Event::node).collect();
    let is_shown = |event: &&Event| event.node().is_none_or(|node| !synthetic.contains(node));
    since.iter().filter(is_shown).filter_map(name).collect()
}

fn name(event: &Event) -> Option<String> {
    let node = event.node().unwrap_or("?");
    let of_node = |name: &str| Some(format!("{name}:{node}"));
    let numbered = |name: &str, key: &str| Some(format!("{name}:{node}:{}", event.data[key]));
    match event.kind.as_str() {
        "graph_run_started" => Some("workflow_started".into()),
        "graph_run_succeeded" => Some("workflow_succeeded".into()),
        "graph_run_partial_succeeded" => Some("workflow_partial_succeeded".into()),
        "graph_run_failed" => Some("workflow_failed".into()),
        "graph_run_aborted" => Some("workflow_stopped".into()),
        "graph_run_paused" => Some("workflow_paused".into()),
        "node_run_started" => of_node("node_started"),
        "node_run_succeeded" => of_node("node_succeeded"),
        "node_run_failed" => of_node("node_failed"),
        "node_run_exception" => of_node("node_exception"),
        "node_run_pause_requested" => of_node("node_paused"),
        "node_run_retry" => numbered("node_retry", "retry_index"),
        "node_run_iteration_started" => of_node("iteration_started"),
        "node_run_iteration_next" => numbered("iteration_next", "index"),
        "node_run_iteration_succeeded" => of_node("iteration_succeeded"),
        "node_run_iteration_failed" => of_node("iteration_failed"),
        "node_run_loop_started" => of_node("loop_started"),
        "node_run_loop_next" => numbered("loop_next", "index"),
        "node_run_loop_succeeded" => of_node("loop_succeeded"),
        "node_run_loop_failed" => of_node("loop_failed"),
        "node_run_variable_updated" => {
            let selector = event.data.pointer("/variable/selector").or_else(|| event.data.get("selector"));
            let parts = selector.and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
            Some(format!("variable_updated:{}", parts.collect::<Vec<_>>().join(".")))
        }
        _ => None,
    }
}
