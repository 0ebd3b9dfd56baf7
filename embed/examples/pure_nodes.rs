//! Measures an embedded engine: runs of a hundred pure nodes, one after the other, each followed to its last event.
//!
//! ```sh
//! cargo run --release -p tidemill-embed --example pure_nodes
//! ```
#![allow(clippy::print_stdout, reason = "the figure is what this program is for")]

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tidemill_embed::{EmbedError, Engine, EngineConfig, Inputs};

/// The number of pure nodes between start and end.
const NODES: usize = 100;
/// Runs before the measurement: caches and memory are there after them.
const WARM_UP: usize = 20;
const RUNS: usize = 100;

/// A chain of templates; each takes the output of the one before it.
fn chain(nodes: usize) -> String {
    let name = |at: usize| if at == 0 { "start".to_owned() } else { format!("t{at}") };
    let template = |at: usize| {
        let output = if at == 1 { "n" } else { "output" };
        json!({"id": name(at), "data": {"type": "template-transform", "title": "T", "template": "{{ x }}.",
            "variables": [{"variable": "x", "value_selector": [name(at - 1), output]}]}})
    };
    let edge = |from: String, to: String| json!({"id": format!("{from}-{to}"), "source": from, "target": to});
    let mut all: Vec<Json> = vec![json!({"id": "start", "data": {"type": "start", "title": "S",
        "variables": [{"variable": "n", "label": "n", "type": "text-input"}]}})];
    all.extend((1..=nodes).map(template));
    all.push(json!({"id": "end", "data": {"type": "end", "title": "E",
        "outputs": [{"variable": "text", "value_selector": [name(nodes), "output"]}]}}));
    let mut edges: Vec<Json> = (1..=nodes).map(|at| edge(name(at - 1), name(at))).collect();
    edges.push(edge(name(nodes), "end".into()));
    json!({"kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Chain"},
        "workflow": {"graph": {"nodes": all, "edges": edges}}})
    .to_string()
}

async fn follow(engine: &Engine, file: &str) -> Result<usize, EmbedError> {
    let run = engine.run(file, Inputs::new().input("n", "x")).await?;
    let mut events = run.events().await?;
    let mut count = 0;
    while events.next().await?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[tokio::main]
async fn main() -> Result<(), EmbedError> {
    let engine = Engine::create(EngineConfig::default()).await?;
    let file = chain(NODES);
    for _ in 0..WARM_UP {
        follow(&engine, &file).await?;
    }
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let since = Instant::now();
        follow(&engine, &file).await?;
        times.push(since.elapsed());
    }
    times.sort_unstable();
    let of_a_node = |time: Duration| time.as_secs_f64() * 1e6 / (NODES + 2) as f64;
    println!(
        "{:.1} µs a node (median of {RUNS} runs), {:.1} at best",
        of_a_node(times[RUNS / 2]),
        of_a_node(times[0])
    );
    engine.stop().await;
    Ok(())
}
