//! Finds the container of every node.
//!
//! Files name it in up to three ways: `parentId`, `data.iteration_id` and `data.loop_id`. In exports a
//! container's start node has only a `parentId`. Old files have no `parentId`; a node in an iteration within
//! a loop names both containers there, and the inner one counts. A start node that names none belongs to the
//! container whose `start_node_id` names it.

use std::collections::HashMap;

use super::draft::DraftNode;
use super::wrapper::owner;
use crate::dsl::Document;
use crate::nodes::ExecutionType;

/// The position of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parent<'d> {
    /// In the root graph.
    None,
    /// In this container.
    In(usize),
    /// In a node that is not a container.
    NotAContainer(usize),
    /// In a node that does not exist.
    Unknown(&'d str),
}

/// Returns the parent of every node, in order.
pub(super) fn parents<'d>(
    document: &'d Document,
    nodes: &[DraftNode<'d>],
    index: &HashMap<&'d str, usize>,
) -> Vec<Parent<'d>> {
    let mut by_start_node = HashMap::new();
    for (at, node) in document.nodes.iter().enumerate() {
        if is_container(&nodes[at])
            && let Some(start) = owner(&node.data, "start_node_id")
        {
            by_start_node.insert(start, at);
        }
    }
    let resolve = |id: &'d str| match index.get(id) {
        None => Parent::Unknown(id),
        Some(&at) if is_container(&nodes[at]) => Parent::In(at),
        Some(&at) => Parent::NotAContainer(at),
    };
    document
        .nodes
        .iter()
        .map(|node| match (named_by_node(document, index, node), by_start_node.get(node.id.as_str())) {
            (Some(id), _) => resolve(id),
            (None, Some(&container)) => Parent::In(container),
            (None, None) => Parent::None,
        })
        .collect()
}

fn is_container(node: &DraftNode<'_>) -> bool {
    node.kind.is_some_and(|kind| kind.spec().execution == ExecutionType::Container)
}

/// Returns the container that a node itself names; of two, the inner one.
fn named_by_node<'d>(
    document: &'d Document,
    index: &HashMap<&'d str, usize>,
    node: &'d crate::dsl::DocumentNode,
) -> Option<&'d str> {
    if let Some(parent) = &node.parent {
        return Some(parent);
    }
    let (iteration, round) = (owner(&node.data, "iteration_id"), owner(&node.data, "loop_id"));
    match (iteration, round) {
        (Some(iteration), Some(round)) => {
            let names = |container: &str, outer: &str| {
                index.get(container).map(|&at| &document.nodes[at]).is_some_and(|container| {
                    container.parent.as_deref() == Some(outer)
                        || owner(&container.data, "iteration_id") == Some(outer)
                        || owner(&container.data, "loop_id") == Some(outer)
                })
            };
            Some(if names(round, iteration) && !names(iteration, round) { round } else { iteration })
        }
        (one, other) => one.or(other),
    }
}
