//! Frames: executions of a graph's body, with its nodes, edges and variables. The root is the run itself; items of iterations and
//! rounds of loops have frames of their own below it, as long as they are open.

use std::collections::btree_map::{self, BTreeMap};
use std::collections::{BTreeSet, HashMap};
use std::iter::{Chain, Once, once};
use std::sync::Arc;

use super::body::Tally;
use super::node_state::{NodeState, NodeStatus};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{FramePath, NodeId};
use tidemill_base::value::Stored;
use tidemill_workflow::graph::{EdgeIx, Graph, NodeIx};

/// Where an edge stands. Not written: it follows from the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EdgeState {
    /// Its source has not decided.
    #[default]
    Unknown,
    /// Taken.
    Taken,
    /// Skipped.
    Skipped,
}

/// How names are hashed that are looked up several times in each step.
pub type Hashing = foldhash::fast::RandomState;

/// One execution of a graph body.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// One a node of the graph.
    pub nodes: Vec<NodeState>,
    /// One an edge of the graph.
    pub edges: Vec<EdgeState>,
    /// What was written here, by node id (or `sys`, `env`, `conversation`), in order of writing. A loop's round writes
    /// into the frame around the loop, so this is empty for it.
    pub variables: HashMap<NodeId, Vec<(String, Stored)>, Hashing>,
    /// Variables of the frames around that an item must not see, since they were written after it was opened.
    pub hidden: BTreeSet<(NodeId, String)>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Response nodes that have ended in here, in that order: they make the run's outputs.
    pub responded: Vec<Responder>,
    /// The first failure in here that no strategy handled; the frame goes on as far as it can.
    pub error: Option<Arc<str>>,
    /// A `loop-end` of this round was reached.
    pub loop_end: bool,
    /// Conversation variables that an item wrote.
    pub conversation_written: BTreeSet<String>,
    /// How many of its nodes have something to come. Not written: it follows from the nodes.
    pub open: usize,
}

/// A response node that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Responder {
    /// One of the root frame: its values are in the pool.
    Root(NodeIx),
    /// One of another frame, `<frame>/<node>`: its values are in [`RunState::nested`](super::run::RunState::nested).
    Nested(Arc<str>),
}

impl Frame {
    /// A frame in which nothing has happened.
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
            conversation_written: BTreeSet::new(),
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
    /// Reads a variable that was written here.
    pub fn get(&self, node: &str, name: &str) -> Option<&Stored> {
        self.variables.get(node)?.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
    /// What happened in here, closed frames within included.
    pub fn tally(&self) -> Tally {
        self.nodes.iter().fold(Tally::default(), |sum, node| sum.plus(&node.tally()))
    }
}

/// The open frames of a run by path. The root is always there; nearly all that happens is in it, so it is found without a
/// search.
#[derive(Debug, Clone, PartialEq)]
pub struct Frames {
    root: Frame,
    below: BTreeMap<FramePath, Frame>,
}

/// Where the root is.
static ROOT: FramePath = FramePath::root();

impl Frames {
    /// The root alone.
    pub(super) fn new(root: Frame) -> Self {
        Self { root, below: BTreeMap::new() }
    }
    /// The root.
    pub fn root(&self) -> &Frame {
        &self.root
    }
    /// The root.
    pub fn root_mut(&mut self) -> &mut Frame {
        &mut self.root
    }
    /// A frame, if it is open.
    pub fn get(&self, path: &FramePath) -> Option<&Frame> {
        if path.is_root() { Some(&self.root) } else { self.below.get(path) }
    }
    /// A frame, if it is open.
    pub fn get_mut(&mut self, path: &FramePath) -> Option<&mut Frame> {
        if path.is_root() { Some(&mut self.root) } else { self.below.get_mut(path) }
    }
    /// Whether a frame is open.
    pub fn contains_key(&self, path: &FramePath) -> bool {
        self.get(path).is_some()
    }
    /// Puts a frame where it belongs; what was there is gone.
    pub(super) fn insert(&mut self, path: FramePath, frame: Frame) {
        if path.is_root() {
            self.root = frame;
        } else {
            self.below.insert(path, frame);
        }
    }
    /// A frame, opened by `open` unless it is.
    pub fn get_or_insert_with(&mut self, path: FramePath, open: impl FnOnce() -> Frame) -> &mut Frame {
        if path.is_root() { &mut self.root } else { self.below.entry(path).or_insert_with(open) }
    }
    /// Closes a frame below the root; the root stays.
    pub fn remove(&mut self, path: &FramePath) -> Option<Frame> {
        self.below.remove(path)
    }
    /// Closes the frames below the root that `is_kept` does not hold of.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&FramePath) -> bool) {
        self.below.retain(|path, _| is_kept(path));
    }
    /// How many there are, the root among them.
    #[expect(clippy::len_without_is_empty, reason = "the root is always there")]
    pub fn len(&self) -> usize {
        1 + self.below.len()
    }
    /// Each with its path, the root first.
    pub fn iter(&self) -> Iter<'_> {
        once((&ROOT, &self.root)).chain(&self.below)
    }
    /// Their paths, the root's first.
    pub fn keys(&self) -> impl Iterator<Item = &FramePath> {
        self.iter().map(|(path, _)| path)
    }
    /// Each, the root first.
    pub fn values(&self) -> impl Iterator<Item = &Frame> {
        self.iter().map(|(_, frame)| frame)
    }
    /// Each, the root first.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Frame> {
        once(&mut self.root).chain(self.below.values_mut())
    }
    /// Each with its path, the root first.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&FramePath, &mut Frame)> {
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

/// The edges of a frame, computed from its nodes: what a node decided is in its handle.
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

/// The edges that are taken, as a test for [`tidemill_workflow::graph::ResponseNode::is_reached`].
pub(super) fn taken(edges: &[EdgeState]) -> impl Fn(EdgeIx) -> bool + '_ {
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
