//! Frames: executions of a body, with states of nodes and edges, and variables. The root frame belongs to the run
//! itself; each open item of an iteration and each open round of a loop has a frame below it.

use std::collections::btree_map::{self, BTreeMap};
use std::collections::{BTreeSet, HashMap};
use std::iter::{Chain, Once, once};
use std::sync::Arc;

use crate::state::change::Written;
use crate::state::node::{NodeState, NodeStatus};
use crate::state::totals::Tally;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{FramePath, NodeId};
use tidemill_base::value::Stored;
use tidemill_workflow::graph::{EdgeIx, Graph, NodeIx};

/// The state of an edge. Not stored, because it follows from the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EdgeState {
    /// Its source has not ended.
    #[default]
    Unknown,
    Taken,
    Skipped,
}

/// A fast hash for names that each step looks up several times.
pub type Hashing = foldhash::fast::RandomState;

/// One execution of a body.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// One state per node of the graph.
    pub nodes: Vec<NodeState>,
    /// One state per edge of the graph.
    pub edges: Vec<EdgeState>,
    /// Variables that were written in this frame, by node id (or `sys`, `env`, `conversation`), in order of writing.
    /// Empty for a round of a loop, which writes into the frame around the loop.
    pub variables: HashMap<NodeId, Vec<(String, Stored)>, Hashing>,
    /// Variables of outer frames that an item must not see, because they were written after the item opened.
    pub hidden: BTreeSet<(NodeId, String)>,
    pub opened_at: Timestamp,
    /// Response nodes that have ended in this frame, in order of their ends. They make the outputs of the run.
    pub responded: Vec<Responder>,
    /// The first failure in this frame that no error strategy handled. The frame continues as far as it can.
    pub error: Option<Arc<str>>,
    /// True when a `loop-end` node has ended this round's loop.
    pub loop_end: bool,
    /// Conversation variables that an item wrote.
    pub conversation_written: BTreeMap<String, Written>,
    /// The number of open nodes. Not stored, because it follows from the nodes.
    pub open: usize,
}

/// A response node that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Responder {
    /// A node of the root frame. Its outputs are variables.
    Root(NodeIx),
    /// A node of another frame, as `<frame>/<node>`. Its outputs are in
    /// [`RunState::nested`](crate::state::run::RunState::nested).
    Nested(Arc<str>),
}

impl Frame {
    /// Creates a frame in which nothing has happened.
    pub fn new(graph: &Graph) -> Self {
        Self {
            nodes: graph.nodes.iter().map(|_| NodeState::default()).collect(),
            edges: vec![EdgeState::Unknown; graph.edges.len()],
            variables: HashMap::default(),
            hidden: BTreeSet::new(),
            opened_at: Timestamp::default(),
            responded: Vec::new(),
            error: None,
            loop_end: false,
            conversation_written: BTreeMap::new(),
            open: 0,
        }
    }
    /// Writes a variable.
    pub fn set(&mut self, node: &NodeId, name: &str, value: Stored) {
        let Some(of_node) = self.variables.get_mut(node) else {
            self.variables.insert(node.clone(), vec![(name.to_string(), value)]);
            return;
        };
        match of_node.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => of_node.push((name.to_string(), value)),
        }
    }
    /// Removes a variable.
    pub fn unset(&mut self, node: &str, name: &str) {
        if let Some(of_node) = self.variables.get_mut(node) {
            of_node.retain(|(known, _)| known != name);
            if of_node.is_empty() {
                self.variables.remove(node);
            }
        }
    }
    /// Reads a variable that was written in this frame.
    pub fn get(&self, node: &str, name: &str) -> Option<&Stored> {
        self.variables.get(node)?.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
    /// The counters of this frame, closed frames within included.
    pub fn tally(&self) -> Tally {
        self.nodes.iter().fold(Tally::default(), |sum, node| sum.plus(&node.tally()))
    }
}

/// The open frames of a run by path. The root frame always exists, and most access is to it, so it is found without a
/// search.
#[derive(Debug, Clone, PartialEq)]
pub struct Frames {
    root: Frame,
    below: BTreeMap<FramePath, Frame>,
}

/// The path of the root frame.
static ROOT: FramePath = FramePath::root();

