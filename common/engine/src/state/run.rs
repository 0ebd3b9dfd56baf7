//! The state of a run: everything that the engine needs to continue it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{ExecutionId, FramePath, NodeId, RunId};
use tidemill_base::value::Stored;
use tidemill_workflow::graph::{Graph, GraphHash, NodeIx};
use tidemill_workflow::messages::MessageState;

use crate::state::NamedValues;
use crate::state::clock::Clock;
use crate::state::container::OpenContainer;
use crate::state::control::Control;
use crate::state::cost::Cost;
use crate::state::node::started_attempts;
use crate::state::options::RunOptions;
use crate::state::options::breakpoint::Breakpoint;
use crate::state::pause::Pause;
use crate::state::recent::Recent;
use crate::state::response::ResponseState;
use crate::state::totals::Sums;

pub use crate::state::frame::{EdgeState, Frame, Frames, Hashing, Responder, derive_edges};
pub use crate::state::node::{NodeState, NodeStatus, OpenCall, PendingEnd};
pub use crate::state::pool::Pool;
pub use tidemill_base::value::json_size;

/// The status of a run, with Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunStatus {
    /// Submitted, but not begun.
    Scheduled,
    /// Begun and not ended.
    Running,
    /// Waits for an answer or for a resume command; no job is out.
    Paused,
    Succeeded,
    /// Ended with failures that were handled.
    PartialSucceeded,
    /// Ended by a failure that nothing handled.
    Failed,
    /// Ended by a stop command or a limit.
    Stopped,
}

impl RunStatus {
    /// All statuses.
    pub const ALL: [Self; 7] = [
        Self::Scheduled,
        Self::Running,
        Self::Paused,
        Self::Succeeded,
        Self::PartialSucceeded,
        Self::Failed,
        Self::Stopped,
    ];
    /// Dify's name of the status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Succeeded => "succeeded",
            Self::PartialSucceeded => "partial-succeeded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
    /// True when the run has ended and will never continue.
    pub const fn is_over(self) -> bool {
        match self {
            Self::Scheduled | Self::Running | Self::Paused => false,
            Self::Succeeded | Self::PartialSucceeded | Self::Failed | Self::Stopped => true,
        }
    }
    /// Returns the status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// The part of a run that is known before it begins and never changes.
#[derive(Debug, Clone, PartialEq)]
pub struct RunHead {
    /// The version of the workflow.
    pub graph: GraphHash,
    /// The app that the run belongs to, if any.
    pub app: Option<String>,
    /// The end user: `user` in Dify's API.
    pub user: String,
    /// The node that the run begins at, if it is not the graph's default: the trigger that fired.
    pub root: Option<NodeId>,
    /// Inputs of the node that the run begins at.
    pub inputs: NamedValues,
    /// System variables.
    pub sys: NamedValues,
    /// Conversation variables that replace the initial values of the document.
    pub conversation: NamedValues,
    /// The earlier turns of the conversation, in the form that [`tidemill_workflow::nodes::llm::history`] reads; `None`
    /// when there are none.
    pub history: Option<Stored>,
    /// Whether the run becomes a turn of its conversation.
    pub leaves_turn: bool,
    /// The conversation that the run belongs to, if any. Conversation variables are stored there.
    pub conversation_id: Option<String>,
    /// Whether the conversation has a list of messages. The run then continues a copy of it, made when the run was
    /// created.
    pub takes_messages: bool,
    /// The node of another run that called this run, if it is a sub-workflow run.
    pub caller: Option<Box<Caller>>,
    /// The number of callers above this run: 0 for a run that no other run called.
    pub call_depth: u64,
    /// The id of the API key that pays. A sub-workflow run has its caller's.
    pub key: Option<String>,
    /// The events about which the webhook of its app is to be notified, separated by blanks; `None` for none.
    pub webhook: Option<String>,
    /// Breakpoints: commands that take effect when a node ends.
    pub commands: Vec<Breakpoint>,
    pub options: RunOptions,
    pub created_at: Timestamp,
}

/// The node that called a sub-workflow run and waits for its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The calling run, on the same shard.
    pub run: RunId,
    /// The frame of the calling node.
    pub frame: FramePath,
    pub node: NodeId,
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    pub id: RunId,
    pub graph: SharedGraph,
    pub head: RunHead,
    pub status: RunStatus,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// The reason of a failure or a stop.
    pub error: Option<Arc<str>>,
    /// The number of the last event.
    pub seq: u64,
    /// Open frames by path. The root frame is always open.
    pub frames: Frames,
    /// Nodes in status `ready`: within a step in the order in which they became ready, between steps in the order of
    /// the graph.
    pub ready: VecDeque<(FramePath, NodeIx)>,
    /// The state of the streamed answers, with the text that is held back.
    pub response: ResponseState,
    /// Outputs of response nodes below the root frame, by `<frame>/<node>`, while they are, or may become, part of the
    /// run's outputs.
    pub nested: BTreeMap<Arc<str>, NamedValues>,
    /// Open containers: their inputs, and what their closed frames left.
    pub containers: BTreeMap<(FramePath, NodeIx), OpenContainer>,
    /// Pending pauses by id.
    pub pauses: BTreeMap<Arc<str>, Pause>,
    /// Commands in effect.
    pub control: Control,
    /// Messages, `rt` and history. `None` for nearly all runs.
    pub messages: Option<Box<MessageState>>,
    /// Counters over all frames. Not stored, because they follow from the nodes.
    pub sums: Sums,
    /// The time that the run has worked.
    pub clock: Clock,
    /// A cache of execution ids. Not stored, because ids follow from the nodes.
    pub recent: Recent,
}

