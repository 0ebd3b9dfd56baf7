//! Draws random workflows. It draws nothing that depends on an unspecified order, so that every document has exactly
//! one outcome:
//!
//! - nodes read only values of nodes before them, which are decided when their turn comes;
//! - every End has its own output names, and there is at most one Answer;
//! - bodies of containers are chains (with branches that join again), so that a failure stops no parallel node.
//!
//! The outcome stays open only when a run fails while other nodes are running, and for parallel items beside the one
//! that ends an iteration: [`crate::reference::Expected`] marks these, and the comparison leaves them out.

mod body;
mod data;
mod root;

use serde_json::{Value as Json, json};

use crate::dice::Dice;
use crate::features::Features;
use crate::script::Script;
use data::VariableName;

/// A workflow with its inputs and its script.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The graph, as in a workflow file.
    pub document: Json,
    /// The inputs of the start node.
    pub inputs: Json,
    /// How attempts end.
    pub script: Script,
    /// Size in bytes above which a value is stored as a blob.
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

/// A document that is being drawn.
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

    /// Draws a model call and its error handling. Returns the handles that its edges may have.
    fn llm(&mut self, reads: &VariableName) -> (Json, Vec<&'static str>) {
        let mut data = data::llm(reads);
        if self.dice.percent(40) {
            let (retries, pause_ms) = (self.dice.between(1, 2), self.dice.between(100, 3000));
            data["retry_config"] =
                json!({"retry_enabled": true, "max_retries": retries, "retry_interval": pause_ms});
        }
        let handles = self.strategy(&mut data, ("text", "string"), "instead~0~+");
        (data, handles)
    }

    /// Adds an error strategy in some cases. Returns the handles that the node's edges may have.
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

    fn some(&mut self, of: &[VariableName], most: usize) -> Vec<VariableName> {
        let count = 1 + self.dice.below(most);
        (0..count).filter_map(|_| self.dice.pick(of).cloned()).collect()
    }
}

/// The container whose body is being drawn.
struct Container {
    id: String,
    /// The field of the children that names the container.
    mark: &'static str,
}
