//! Random workflows. What depends on an order that a fleet does not promise is not drawn, so that every document has
//! one outcome:
//!
//! - nodes read values of nodes before them alone, and those are decided when their turn comes;
//! - every End has output names of its own, and there is one Answer at most;
//! - bodies of containers are chains (with branches that join again), so that a failure in one stops nothing beside it.
//!
//! What is left undecided is a run that fails while other nodes are at work, and parallel items around the one that
//! ends an iteration: [`crate::reference::Expected`] says so, and the comparison leaves it out.

mod body;
mod data;
mod root;

use serde_json::{Value as Json, json};

use crate::dice::Dice;
use crate::features::Features;
use crate::script::Script;
use data::Place;

/// A workflow, what it is given, and how it will go.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A bare graph, as a workflow file has it.
    pub document: Json,
    /// What the start node is given.
    pub inputs: Json,
    /// How its attempts end.
    pub script: Script,
    /// Bytes of a value above which it lies apart.
    pub inline_bytes_max: u64,
}

/// Draws a workflow.
pub fn draw(dice: &mut Dice, features: Features) -> Plan {
    let script = Script::new(dice.roll(), [0, 0, 10, 35][dice.below(4)]);
    let items: Vec<String> = (0..dice.below(5)).map(|n| format!("item {n}")).collect();
    let x = ["yes +", "no", ""][dice.below(3)];
    let inputs = json!({"x": x, "items": items});
    let inline_bytes_max = [8192, 8192, 60, 24][dice.below(4)];
    let mut sketch = Sketch { dice, features, nodes: Vec::new(), edges: Vec::new(), answers: 0 };
    sketch.root();
    let document = json!({"nodes": sketch.nodes, "edges": sketch.edges});
    Plan { document, inputs, script, inline_bytes_max }
}

/// A document being drawn.
struct Sketch<'a> {
    dice: &'a mut Dice,
    features: Features,
    nodes: Vec<Json>,
    edges: Vec<Json>,
    answers: usize,
}

impl Sketch<'_> {
    fn node(&mut self, id: &str, mut data: Json, container: Option<&Container>) {
        data["title"] = id.into();
        let mut node = json!({"id": id, "data": data});
        if let Some(container) = container {
            node["parentId"] = container.id.as_str().into();
            node["data"][container.mark] = container.id.as_str().into();
        }
        self.nodes.push(node);
    }

    fn edge(&mut self, source: &str, handle: &str, target: &str) {
        let id = format!("e{}", self.edges.len());
        self.edges.push(json!({"id": id, "source": source, "target": target, "sourceHandle": handle}));
    }

    /// A model call with whatever follows its failures; answers the handles it may leave by.
    fn llm(&mut self, reads: &Place) -> (Json, Vec<&'static str>) {
        let mut data = data::llm(reads);
        if self.dice.percent(40) {
            let (retries, pause_ms) = (self.dice.between(1, 2), self.dice.between(100, 3000));
            data["retry_config"] =
                json!({"retry_enabled": true, "max_retries": retries, "retry_interval": pause_ms});
        }
        let handles = self.strategy(&mut data, ("text", "string"), "instead~0~+");
        (data, handles)
    }

    /// Perhaps an error strategy; answers the handles that the node may leave by.
    fn strategy(&mut self, data: &mut Json, (output, ty): (&str, &str), instead: &str) -> Vec<&'static str> {
        match self.dice.below(5) {
            0 | 1 => vec!["source"],
            2 => {
                data["error_strategy"] = "default-value".into();
                data["default_value"] = json!([{"key": output, "type": ty, "value": instead}]);
                vec!["source"]
            }
            _ => {
                data["error_strategy"] = "fail-branch".into();
                vec!["source", "fail-branch"]
            }
        }
    }

    fn some(&mut self, of: &[Place], most: usize) -> Vec<Place> {
        let count = 1 + self.dice.below(most);
        (0..count).filter_map(|_| self.dice.pick(of).cloned()).collect()
    }
}

/// The container whose body is drawn.
struct Container {
    id: String,
    /// The field of its children that names it.
    mark: &'static str,
}
