//! The state of a run: everything the engine needs to go on, and nothing else.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{ExecutionId, FramePath, NodeId, RunId};
use tidemill_base::limits;
use tidemill_base::value::Stored;
use tidemill_workflow::graph::{Graph, GraphHash, NodeIx};
use tidemill_workflow::nodes::evaluate::UndefinedNames;
use tidemill_workflow::objects::{GivenMessages, ObjectLimits, Objects};

use super::body::{OpenContainer, Spent, Sums};
use super::breakpoint::Breakpoint;
use super::budget::Budget;
use super::choices::Choices;
use super::compat::{ConversationWrites, NestedAnswers};
use super::control::Control;
use super::fact::NamedValues;
use super::node_state::started_attempts;
use super::pause::Pause;
use super::recent::Recent;
use super::response::ResponseState;

pub use super::frame::{EdgeState, Frame, Frames, Hashing, Responder, derive_edges};
pub use super::node_state::{Ended, NodeState, NodeStatus, OpenCall};
pub use super::pool::Pool;
pub use tidemill_base::value::json_size;

/// Where a run stands, under Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunStatus {
    /// Submitted, not begun.
    Scheduled,
    /// Under way.
    Running,
    /// Waits for somebody.
    Paused,
    /// Ended well.
    Succeeded,
    /// Ended well, with handled failures.
    PartialSucceeded,
    /// Ended by a failure.
    Failed,
    /// Ended by a stop or a limit.
    Stopped,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Scheduled,
        Self::Running,
        Self::Paused,
        Self::Succeeded,
        Self::PartialSucceeded,
        Self::Failed,
        Self::Stopped,
    ];
    /// Dify's word.
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
    /// True when the run will never go on.
    pub const fn is_over(self) -> bool {
        match self {
            Self::Scheduled | Self::Running | Self::Paused => false,
            Self::Succeeded | Self::PartialSucceeded | Self::Failed | Self::Stopped => true,
        }
    }
    /// The status of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// What a caller may choose for one run. Fixed at submit, so that a run does not change with the settings of whoever
/// owns it later.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOptions {
    /// Most node starts (`max_steps`).
    pub steps_max: u64,
    /// Longest time, in seconds (`max_execution_time_s`).
    pub seconds_max: u64,
    /// Longest time from when it was submitted to its end, whatever it waits for, in milliseconds (`deadline_ms`).
    pub deadline_ms: Option<u64>,
    /// Unknown names in Jinja templates (`template_undefined`).
    pub template_undefined: UndefinedNames,
    /// Longest output of a template, in characters (`template_chars_max`).
    pub template_chars_max: usize,
    /// Values longer than this are stored apart (`inline_bytes_max`).
    pub inline_bytes_max: usize,
    /// Writes of iterations to conversation variables.
    pub iteration_conversation_writes: ConversationWrites,
    /// Streams of answers inside containers.
    pub nested_answer_stream: NestedAnswers,
    /// Whether failures inside an iteration count among the run's exceptions, as in graphon.
    pub iteration_failures_count: bool,
    /// Whether a loop tells a next round behind its last one.
    pub loop_next_after_last: bool,
    /// Most items of an iteration and rounds of a loop (`container_rounds_max`).
    pub container_rounds_max: u64,
    /// Longest time that forms of this run may wait, in seconds; 0 for no bound (`human_input_timeout_s`).
    pub human_input_timeout_s: u64,
    /// What it may spend on models (`budget_tokens`, `budget_price`).
    pub budget: Option<Box<Budget>>,
    /// What only few runs choose; none for what chooses nothing of it.
    pub choices: Option<Box<Choices>>,
    /// Bounds of what it keeps beside its variables; none for the defaults.
    pub objects: Option<Box<ObjectLimits>>,
    /// Lists of messages that it begins with, by their names; nothing once it has begun.
    pub messages: Option<Box<GivenMessages>>,
}

impl RunOptions {
    /// What is chosen, or the defaults.
    pub fn choices(&self) -> Cow<'_, Choices> {
        self.choices.as_deref().map_or_else(|| Cow::Owned(Choices::default()), Cow::Borrowed)
    }
    /// Bounds of what the run keeps beside its variables.
    pub fn object_limits(&self) -> ObjectLimits {
        self.objects.as_deref().copied().unwrap_or_default()
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            steps_max: limits::STEPS_MAX,
            seconds_max: limits::RUN_SECONDS_MAX,
            deadline_ms: None,
            template_undefined: UndefinedNames::Empty,
            template_chars_max: limits::TEMPLATE_CHARS_MAX,
            inline_bytes_max: limits::INLINE_BYTES_MAX,
            iteration_conversation_writes: ConversationWrites::default(),
            nested_answer_stream: NestedAnswers::default(),
            iteration_failures_count: true,
            loop_next_after_last: false,
            container_rounds_max: limits::CONTAINER_ROUNDS_MAX,
            human_input_timeout_s: limits::HUMAN_INPUT_SECONDS_MAX,
            budget: None,
            choices: None,
            objects: None,
            messages: None,
        }
    }
}

