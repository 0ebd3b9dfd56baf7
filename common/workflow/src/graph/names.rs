//! Finds the variables that bare names in a node's texts may mean. They follow from the node's position, so
//! they are known when the graph is built: loops and iterations around it from the inside out, variables of
//! the frame, of the run and of the conversation, the inputs of the run, and `sys`. All of them are
//! mentioned, so that the node's job carries them.

use super::{Node, NodeIx};
use crate::dsl::Document;
use crate::nodes::{ExecutionType, NodeData};
use tidemill_base::value::names::Names;

/// The variables of every iteration.
const OF_ITERATIONS: [&str; 2] = ["item", "index"];
/// All system variables.
const OF_SYS: [&str; 9] = [
    "query",
    "files",
    "conversation_id",
    "user_id",
    "dialogue_count",
    "app_id",
    "workflow_id",
    "workflow_run_id",
    "timestamp",
];

/// Sets the [`Names`] of each node with named text; returns these nodes.
pub(super) fn give(nodes: &mut [Node], document: &Document) -> Vec<usize> {
    let named: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at].data.has_names()).collect();
    for at in &named {
        let (scopes, declared) = known(nodes, *at, document);
        if let Some(names) = nodes[*at].data.names_mut() {
            *names = Names { own: std::mem::take(&mut names.own), scopes, declared };
        }
    }
    named
}

/// Returns the namespaces of a node in order of precedence, and the variables declared in them.
fn known(nodes: &[Node], at: usize, document: &Document) -> (Vec<String>, Vec<(String, String)>) {
    let (mut loops, mut frames) = (Vec::new(), Vec::new());
    let mut declared = Vec::new();
    for container in around(nodes, at) {
        let id = container.id.as_str().to_owned();
        match &container.data {
            NodeData::Loop(data) => {
                declared
                    .extend(data.variables.iter().map(|variable| (id.clone(), variable.label().to_owned())));
                loops.push(id);
            }
            _ => {
                declared.extend(OF_ITERATIONS.map(|name| (id.clone(), name.to_owned())));
                frames.push(id);
            }
        }
    }
    let conversation = document.conversation.iter();
    declared.extend(conversation.map(|variable| ("conversation".to_owned(), variable.name.to_string())));
    for node in nodes {
        if let NodeData::UserInteraction(data) = &node.data {
            let set = data.on_answer.variables.iter().flatten();
            declared.extend(set.map(|variable| ("run".to_owned(), variable.name.clone())));
        }
    }
    let mut roots = Vec::new();
    for root in nodes.iter().filter(|node| is_root(node)) {
        let id = root.id.as_str().to_owned();
        if let NodeData::Start(data) = &root.data {
            declared.extend(data.variables.iter().map(|field| (id.clone(), field.variable.clone())));
        }
        roots.push(id);
    }
    declared.extend(OF_SYS.map(|name| ("sys".to_owned(), name.to_owned())));
    let whole_run = ["local", "run", "conversation"].map(str::to_owned);
    let scopes = loops.into_iter().chain(frames).chain(whole_run).chain(roots).chain(["sys".to_owned()]);
    (scopes.collect(), declared)
}

fn is_root(node: &Node) -> bool {
    node.kind.spec().execution == ExecutionType::Root && node.parent.is_none()
}

/// Iterates over the containers around a node, from the inside out.
fn around(nodes: &[Node], at: usize) -> impl Iterator<Item = &Node> {
    let container = |ix: &NodeIx| nodes[ix.at()].parent;
    // A node cannot be nested deeper than there are nodes.
    std::iter::successors(nodes[at].parent, container).take(nodes.len()).map(|ix| &nodes[ix.at()])
}
