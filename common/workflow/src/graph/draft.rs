//! A draft of a graph: everything that could be read, with gaps where something is invalid. The rules of
//! [`super::validate`] check the draft; it becomes a [`super::Graph`] only when none of them reports an
//! error.

use std::collections::HashMap;

use super::children::{self, ChildNode};
use super::containers;
use super::wrapper::{self, Wrapper};
use crate::dsl::{Document, DocumentEdge, DocumentNode, Problems};
use crate::nodes::{NodeData, NodeKind, parse_data};

/// A node of the draft.
pub(super) struct DraftNode<'d> {
    pub(super) source: &'d DocumentNode,
    /// `None` for an unknown type.
    pub(super) kind: Option<NodeKind>,
    /// `None` when the configuration is invalid.
    pub(super) data: Option<NodeData>,
    pub(super) wrapper: Wrapper,
    /// Set for a node that runs inside another.
    pub(super) child: Option<&'d ChildNode>,
}

/// An edge of the draft; an end is `None` when no node has its id.
pub(super) struct DraftEdge<'d> {
    pub(super) source: &'d DocumentEdge,
    pub(super) from: Option<usize>,
    pub(super) to: Option<usize>,
}

/// A graph that is not checked yet.
pub(super) struct Draft<'d> {
    pub(super) document: &'d Document,
    /// The nodes of the document, followed by their children.
    pub(super) nodes: Vec<DraftNode<'d>>,
    pub(super) edges: Vec<DraftEdge<'d>>,
    /// The first node of each id.
    pub(super) index: HashMap<&'d str, usize>,
    /// The container of each node.
    pub(super) parents: Vec<containers::Parent<'d>>,
    /// The outgoing edges of each node that have a target.
    pub(super) outs: Vec<Vec<usize>>,
}

impl<'d> Draft<'d> {
    /// Reads every node and joins every edge. Problems of single nodes are reported here.
    pub(super) fn new(document: &'d Document, inside: &'d [ChildNode], problems: &mut Problems) -> Self {
        let own = document.nodes.iter().map(|node| (node, None));
        let inner = inside.iter().map(|child| (&child.node, Some(child)));
        let nodes: Vec<_> = own.chain(inner).map(|(node, child)| read_node(node, child, problems)).collect();
        let mut index = HashMap::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            index.entry(node.source.id.as_str()).or_insert(at);
        }
        // No edge may lead to a child.
        let ends = |id: &str| index.get(id).copied().filter(|&at| at < document.nodes.len());
        let edges: Vec<_> = document
            .edges
            .iter()
            .map(|source| DraftEdge { source, from: ends(&source.source), to: ends(&source.target) })
            .collect();
        let mut outs = vec![Vec::new(); nodes.len()];
        for (at, edge) in edges.iter().enumerate() {
            if let (Some(from), Some(_)) = (edge.from, edge.to) {
                outs[from].push(at);
            }
        }
        let mut parents = containers::parents(document, &nodes, &index);
        let around: Vec<_> = inside.iter().map(|child| parents[child.of]).collect();
        parents.extend(around);
        Self { document, nodes, edges, index, parents, outs }
    }

    /// True if the file has a node of this id that could not be read. That is reported already.
    pub(super) fn is_refused(&self, id: &str) -> bool {
        self.document.refused.iter().any(|refused| refused == id)
    }

    /// Returns the nodes where a run may begin: root types outside every container.
    pub(super) fn roots(&self) -> Vec<usize> {
        let is_root = |at: &usize| {
            let is_root_type = self.nodes[*at]
                .kind
                .is_some_and(|kind| kind.spec().execution == crate::nodes::ExecutionType::Root);
            is_root_type
                && self.nodes[*at].child.is_none()
                && matches!(self.parents[*at], containers::Parent::None)
        };
        (0..self.nodes.len()).filter(is_root).collect()
    }

    /// Runs `check` at the path of a node.
    pub(super) fn at_node(&self, at: usize, problems: &mut Problems, check: impl FnOnce(&mut Problems)) {
        problems.within(node_path(self.nodes[at].source, self.nodes[at].child), check);
    }

    /// Runs `check` at the path of an edge.
    pub(super) fn at_edge(&self, at: usize, problems: &mut Problems, check: impl FnOnce(&mut Problems)) {
        problems.within(format!("edges[{}]", self.edges[at].source.place), check);
    }
}

fn node_path(node: &DocumentNode, child: Option<&ChildNode>) -> String {
    match child {
        None => format!("nodes[{}]", node.place),
        Some(child) if child.is_slot => format!("nodes[{}]", node.place),
        Some(child) => format!("nodes[{}].data.{}[{}]", node.place, children::FIELD, child.at),
    }
}

fn read_node<'d>(
    source: &'d DocumentNode,
    child: Option<&'d ChildNode>,
    problems: &mut Problems,
) -> DraftNode<'d> {
    let kind = NodeKind::from_wire(source.type_name());
    problems.within(node_path(source, child), |problems| {
        problems.within("data", |problems| DraftNode {
            source,
            kind,
            child,
            wrapper: wrapper::read(&source.data, kind, problems),
            data: kind.and_then(|kind| {
                problems.of_node(&source.id, |problems| {
                    parse_data(kind, &children::as_read(&source.data), problems)
                })
            }),
        })
    })
}
