//! What an Answer or End node streams, and which edges must be decided before it may.
//!
//! Dify enumerates all simple paths from the root and calls a response node reached when one path has no undecided
//! blocking edge left. That is exponential in the number of branches; the same answer comes from one search: the
//! node is reached when the root reaches it over edges that do not block or have been taken.

use super::{EdgeIx, Graph, NodeIx};
use crate::value::Selector;

/// A piece of a response template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// Fixed text.
    Text(String),
    /// The value of a variable.
    Variable(Selector),
}

/// An Answer or End node of the root graph.
#[derive(Debug, Clone)]
pub struct ResponseNode {
    /// Which node.
    pub node: NodeIx,
    /// What it streams, in order.
    pub template: Vec<TemplatePart>,
    /// One entry an edge of the graph: true when the edge must be taken before the text behind it may be shown.
    pub blocking: Vec<bool>,
}

impl ResponseNode {
    /// Whether the root reaches the node over edges that do not block or are in `taken`.
    pub fn is_reached(&self, graph: &Graph, taken: impl Fn(EdgeIx) -> bool) -> bool {
        let mut seen = vec![false; graph.nodes.len()];
        let mut open = vec![graph.root];
        seen[graph.root.at()] = true;
        while let Some(at) = open.pop() {
            if at == self.node {
                return true;
            }
            for &out in &graph.node(at).outs {
                let target = graph.edge(out).target;
                if !seen[target.at()] && (!self.blocking[out.at()] || taken(out)) {
                    seen[target.at()] = true;
                    open.push(target);
                }
            }
        }
        false
    }
}