/// A graph that the runs of a process share. Two are equal when they are the same version.
#[derive(Debug, Clone)]
pub struct SharedGraph(pub Arc<Graph>);
impl PartialEq for SharedGraph {
    fn eq(&self, other: &Self) -> bool {
        self.0.hash == other.0.hash
    }
}
impl std::ops::Deref for SharedGraph {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        &self.0
    }
}

/// The most nodes for which a new run reserves room in its variables.
const WRITERS_AT_FIRST: usize = 56;

impl RunState {
    /// Creates a run that was submitted and has not begun.
    pub fn new(id: RunId, graph: Arc<Graph>, head: RunHead) -> Self {
        let mut root = Frame::new(&graph);
        root.variables.reserve(graph.nodes.len().min(WRITERS_AT_FIRST));
        Self {
            id,
            status: RunStatus::Scheduled,
            started_at: None,
            finished_at: None,
            error: None,
            seq: 0,
            frames: Frames::new(root),
            ready: VecDeque::new(),
            response: ResponseState::default(),
            nested: BTreeMap::new(),
            containers: BTreeMap::new(),
            pauses: BTreeMap::new(),
            control: Control::default(),
            messages: None,
            sums: Sums::default(),
            clock: Clock::default(),
            recent: Recent::default(),
            graph: SharedGraph(graph),
            head,
        }
    }

    /// Returns the state of a node, if its frame is open.
    pub fn node(&self, frame: &FramePath, node: NodeIx) -> Option<&NodeState> {
        self.frames.get(frame).and_then(|f| f.nodes.get(node.at()))
    }

    /// Returns the node that the run begins at.
    pub fn root(&self) -> NodeIx {
        self.head.root.as_ref().and_then(|id| self.find(id)).unwrap_or(self.graph.root)
    }

    /// Computes the id of a node's execution.
    pub fn execution(&self, frame: &FramePath, node: NodeIx) -> ExecutionId {
        ExecutionId::derive(&self.id, frame, &self.graph.node(node).id)
    }

    /// Finds the index of a node by its id.
    pub fn find(&self, id: &NodeId) -> Option<NodeIx> {
        self.graph.find(id.as_str())
    }

    /// Returns the variables that a node in `frame` sees.
    pub fn pool<'a>(&'a self, frame: &'a FramePath) -> Pool<'a> {
        Pool::new(self, frame)
    }

    /// The number of node starts so far, with retries and starts inside containers. The limit on steps applies to it.
    pub fn steps(&self) -> u64 {
        self.sums.steps
    }

    /// The number of node starts in the root frame (Dify: `total_steps`).
    pub fn root_steps(&self) -> u64 {
        self.frames.root().nodes.iter().map(started_attempts).sum()
    }

    /// The number of failed attempts so far, handled or not.
    pub fn exceptions(&self) -> u64 {
        self.sums.failures
    }

    /// The tokens of all model calls so far, without wasted ones.
    pub fn tokens(&self) -> u64 {
        self.sums.tokens
    }

    /// The cost of all model calls so far, those in open frames included, without wasted ones.
    pub fn cost(&self) -> Cost {
        self.frames.values().fold(Cost::default(), |sum, frame| sum.plus(&frame.tally().cost))
    }

    /// The cost of wasted replies, which is not part of [`Self::tokens`] and [`Self::cost`].
    pub fn wasted(&self) -> Cost {
        self.control.wasted.as_deref().cloned().unwrap_or_default()
    }

    /// The whole cost, wasted replies included.
    pub fn paid(&self) -> Cost {
        self.cost().plus(&self.wasted())
    }

