//! The workflow files of the workloads: a start node, templates that pass a text on, an end node.

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::options::RunOptions;

use crate::engine::Job;
use crate::floor::{PAYLOAD, Shape};

/// Number of items of an iteration that are open at once.
const PARALLEL: usize = 100;

/// Where the steps of a workload are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Executor {
    /// Each step as a job of a worker.
    Worker,
    /// In the scheduler, as pure nodes.
    Scheduler,
    /// Nowhere: no worker serves its queue.
    Nobody,
}

/// Builds runs of this shape that pass the payload on. If a run is longer than the default limit, its options raise the
/// limit, as any request may do.
pub(super) fn job(shape: Shape, executor: Executor) -> Job {
    let steps = shape.steps();
    // The start node and the end node also count as steps.
    let counted = steps + 2;
    let default = RunOptions::default();
    Job {
        workflow: chain_or_fan(shape, executor),
        inputs: vec![("text", PAYLOAD.into())],
        options: RunOptions { steps_max: default.steps_max.max(counted as u64), ..default },
        steps,
        counted,
    }
}

/// Builds runs whose only step waits for a worker that does not exist.
pub(super) fn job_without_worker() -> Job {
    Job {
        workflow: chain_or_fan(Shape::Chain(1), Executor::Nobody),
        ..job(Shape::Chain(1), Executor::Worker)
    }
}

/// Builds runs that iterate over a list of so many items, with one step on a worker each.
pub(super) fn job_over_items(count: usize) -> Job {
    Job {
        workflow: each_item(),
        inputs: items(count),
        options: RunOptions::default(),
        steps: count,
        // The steps of the items are not part of a run's own count.
        counted: 3,
    }
}

/// Builds the inputs of an iteration over so many items.
pub(super) fn items(count: usize) -> Vec<(&'static str, Json)> {
    let items: Vec<String> = (0..count).map(|at| format!("{PAYLOAD} {at}")).collect();
    vec![("list", json!({ "items": items }))]
}

/// Builds a chain of so many code nodes that each compute the same small number of Fibonacci.
pub(super) fn fibo(tasks: usize) -> String {
    let name = |at: usize| if at == 0 { "start".to_string() } else { format!("task{at}") };
    let mut nodes = vec![start("n", "number")];
    nodes.extend((1..=tasks).map(|at| json!({"id": name(at), "data": compute()})));
    nodes.push(end(&[name(tasks), "result".into()]));
    let mut edges: Vec<Json> = (1..=tasks).map(|at| edge(&name(at - 1), &name(at))).collect();
    edges.push(edge(&name(tasks), "end"));
    file(&nodes, &edges)
}

/// Builds a chain of so many nodes with this tool.
pub(super) fn chain_of_tools(tools: usize, tool: &Json) -> String {
    let name = |at: usize| if at == 0 { "start".to_string() } else { format!("tool{at}") };
    let mut nodes =
        vec![json!({"id": "start", "data": {"type": "start", "title": "Start", "variables": []}})];
    nodes.extend((1..=tools).map(|at| json!({"id": name(at), "data": tool})));
    nodes.push(end(&[name(tools), "text".into()]));
    let mut edges: Vec<Json> = (1..=tools).map(|at| edge(&name(at - 1), &name(at))).collect();
    edges.push(edge(&name(tools), "end"));
    file(&nodes, &edges)
}

fn chain_or_fan(shape: Shape, executor: Executor) -> String {
    let steps = shape.steps();
    let name = |at: usize| format!("step{at}");
    let text_of =
        |at: usize| if at == 0 { ["start".into(), "text".into()] } else { [name(at), "output".into()] };
    let mut nodes = vec![start("text", "paragraph")];
    let mut edges = Vec::new();
    for at in 1..=steps {
        let before = before(shape, at);
        nodes.push(json!({"id": name(at), "data": hand_on(executor, &text_of(before[0]))}));
        edges.extend(
            before.iter().map(|b| edge(&if *b == 0 { "start".to_string() } else { name(*b) }, &name(at))),
        );
    }
    nodes.push(end(&text_of(steps)));
    edges.push(edge(&name(steps), "end"));
    file(&nodes, &edges)
}