/// What is known of a run before it begins, and never changes.
#[derive(Debug, Clone, PartialEq)]
pub struct RunHead {
    /// The version it runs.
    pub graph: GraphHash,
    /// The app it belongs to, if any.
    pub app: Option<String>,
    /// Who started it: the `user` of Dify's API.
    pub user: String,
    /// The node it begins at, where it is not the first that could: the trigger that fired.
    pub root: Option<NodeId>,
    /// Inputs of the node it begins at.
    pub inputs: NamedValues,
    /// System variables.
    pub sys: NamedValues,
    /// Conversation variables that replace the document's first values.
    pub conversation: NamedValues,
    /// The turns of the conversation before it, as [`tidemill_workflow::nodes::llm::history`] reads them; none when there are none.
    pub history: Option<Stored>,
    /// Whether what is said in it becomes a turn of that conversation.
    pub leaves_turn: bool,
    /// The conversation it belongs to, if any: its conversation variables are stored there.
    pub conversation_id: Option<String>,
    /// Whether that has a message list, which the run goes on with: a copy of it was made when the run was created.
    pub takes_messages: bool,
    /// The node of another run that has called it, if one has.
    pub caller: Option<Box<Caller>>,
    /// How many workflows deep it is called by others.
    pub call_depth: u64,
    /// The API key that pays for it, by its id; a called run has its caller's.
    pub key: Option<String>,
    /// Commands that wait for a node.
    pub commands: Vec<Breakpoint>,
    /// Its options.
    pub options: RunOptions,
    /// When it was submitted.
    pub created_at: Timestamp,
}

/// Who has called a run and waits for its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The run, on the same shard.
    pub run: RunId,
    /// The frame of the node.
    pub frame: FramePath,
    /// The node.
    pub node: NodeId,
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    /// Its id.
    pub id: RunId,
    /// What it runs.
    pub graph: SharedGraph,
    /// What was submitted.
    pub head: RunHead,
    /// Where it stands.
    pub status: RunStatus,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it failed or was stopped.
    pub error: Option<Arc<str>>,
    /// The number of its last event.
    pub seq: u64,
    /// Open frames by path; the root is always there.
    pub frames: Frames,
    /// Nodes that may run but have no job yet: within a step in the order in which they became ready, between steps in
    /// the order of the graph.
    pub ready: VecDeque<(FramePath, NodeIx)>,
    /// Who may stream, and what is held back.
    pub response: ResponseState,
    /// What response nodes below the root frame made, by `<frame>/<node>`, while it counts for the run's outputs or may
    /// come to.
    pub nested: BTreeMap<Arc<str>, NamedValues>,
    /// Containers whose bodies run: what they were given, and what closed frames left.
    pub containers: BTreeMap<(FramePath, NodeIx), OpenContainer>,
    /// Who waits for what.
    pub pauses: BTreeMap<Arc<str>, Pause>,
    /// Commands in effect.
    pub control: Control,
    /// What it keeps beside its variables: lists of messages, `rt`, a history. None for nearly all runs.
    pub objects: Option<Box<Objects>>,
    /// Counters over all frames. Not written: they follow from the nodes.
    pub sums: Sums,
    /// Ids of executions that were asked for last. Not written: they follow from the nodes.
    pub recent: Recent,
}

/// A graph shared by the runs of a process; two are equal when they are the same version.
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

/// There is room for what so many nodes write from the beginning.
const WRITERS_AT_FIRST: usize = 56;