impl Frames {
    /// Creates the set with the root frame only.
    pub(crate) fn new(root: Frame) -> Self {
        Self { root, below: BTreeMap::new() }
    }
    /// The root frame.
    pub fn root(&self) -> &Frame {
        &self.root
    }
    /// The root frame.
    pub fn root_mut(&mut self) -> &mut Frame {
        &mut self.root
    }
    /// Returns a frame, if it is open.
    pub fn get(&self, path: &FramePath) -> Option<&Frame> {
        if path.is_root() { Some(&self.root) } else { self.below.get(path) }
    }
    /// Returns a frame, if it is open.
    pub fn get_mut(&mut self, path: &FramePath) -> Option<&mut Frame> {
        if path.is_root() { Some(&mut self.root) } else { self.below.get_mut(path) }
    }
    /// True when the frame is open.
    pub fn contains_key(&self, path: &FramePath) -> bool {
        self.get(path).is_some()
    }
    /// Inserts a frame, and replaces the one at the same path.
    pub(crate) fn insert(&mut self, path: FramePath, frame: Frame) {
        if path.is_root() {
            self.root = frame;
        } else {
            self.below.insert(path, frame);
        }
    }
    /// Returns a frame, and inserts the result of `open` first if there is none.
    pub fn get_or_insert_with(&mut self, path: FramePath, open: impl FnOnce() -> Frame) -> &mut Frame {
        if path.is_root() { &mut self.root } else { self.below.entry(path).or_insert_with(open) }
    }
    /// Removes a frame below the root. The root frame is never removed.
    pub fn remove(&mut self, path: &FramePath) -> Option<Frame> {
        self.below.remove(path)
    }
    /// Removes the frames below the root for which `is_kept` is false.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&FramePath) -> bool) {
        self.below.retain(|path, _| is_kept(path));
    }
    /// The number of frames, the root included.
    #[expect(clippy::len_without_is_empty, reason = "the root is always there")]
    pub fn len(&self) -> usize {
        1 + self.below.len()
    }
    /// Iterates over paths and frames, the root first.
    pub fn iter(&self) -> Iter<'_> {
        once((&ROOT, &self.root)).chain(&self.below)
    }
    /// Iterates over the paths, the root first.
    pub fn keys(&self) -> impl Iterator<Item = &FramePath> {
        self.iter().map(|(path, _)| path)
    }
    /// Iterates over the frames, the root first.
    pub fn values(&self) -> impl Iterator<Item = &Frame> {
        self.iter().map(|(_, frame)| frame)
    }
    /// Iterates over the frames, the root first.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Frame> {
        once(&mut self.root).chain(self.below.values_mut())
    }
    /// Iterates over paths and frames, the root first.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&FramePath, &mut Frame)> {
        once((&ROOT, &mut self.root)).chain(&mut self.below)
    }
}

type Iter<'a> = Chain<Once<(&'a FramePath, &'a Frame)>, btree_map::Iter<'a, FramePath, Frame>>;

impl<'a> IntoIterator for &'a Frames {
    type Item = (&'a FramePath, &'a Frame);
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Computes the edges of a frame from its nodes: the handle of a node shows which edges it took.
pub fn derive_edges(graph: &Graph, nodes: &[NodeState]) -> Vec<EdgeState> {
    let mut edges = vec![EdgeState::Unknown; graph.edges.len()];
    for (state, node) in nodes.iter().zip(&graph.nodes) {
        let decided = match state.status {
            NodeStatus::Succeeded | NodeStatus::Exception => true,
            NodeStatus::Skipped => {
                node.outs.iter().for_each(|e| edges[e.at()] = EdgeState::Skipped);
                false
            }
            NodeStatus::Unknown
            | NodeStatus::Ready
            | NodeStatus::Queued
            | NodeStatus::Running
            | NodeStatus::Retrying
            | NodeStatus::Body
            | NodeStatus::Waiting
            | NodeStatus::Failed
            | NodeStatus::Stopped => false,
        };
        if decided {
            let handle = state.handle.as_deref().unwrap_or(tidemill_workflow::nodes::SOURCE_HANDLE);
            for &out in &node.outs {
                let taken = !node.is_branch() || &*graph.edge(out).handle == handle;
                edges[out.at()] = if taken { EdgeState::Taken } else { EdgeState::Skipped };
            }
        }
    }
    edges
}

/// Returns a test for taken edges, as [`tidemill_workflow::graph::ResponseNode::is_reached`] needs it.
pub(crate) fn taken(edges: &[EdgeState]) -> impl Fn(EdgeIx) -> bool + '_ {
    |edge| edges[edge.at()] == EdgeState::Taken
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = "\
app: {mode: workflow}
workflow:
  graph:
    nodes:
    - {id: s, data: {type: start, variables: []}}
    - {id: e, data: {type: end, outputs: []}}
    edges: [{source: s, target: e}]
";

    #[test]
    fn the_root_is_always_there_and_comes_first() {
        let graph = tidemill_workflow::graph::import(GRAPH.as_bytes()).graph.unwrap();
        let opened = |open| Frame { open, ..Frame::new(&graph) };
        let (root, item, round) = (FramePath::root(), FramePath::from("it#0"), FramePath::from("a#1"));
        let mut frames = Frames::new(opened(1));
        frames.insert(item.clone(), opened(2));
        frames.get_or_insert_with(round.clone(), || opened(3)).loop_end = true;
        frames.get_or_insert_with(root.clone(), || opened(9)).loop_end = true;
        let seen = |frames: &Frames| -> Vec<(String, usize)> {
            frames.iter().map(|(path, frame)| (path.to_string(), frame.open)).collect()
        };
        let of = |open: &[(&str, usize)]| -> Vec<(String, usize)> {
            open.iter().map(|(path, open)| (path.to_string(), *open)).collect()
        };
        assert_eq!(seen(&frames), of(&[("", 1), ("a#1", 3), ("it#0", 2)]));
        assert_eq!(frames.values_mut().map(|frame| frame.open).collect::<Vec<_>>(), [1, 3, 2]);
        assert_eq!(frames.keys().collect::<Vec<_>>(), [&root, &round, &item]);
        assert!(frames.root().loop_end && frames.contains_key(&item) && frames.len() == 3);
        assert!(frames.remove(&root).is_none() && frames.remove(&item).is_some());
        frames.retain(|_| false);
        assert_eq!(seen(&frames), of(&[("", 1)]));
        assert!(!frames.contains_key(&round) && frames.get_mut(&item).is_none());
        frames.insert(root, opened(4));
        assert_eq!(seen(&frames), of(&[("", 4)]));
    }
}
