//! Which container a node lies in.
//!
//! Files say it in up to three ways: `parentId`, `data.iteration_id` and `data.loop_id`. Exports give a container's
//! start node a `parentId` only; old files have no `parentId` and name both containers on a node that lies in an
//! iteration within a loop, where the inner one counts. A start node that says nothing belongs to the container whose
//! `start_node_id` names it.

use std::collections::HashMap;

use super::draft::DraftNode;
use super::wrapper::owner;
use crate::dsl::Document;
use crate::nodes::ExecutionType;

/// Where a node lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parent<'d> {
    /// In the root graph.
    None,
    /// In this container.
    In(usize),
    /// In a node that is no container.
    NotAContainer(usize),
    /// In something that is not there.
    Unknown(&'d str),
}

/// The parent of every node, in order.
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

/// The container that a node itself names; of two, the inner.
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
