//! The workflows whose steps are counted. Do not change them: another workflow has another count.

use serde_json::{Value as Json, json};

/// A chain of steps on a worker.
pub(super) fn chain(steps: usize) -> Json {
    let names: Vec<String> = (1..=steps).map(|at| format!("step{at}")).collect();
    let mut nodes = vec![start()];
    nodes.extend(names.iter().map(|name| step(name, &["start", "text"])));
    nodes.push(end(&names[steps - 1]));
    let mut edges = vec![edge("start", &names[0])];
    edges.extend(names.windows(2).map(|pair| edge(&pair[0], &pair[1])));
    edges.push(edge(&names[steps - 1], "end"));
    workflow("workflow", nodes, edges)
}

/// Parallel steps on a worker, and one step after all of them.
pub(super) fn fan(width: usize) -> Json {
    let names: Vec<String> = (1..=width).map(|at| format!("side{at}")).collect();
    let mut nodes = vec![start(), step("join", &["side1", "output"]), end("join")];
    nodes.extend(names.iter().map(|name| step(name, &["start", "text"])));
    let mut edges = vec![edge("join", "end")];
    edges.extend(names.iter().flat_map(|name| [edge("start", name), edge(name, "join")]));
    workflow("workflow", nodes, edges)
}

/// An iteration over `start.list` with one step on a worker.
pub(super) fn iteration() -> Json {
    let mut inside = step("each", &["it", "item"]);
    inside["parentId"] = "it".into();
    inside["data"]["iteration_id"] = "it".into();
    let nodes = vec![
        start(),
        json!({"id": "it", "data": {"type": "iteration", "title": "Each", "start_node_id": "first", "is_parallel": false,
            "iterator_selector": ["start", "list"], "output_selector": ["each", "output"], "output_type": "array[string]"}}),
        json!({"id": "first", "parentId": "it", "data": {"type": "iteration-start", "title": "", "iteration_id": "it"}}),
        inside,
        end("it"),
    ];
    workflow("workflow", nodes, vec![edge("start", "it"), edge("it", "end"), edge("first", "each")])
}

/// A model whose answer is streamed.
pub(super) fn chat() -> Json {
    let nodes = vec![
        start(),
        json!({"id": "model", "data": {"type": "llm", "title": "Model",
            "model": {"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}},
            "prompt_template": [{"role": "user", "text": "{{#sys.query#}}"}],
            "context": {"enabled": false, "variable_selector": []}, "vision": {"enabled": false}}}),
        json!({"id": "answer", "data": {"type": "answer", "title": "Answer", "answer": "{{#model.text#}}"}}),
    ];
    workflow("advanced-chat", nodes, vec![edge("start", "model"), edge("model", "answer")])
}

fn workflow(mode: &str, nodes: Vec<Json>, edges: Vec<Json>) -> Json {
    json!({
        "kind": "app", "version": "0.6.0", "app": {"name": "counted", "mode": mode},
        "workflow": {"graph": {"nodes": nodes, "edges": edges}},
    })
}

fn start() -> Json {
    json!({"id": "start", "data": {"type": "start", "title": "Start", "variables": []}})
}

fn end(last: &str) -> Json {
    json!({"id": "end", "data": {"type": "end", "title": "End", "outputs": [
        {"variable": "text", "value_selector": [last, "output"]},
    ]}})
}

fn step(id: &str, text: &[&str; 2]) -> Json {
    json!({"id": id, "data": {
        "type": "template-transform", "title": format!("Hand on {id}"), "template": "{{ text }}",
        "variables": [{"variable": "text", "value_selector": text}], "tidemill": {"runs_on": "worker"},
    }})
}

fn edge(from: &str, to: &str) -> Json {
    json!({"id": format!("{from}-{to}"), "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"})
}
