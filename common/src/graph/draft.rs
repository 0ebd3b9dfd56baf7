//! A graph on its way: everything that could be read, with holes where something is wrong. The rules of
//! [`super::validate`] look at this; only when none of them complains does it become a [`super::Graph`].

use std::collections::HashMap;

use super::containers;
use super::wrapper::{self, Wrapper};
use crate::dsl::{Document, DocumentEdge, DocumentNode, Problems};
use crate::nodes::{NodeData, NodeKind, parse_data};

/// A node on its way.
pub(super) struct DraftNode<'d> {
    pub(super) source: &'d DocumentNode,
    /// None for an unknown type.
    pub(super) kind: Option<NodeKind>,
    /// None when the configuration cannot be used.
    pub(super) data: Option<NodeData>,
    pub(super) wrapper: Wrapper,
}

/// An edge on its way; an end is none when no node has that id.
pub(super) struct DraftEdge<'d> {
    pub(super) source: &'d DocumentEdge,
    pub(super) from: Option<usize>,
    pub(super) to: Option<usize>,
}

/// A graph on its way.
pub(super) struct Draft<'d> {
    pub(super) document: &'d Document,
    pub(super) nodes: Vec<DraftNode<'d>>,
    pub(super) edges: Vec<DraftEdge<'d>>,
    /// The first node of each id.
    pub(super) index: HashMap<&'d str, usize>,
    /// The container each node lies in.
    pub(super) parents: Vec<containers::Parent<'d>>,
    /// Edges that leave each node and lead somewhere.
    pub(super) outs: Vec<Vec<usize>>,
}

impl<'d> Draft<'d> {
    /// Reads every node and joins every edge; what a single node has wrong is reported here.
    pub(super) fn new(document: &'d Document, problems: &mut Problems) -> Self {
        let nodes: Vec<_> = document.nodes.iter().map(|node| read_node(node, problems)).collect();
        let mut index = HashMap::with_capacity(nodes.len());
        for (at, node) in document.nodes.iter().enumerate() {
            index.entry(node.id.as_str()).or_insert(at);
        }
        let edges: Vec<_> = document
            .edges
            .iter()
            .map(|source| DraftEdge {
                source,
                from: index.get(source.source.as_str()).copied(),
                to: index.get(source.target.as_str()).copied(),
            })
            .collect();
        let mut outs = vec![Vec::new(); nodes.len()];
        for (at, edge) in edges.iter().enumerate() {
            if let (Some(from), Some(_)) = (edge.from, edge.to) {
                outs[from].push(at);
            }
        }
        let parents = containers::parents(document, &nodes, &index);
        Self { document, nodes, edges, index, parents, outs }
    }

    /// The nodes that may begin a run: root types outside every container.
    pub(super) fn roots(&self) -> Vec<usize> {
        let is_root = |at: &usize| {
            let is_root_type = self.nodes[*at]
                .kind
                .is_some_and(|kind| kind.spec().execution == crate::nodes::ExecutionType::Root);
            is_root_type && matches!(self.parents[*at], containers::Parent::None)
        };
        (0..self.nodes.len()).filter(is_root).collect()
    }

    /// Runs `check` at the path of a node.
    pub(super) fn at_node(&self, at: usize, problems: &mut Problems, check: impl FnOnce(&mut Problems)) {
        problems.within(node_path(self.nodes[at].source), check);
    }

    /// Runs `check` at the path of an edge.
    pub(super) fn at_edge(&self, at: usize, problems: &mut Problems, check: impl FnOnce(&mut Problems)) {
        problems.within(format!("edges[{}]", self.edges[at].source.place), check);
    }
}

fn node_path(node: &DocumentNode) -> String {
    format!("nodes[{}]", node.place)
}

fn read_node<'d>(source: &'d DocumentNode, problems: &mut Problems) -> DraftNode<'d> {
    let kind = NodeKind::from_wire(source.type_name());
    problems.within(node_path(source), |problems| {
        problems.within("data", |problems| DraftNode {
            source,
            kind,
            wrapper: wrapper::read(&source.data, kind, problems),
            data: kind.and_then(|kind| {
                problems.of_node(&source.id, |problems| parse_data(kind, &source.data, problems))
            }),
        })
    })
}