fn each_item() -> String {
    let mut step = hand_on(Executor::Worker, &["each".into(), "item".into()]);
    step["iteration_id"] = "each".into();
    let nodes = [
        start("list", "json_object"),
        json!({"id": "each", "data": {
            "type": "iteration", "title": "Each", "start_node_id": "eachstart",
            "iterator_selector": ["start", "list", "items"], "output_selector": ["step", "output"],
            "is_parallel": true, "parallel_nums": PARALLEL, "flatten_output": false,
        }}),
        json!({"id": "eachstart", "type": "custom-iteration-start", "parentId": "each",
            "data": {"type": "iteration-start"}}),
        json!({"id": "step", "parentId": "each", "data": step}),
        end(&["each".into(), "output".into()]),
    ];
    file(&nodes, &[edge("start", "each"), edge("eachstart", "step"), edge("each", "end")])
}

/// Returns the steps before a step, from 1; 0 is the start node.
fn before(shape: Shape, at: usize) -> Vec<usize> {
    match shape {
        Shape::Chain(_) => vec![at - 1],
        Shape::Fan(_) if at == 1 => vec![0],
        Shape::Fan(width) if at <= width + 1 => vec![1],
        Shape::Fan(width) => (2..=width + 1).collect(),
    }
}

fn start(variable: &str, kind: &str) -> Json {
    json!({"id": "start", "data": {"type": "start", "title": "Start", "variables": [
        {"variable": variable, "label": "Input", "type": kind, "required": true, "max_length": 100_000_000},
    ]}})
}

fn hand_on(executor: Executor, text: &[String; 2]) -> Json {
    let mut data = json!({
        "type": "template-transform", "title": "Hand on", "template": "{{ text }}",
        "variables": [{"variable": "text", "value_selector": text}],
    });
    match executor {
        Executor::Worker => data["tidemill"] = json!({"runs_on": "worker"}),
        Executor::Nobody => data["tidemill"] = json!({"runs_on": "worker", "queue": "nobody"}),
        Executor::Scheduler => {}
    }
    data
}

/// A task of [`fibo`]. It fails if it computes something else.
fn compute() -> Json {
    let code = "\
def fibo(n):
    return n if n <= 1 else fibo(n - 1) + fibo(n - 2)

def main(n):
    found = fibo(int(n))
    assert found == 55
    return {'result': found}
";
    json!({
        "type": "code", "title": "Fibo", "code_language": "python3", "code": code,
        "variables": [{"variable": "n", "value_selector": ["start", "n"]}],
        "outputs": {"result": {"type": "number", "children": null}},
    })
}

fn end(output: &[String; 2]) -> Json {
    json!({"id": "end", "data": {"type": "end", "title": "End", "outputs": [
        {"variable": "out", "value_selector": output},
    ]}})
}

fn edge(from: &str, to: &str) -> Json {
    json!({"id": format!("{from}-{to}"), "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"})
}

fn file(nodes: &[Json], edges: &[Json]) -> String {
    json!({
        "kind": "app", "version": "0.6.0", "app": {"name": "bench", "mode": "workflow"},
        "workflow": {"graph": {"nodes": nodes, "edges": edges}},
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workflow_can_be_run() {
        let files = [
            chain_or_fan(Shape::Chain(20), Executor::Worker),
            chain_or_fan(Shape::Chain(20), Executor::Scheduler),
            chain_or_fan(Shape::Chain(1), Executor::Nobody),
            chain_or_fan(Shape::Chain(10_000), Executor::Worker),
            chain_or_fan(Shape::Fan(100), Executor::Worker),
            each_item(),
            fibo(400),
        ];
        for file in files {
            let imported = tidemill_common::graph::import(file.as_bytes());
            assert!(imported.is_usable(), "{:?} in {:.300}", imported.diagnostics, file);
        }
    }
}
