//! A second engine that is as simple as possible. It reads the document and follows the rules of Dify's engine by
//! recursion, and by repeating until nothing changes. It has no time, queues, jobs, streams or crashes. Its outcome of
//! a run is the outcome that the fleet must have, whatever faults the fleet had.
//!
//! It was written from the rules and not from `common/engine`. Keep it that way: an error that both have in common
//! would not be found.

mod container;
mod node;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::run::{NodeStatus, RunStatus};

use crate::script::Script;

/// Values by node and name.
type Pool = HashMap<(String, String), Json>;

/// The expected outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    pub status: RunStatus,
    /// The outputs; empty when the run fails.
    pub outputs: serde_json::Map<String, Json>,
    /// Number of failed attempts, handled or not, and of failed containers.
    pub exceptions: u64,
    /// Status and number of attempts by frame and node, of all nodes that began.
    pub nodes: BTreeMap<(String, String), (NodeStatus, u32)>,
    /// True if the nodes and the number of failures depend on an unspecified order: parallel items may have continued
    /// or not beside the one that ended their iteration.
    pub is_loose: bool,
}

/// Runs a document and returns its expected outcome.
///
/// # Panics
/// On anything that [`crate::draw`] does not draw.
pub fn run(document: &Json, inputs: &Json, script: &Script) -> Expected {
    let mut engine = Engine::new(document, script);
    let mut pool = Pool::new();
    for (name, value) in inputs.as_object().into_iter().flatten() {
        pool.insert(("s".into(), name.clone()), value.clone());
    }
    let errors = engine.frame("", "s", &mut pool);
    let status = match (errors.is_empty(), engine.exceptions) {
        (false, _) => RunStatus::Failed,
        (true, 0) => RunStatus::Succeeded,
        (true, _) => RunStatus::PartialSucceeded,
    };
    let outputs = if errors.is_empty() { engine.outputs } else { serde_json::Map::new() };
    let (exceptions, nodes, is_loose) = (engine.exceptions, engine.nodes, engine.is_loose);
    Expected { status, outputs, exceptions, nodes, is_loose }
}

/// The end of a node within a frame.
#[derive(Debug, Clone, PartialEq)]
enum Decided {
    /// It ended, and its edges with this handle are taken.
    Ended(String),
    /// No edge to it was taken.
    Skipped,
    /// It failed and nothing handles the failure; its edges stay undecided.
    Failed,
}

struct Engine<'a> {
    script: &'a Script,
    /// Ids and data in the order of the file.
    listed: Vec<(String, Json)>,
    /// Source, handle and target.
    edges: Vec<(String, String, String)>,
    outputs: serde_json::Map<String, Json>,
    exceptions: u64,
    nodes: BTreeMap<(String, String), (NodeStatus, u32)>,
    is_loose: bool,
}

impl<'a> Engine<'a> {
    fn new(document: &Json, script: &'a Script) -> Self {
        let text = |value: &Json| value.as_str().unwrap_or_default().to_string();
        let list = |key: &str| document[key].as_array().cloned().unwrap_or_default();
        Self {
            script,
            listed: list("nodes").iter().map(|node| (text(&node["id"]), node["data"].clone())).collect(),
            edges: list("edges")
                .iter()
                .map(|edge| (text(&edge["source"]), text(&edge["sourceHandle"]), text(&edge["target"])))
                .collect(),
            outputs: serde_json::Map::new(),
            exceptions: 0,
            nodes: BTreeMap::new(),
            is_loose: false,
        }
    }

    /// Runs a frame from its root until nothing changes. Returns the failures that nothing handled.
    fn frame(&mut self, path: &str, root: &str, pool: &mut Pool) -> Vec<String> {
        let mut decided: HashMap<String, Decided> = HashMap::new();
        let mut errors = Vec::new();
        loop {
            let next = self.listed.iter().find_map(|(id, _)| {
                let is_open = !decided.contains_key(id);
                let turn = if id == root { Some(true) } else { self.turn(id, &decided) };
                turn.filter(|_| is_open).map(|runs| (id.clone(), runs))
            });
            let Some((id, runs)) = next else { return errors };
            let end = if runs { self.node(path, &id, pool, &mut errors) } else { Decided::Skipped };
            decided.insert(id, end);
        }
    }

    /// Returns whether a node is to run (true) or to be skipped (false); `None` while an edge to it is undecided.
    fn turn(&self, id: &str, decided: &HashMap<String, Decided>) -> Option<bool> {
        let mut is_taken = None;
        for (source, handle, _) in self.edges.iter().filter(|(_, _, target)| target == id) {
            let taken = match decided.get(source)? {
                Decided::Failed => return None,
                Decided::Skipped => false,
                Decided::Ended(left_by) => !self.is_branch(source) || left_by == handle,
            };
            is_taken = Some(is_taken.unwrap_or(false) || taken);
        }
        is_taken
    }

    fn data(&self, id: &str) -> Json {
        self.listed.iter().find(|(known, _)| known == id).map(|(_, data)| data.clone()).unwrap_or_default()
    }

    fn is_branch(&self, id: &str) -> bool {
        let data = self.data(id);
        matches!(data["type"].as_str(), Some("if-else" | "human-input"))
            || data["error_strategy"] == "fail-branch"
    }
}

/// Returns a value by its selector.
fn read<'p>(pool: &'p Pool, selector: &Json) -> Option<&'p Json> {
    let part = |at: usize| selector[at].as_str().unwrap_or_default().to_string();
    pool.get(&(part(0), part(1)))
}

fn write(pool: &mut Pool, node: &str, name: &str, value: Json) {
    pool.insert((node.to_string(), name.to_string()), value);
}

/// Returns the items of a list; empty when there is no list.
fn items(value: &Json) -> Vec<Json> {
    value.as_array().cloned().unwrap_or_default()
}

/// Outputs of a node and its handle, or the text of its failure.
type Made = Result<(Vec<(String, Json)>, String), String>;

/// Returns no outputs and this handle.
fn left_by(handle: &str) -> Made {
    Ok((Vec::new(), handle.to_string()))
}

/// Returns one output.
fn made(name: &str, value: Json) -> Made {
    Ok((vec![(name.to_string(), value)], "source".to_string()))
}

/// Returns true for a value that Python treats as false.
fn is_falsy(value: &Json) -> bool {
    *value == Json::Null
        || *value == json!("")
        || *value == json!([])
        || *value == json!(0)
        || *value == json!(false)
}