    /// The number of jobs that are queued or with a worker.
    pub fn jobs_in_flight(&self) -> u64 {
        self.sums.jobs
    }

    /// True while any node is open.
    pub fn is_busy(&self) -> bool {
        self.frames.root().open > 0
    }

    /// True when failures in this frame count for the run. Those inside an iteration count only with
    /// `iteration_failures_count`.
    pub fn failures_count(&self, frame: &FramePath) -> bool {
        let options = &self.head.options;
        options.iteration_failures_count
            || frame.is_root()
            || !frame.outwards().any(|path| self.is_item(&path))
    }

    /// True for a frame that is an item of an iteration. An item has its own variables.
    pub fn is_item(&self, frame: &FramePath) -> bool {
        let container = frame.last().and_then(|(id, _)| self.graph.find(&id));
        container.is_some_and(|ix| self.graph.node(ix).kind == tidemill_workflow::nodes::NodeKind::Iteration)
    }

    /// Returns the frame that stores the variables of a frame. Rounds of a loop share those of the frame around the
    /// loop.
    pub fn pool_frame(&self, frame: &FramePath) -> FramePath {
        frame.outwards().find(|path| self.is_item(path)).unwrap_or_else(FramePath::root)
    }

    /// Computes the parts that are not stored: the counters, and each frame's edges and number of open nodes.
    pub fn derive(&mut self) {
        let graph = self.graph.clone();
        for frame in self.frames.values_mut() {
            frame.edges = derive_edges(&graph, &frame.nodes);
            frame.open = frame.nodes.iter().filter(|node| node.status.is_open()).count();
        }
        self.sums = Sums::of(self);
    }

    /// Reads once everything that the step for a result of this node will read. A caller with many runs does this for
    /// all of them first, so that the processor fetches the memory of several runs at once. The returned sum has no
    /// meaning; it only makes the reads necessary. Its terms are small, so it cannot overflow.
    pub fn glance(&self, frame: &FramePath, node: NodeIx) -> usize {
        let Self { response, control, head, recent, sums, .. } = self;
        let mut sum = self.status as usize
            + self.error.iter().len()
            + self.ready.len()
            + self.pauses.len()
            + self.containers.len()
            + self.nested.len()
            + self.messages.iter().len()
            + control.pausing.len()
            + control.wasted.iter().len()
            + control.warnings.len()
            + head.commands.len()
            + head.inputs.len()
            + head.key.iter().len()
            + usize::from(head.options.iteration_failures_count)
            + head.options.budget.iter().len()
            + head.options.choices.iter().len()
            + response.streams.len()
            + response.reached.first().copied().unwrap_or_default()
            + usize::from(sums.steps > 0)
            + usize::from(sums.waiting > 0)
            + usize::from(self.seq > 0)
            + usize::from(recent.find(frame, node).is_some());
        let Some(open) = self.frames.get(frame) else { return sum };
        let spec = self.graph.node(node);
        let state = |at: NodeIx| {
            let Some(state) = open.nodes.get(at.at()) else { return 0 };
            state.status as usize
                + state.attempt as usize
                + state.body.iter().len()
                + usize::from(state.inside.steps > 0)
                + usize::from(state.cost.tokens > 0)
                + state.started_at.iter().len()
                + state.error.iter().len()
        };
        sum += state(node) + open.hidden.len() + usize::from(open.variables.contains_key(&spec.id));
        for edge in &spec.outs {
            sum += open.edges[edge.at()] as usize + state(self.graph.edge(*edge).target);
        }
        sum
    }

    /// Estimates the bytes that the state takes in memory, for the limit of the cache.
    pub fn size_estimate(&self) -> usize {
        let fixed = 512 + self.frames.len() * (self.graph.nodes.len() * 120 + self.graph.edges.len());
        let values = |stored: &Stored| match stored {
            Stored::Inline(segment) => 64 + json_size(&segment.value),
            Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_) => 64,
        };
        let written: usize = self
            .frames
            .values()
            .flat_map(|f| f.variables.values().flatten())
            .map(|(name, value)| name.len() + values(value))
            .sum();
        let given: usize = [&self.head.inputs, &self.head.sys, &self.head.conversation]
            .into_iter()
            .flatten()
            .map(|(name, value)| name.len() + values(value))
            .sum();
        let history = self.head.history.as_ref().map_or(0, values);
        let collected: usize = self.containers.values().map(|container| 256 + container.size()).sum();
        let kept = self.messages.as_ref().map_or(0, |messages| messages.size_estimate());
        fixed
            + written
            + given
            + history
            + collected
            + kept
            + self.pauses.len() * 1024
            + self.response.held_bytes()
    }
}