impl RunState {
    /// A run that was submitted and has not begun.
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
            response: ResponseState::new(&graph),
            nested: BTreeMap::new(),
            containers: BTreeMap::new(),
            pauses: BTreeMap::new(),
            control: Control::default(),
            objects: None,
            sums: Sums::default(),
            recent: Recent::default(),
            graph: SharedGraph(graph),
            head,
        }
    }

    /// The state of a node, if its frame is open.
    pub fn node(&self, frame: &FramePath, node: NodeIx) -> Option<&NodeState> {
        self.frames.get(frame).and_then(|f| f.nodes.get(node.at()))
    }

    /// The node that the run begins at.
    pub fn root(&self) -> NodeIx {
        self.head.root.as_ref().and_then(|id| self.find(id)).unwrap_or(self.graph.root)
    }

    /// The id of a node's execution.
    pub fn execution(&self, frame: &FramePath, node: NodeIx) -> ExecutionId {
        ExecutionId::derive(&self.id, frame, &self.graph.node(node).id)
    }

    /// The place of a node by its id.
    pub fn find(&self, id: &NodeId) -> Option<NodeIx> {
        self.graph.find(id.as_str())
    }

    /// The variables as a node in `frame` sees them.
    pub fn pool<'a>(&'a self, frame: &'a FramePath) -> Pool<'a> {
        Pool::new(self, frame)
    }

    /// Node starts so far, retries included and those within containers (the count that the step limit looks at).
    pub fn steps(&self) -> u64 {
        self.sums.steps
    }

    /// Node starts of the root frame (Dify: `total_steps`).
    pub fn root_steps(&self) -> u64 {
        self.frames.root().nodes.iter().map(started_attempts).sum()
    }

    /// Failed attempts so far, handled or not.
    pub fn exceptions(&self) -> u64 {
        self.sums.failures
    }

    /// Tokens of all model calls so far.
    pub fn tokens(&self) -> u64 {
        self.sums.tokens
    }

    /// What its model calls have cost so far, those in open frames of containers included.
    pub fn spent(&self) -> Spent {
        self.frames.values().fold(Spent::default(), |sum, frame| sum.plus(&frame.tally().spent))
    }

    /// What was paid for replies that were of no use; no part of [`Self::tokens`] and [`Self::spent`].
    pub fn wasted(&self) -> Spent {
        self.control.wasted.as_deref().cloned().unwrap_or_default()
    }

    /// All that was paid for.
    pub fn paid(&self) -> Spent {
        self.spent().plus(&self.wasted())
    }

    /// Jobs that are queued or with a worker.
    pub fn jobs_in_flight(&self) -> u64 {
        self.sums.jobs
    }

    /// True while any node has something to come.
    pub fn is_busy(&self) -> bool {
        self.frames.root().open > 0
    }

    /// True when the failures in this frame count for the run: those within an iteration may not
    /// (`iteration_failures_count`).
    pub fn failures_count(&self, frame: &FramePath) -> bool {
        let options = &self.head.options;
        options.iteration_failures_count
            || frame.is_root()
            || !frame.outwards().any(|path| self.is_item(&path))
    }

    /// True for a frame that is an item of an iteration: it has variables of its own.
    pub fn is_item(&self, frame: &FramePath) -> bool {
        let container = frame.last().and_then(|(id, _)| self.graph.find(&id));
        container.is_some_and(|ix| self.graph.node(ix).kind == tidemill_workflow::nodes::NodeKind::Iteration)
    }

    /// The frame that holds the variables of a frame: rounds of a loop share those of the frame around the loop.
    pub fn pool_frame(&self, frame: &FramePath) -> FramePath {
        frame.outwards().find(|path| self.is_item(path)).unwrap_or_else(FramePath::root)
    }

    /// Computes what is not written: the counters, edges and the number of open nodes of every frame.
    pub fn derive(&mut self) {
        let graph = self.graph.clone();
        for frame in self.frames.values_mut() {
            frame.edges = derive_edges(&graph, &frame.nodes);
            frame.open = frame.nodes.iter().filter(|node| node.status.is_open()).count();
        }
        self.sums = Sums::of(self);
    }

    /// Looks once at all that the step will look at which hears how a job of this node has ended: a processor that has many
    /// runs to look at fetches what lies far away of several at once. The sum means nothing, and is of small numbers: whatever a run holds, it is one.
    pub fn glance(&self, frame: &FramePath, node: NodeIx) -> usize {
        let Self { response, control, head, recent, sums, .. } = self;
        let mut sum = self.status as usize
            + self.error.iter().len()
            + self.ready.len()
            + self.pauses.len()
            + self.containers.len()
            + self.nested.len()
            + self.objects.iter().len()
            + control.pausing.len()
            + control.wasted.iter().len()
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
                + usize::from(state.spent.tokens > 0)
                + state.started_at.iter().len()
                + state.error.iter().len()
        };
        sum += state(node) + open.hidden.len() + usize::from(open.variables.contains_key(&spec.id));
        for edge in &spec.outs {
            sum += open.edges[edge.at()] as usize + state(self.graph.edge(*edge).target);
        }
        sum
    }

    /// About how many bytes the state takes in memory; for the cache's bound.
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
        let collected: usize = self.containers.values().map(|container| 256 + container.bytes).sum();
        let kept = self.objects.as_ref().map_or(0, |objects| objects.size_estimate());
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
