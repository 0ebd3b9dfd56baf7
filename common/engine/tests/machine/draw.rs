//! Graphs as short drawings, one line per node or chain of edges:
//!
//! ```text
//! start s
//! job a                    runs on a worker: a template-transform with `on_worker`
//! text t "hi {{ x }}"      evaluated in the step
//! if g s.x                 ends by `true` when s.x is "yes", else by `false`
//! llm m retry=2 fail-branch
//! answer z Said {{#m.text#}}
//! end e a.output b.output
//! s > g > a                edges; `g:false > b` names the handle
//! ```

use std::sync::Arc;

use serde_json::{Value as Json, json};

use tidemill_workflow::graph::Graph;
use tidemill_workflow::graph::builder::import;

/// Builds the graph of a drawing.
pub(super) fn draw(text: &str) -> Arc<Graph> {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.contains(" > ") { chain(line, &mut edges) } else { nodes.push(node(line)) }
    }
    build(&nodes, &edges)
}

/// Builds a graph from nodes and edges in the form of a workflow file.
pub(super) fn build(nodes: &[Json], edges: &[Json]) -> Arc<Graph> {
    let text = json!({"nodes": nodes, "edges": edges}).to_string();
    let imported = import(text.as_bytes());
    Arc::new(imported.graph.unwrap_or_else(|| panic!("{:#?}\n{text}", imported.diagnostics)))
}

fn chain(line: &str, edges: &mut Vec<Json>) {
    let stops: Vec<(&str, &str)> = line
        .split(" > ")
        .map(|stop| stop.trim().split_once(':').unwrap_or((stop.trim(), "source")))
        .collect();
    for pair in stops.windows(2) {
        edges.push(edge(pair[0].0, pair[0].1, pair[1].0));
    }
}

/// Makes an edge in the form of a workflow file.
pub(super) fn edge(source: &str, handle: &str, target: &str) -> Json {
    json!({"source": source, "target": target, "sourceHandle": handle})
}

fn node(line: &str) -> Json {
    let mut words = line.splitn(3, ' ');
    let (kind, id, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or(""));
    let mut data = data(kind, rest);
    for word in rest.split(' ').filter(|_| kind == "job" || kind == "llm") {
        option(&mut data, word);
    }
    json!({"id": id, "data": data})
}

/// Makes the `data` of a node of this kind.
pub(super) fn data(kind: &str, rest: &str) -> Json {
    let selector = |text: &str| text.split('.').map(str::to_string).collect::<Vec<_>>();
    match kind {
        "start" => json!({"type": "start", "variables": []}),
        "job" => json!({"type": "template-transform", "template": "x", "variables": [],
            "tidemill": {"runs_on": "worker"}}),
        "text" => json!({"type": "template-transform", "template": rest.trim_matches('"'), "variables": []}),
        "if" => {
            json!({"type": "if-else", "cases": [{"case_id": "true", "logical_operator": "and", "conditions":
            [{"comparison_operator": "is", "variable_selector": selector(rest), "value": "yes"}]}]})
        }
        "llm" => json!({"type": "llm", "prompt_template": [{"role": "user", "text": "hi"}],
            "model": {"provider": "p", "name": "m", "mode": "chat", "completion_params": {}},
            "context": {"enabled": false, "variable_selector": []}}),
        "answer" => json!({"type": "answer", "answer": rest}),
        "end" => {
            // The id of a node may contain dots.
            let parts =
                |name: &str| name.rsplit_once('.').map(|(node, name)| [node.to_string(), name.to_string()]);
            let output = |name: &str| json!({"variable": name, "value_selector": parts(name)});
            let outputs: Vec<Json> = rest.split_whitespace().map(output).collect();
            json!({"type": "end", "outputs": outputs})
        }
        other => panic!("no node of kind {other:?}"),
    }
}

/// Adds the option of one word after a node's id.
pub(super) fn option(data: &mut Json, word: &str) {
    if let Some(retries) = word.strip_prefix("retry=") {
        let max: u32 = retries.parse().unwrap();
        data["retry_config"] = json!({"retry_enabled": true, "max_retries": max, "retry_interval": 1000});
    }
    match word {
        "fail-branch" => data["error_strategy"] = "fail-branch".into(),
        "default" => {
            data["error_strategy"] = "default-value".into();
            data["default_value"] = json!([{"key": "text", "type": "string", "value": "instead"}]);
        }
        _ => {}
    }
}
