//! The state of a run: everything the engine needs to go on, and nothing else.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::graph::{EdgeIx, Graph, GraphHash, NodeIx};
use crate::ids::{EntryId, ExecutionId, FramePath, NodeId, RunId};
use crate::limits;
use crate::nodes::Phase;
use crate::nodes::evaluate::UndefinedNames;
use crate::objects::{GivenMessages, ObjectLimits, Objects};
use crate::value::Stored;

use super::body::{BodyState, OpenContainer, Spent, Sums, Tally};
use super::breakpoint::Breakpoint;
use super::budget::Budget;
use super::changes::Record;
use super::choices::Choices;
use super::compat::{ConversationWrites, NestedAnswers};
use super::control::Control;
use super::fact::NamedValues;
use super::pause::Pause;
use super::response::ResponseState;

pub use super::pool::Pool;
pub use crate::value::json_size;

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

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NodeStatus {
    /// Not every edge to it is decided.
    #[default]
    Unknown,
    /// May run; the step or the run's bound on jobs has not reached it.
    Ready,
    /// Its job waits for a worker.
    Queued,
    /// A worker has told that it is at it.
    Running,
    /// Failed, and waits for its next attempt; or its job is parked.
    Retrying,
    /// A container whose frames are open.
    Body,
    /// Waits for somebody's answer.
    Waiting,
    /// Ended well.
    Succeeded,
    /// Failed for good.
    Failed,
    /// Failed, and its error strategy went on.
    Exception,
    /// No edge to it was taken.
    Skipped,
    /// The run ended before it did.
    Stopped,
}

impl NodeStatus {
    /// Every status but `Unknown`, which is never written.
    pub const WRITTEN: [Self; 11] = [
        Self::Ready,
        Self::Queued,
        Self::Running,
        Self::Retrying,
        Self::Body,
        Self::Waiting,
        Self::Succeeded,
        Self::Failed,
        Self::Exception,
        Self::Skipped,
        Self::Stopped,
    ];
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ready => "ready",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Body => "body",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Exception => "exception",
            Self::Skipped => "skipped",
            Self::Stopped => "stopped",
        }
    }
    /// The status of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::WRITTEN.into_iter().find(|s| s.name() == name)
    }
    /// True while something is still to come of it.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Ready | Self::Queued | Self::Running | Self::Retrying | Self::Body | Self::Waiting => true,
            Self::Unknown
            | Self::Succeeded
            | Self::Failed
            | Self::Exception
            | Self::Skipped
            | Self::Stopped => false,
        }
    }
    /// True while a job of it lies in a queue or with a worker.
    pub const fn has_job(self) -> bool {
        match self {
            Self::Queued | Self::Running => true,
            Self::Unknown
            | Self::Ready
            | Self::Retrying
            | Self::Body
            | Self::Waiting
            | Self::Succeeded
            | Self::Failed
            | Self::Exception
            | Self::Skipped
            | Self::Stopped => false,
        }
    }
}

/// One node in one frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeState {
    /// Where it stands.
    pub status: NodeStatus,
    /// The attempt that runs or ran last, from 1; 0 before the first.
    pub attempt: u32,
    /// The entry of its job, while it has one.
    pub job: Option<EntryId>,
    /// The newest delivery that was heard of, within the attempt.
    pub delivery: u32,
    /// When the first attempt began, once it was told.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The handle it left by, when it is not `source`.
    pub handle: Option<Arc<str>>,
    /// The failure's text, for a failed one.
    pub error: Option<Arc<str>>,
    /// Attempts that failed.
    pub failures: u32,
    /// What its model calls cost, all attempts.
    pub spent: Spent,
    /// The part of that which steps of the present execution have told already; its end does not count it again.
    pub charged: Spent,
    /// What its job waits for in nobody's hands, while it does.
    pub parked: Option<Arc<str>>,
    /// The run that its present attempt has called.
    pub call: Option<Box<OpenCall>>,
    /// The end that it has come to while nobody had it, and that its hooks are still to be told of.
    pub ended: Option<Box<Ended>>,
    /// Of a container: how far its frames are, while any are open or to come.
    pub body: Option<Box<BodyState>>,
    /// Of a container: what happened in those of its frames that are closed.
    pub inside: Tally,
}

/// The end of a node, before it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// It failed.
    pub failed: bool,
    /// What it left.
    pub record: Box<Record>,
}

/// A run that a node has called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenCall {
    /// Which.
    pub run: RunId,
    /// It is over, and the node's job is to read what came of it.
    pub ended: bool,
}

impl NodeState {
    /// The attempt that the timer of a waiting node brings: the next one, or the present one of a parked job.
    pub const fn attempt_due(&self) -> u32 {
        if self.parked.is_some() { self.attempt } else { self.attempt + 1 }
    }
    /// Whether its attempt has begun and goes on, also while it waits for a worker: a container between its frames, a node whose
    /// end is to be told to its hooks.
    pub fn is_between(&self) -> bool {
        self.ended.is_some() || self.body.as_ref().is_some_and(|body| body.phase != Some(Phase::Open))
    }
    /// What this node adds to the counters of its run, closed frames included. Attempts that a worker has not been
    /// heard of yet are no starts.
    pub fn tally(&self) -> Tally {
        Tally {
            steps: started_attempts(self) + self.inside.steps,
            failures: u64::from(self.failures) + self.inside.failures,
            spent: self.spent.plus(&self.inside.spent),
        }
    }
}

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
    pub variables: HashMap<String, Vec<(String, Stored)>, Hashing>,
    /// Variables of the frames around that an item must not see, since they were written after it was opened.
    pub hidden: BTreeSet<(String, String)>,
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
    /// One of another frame, `<frame>/<node>`: its values are in [`RunState::nested`].
    Nested(Arc<str>),
}

impl Frame {
    /// A frame in which nothing has happened.
    pub fn new(graph: &Graph) -> Self {
        Self {
            nodes: vec![NodeState::default(); graph.nodes.len()],
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
    pub fn set(&mut self, node: &str, name: &str, value: Stored) {
        let Some(of_node) = self.variables.get_mut(node) else {
            self.variables.insert(node.to_string(), vec![(name.to_string(), value)]);
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
    /// The turns of the conversation before it, as [`crate::nodes::llm::history`] reads them; none when there are none.
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
    pub frames: BTreeMap<FramePath, Frame>,
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

impl RunState {
    /// A run that was submitted and has not begun.
    pub fn new(id: RunId, graph: Arc<Graph>, head: RunHead) -> Self {
        let root = Frame::new(&graph);
        Self {
            id,
            status: RunStatus::Scheduled,
            started_at: None,
            finished_at: None,
            error: None,
            seq: 0,
            frames: BTreeMap::from([(FramePath::root(), root)]),
            ready: VecDeque::new(),
            response: ResponseState::new(&graph),
            nested: BTreeMap::new(),
            containers: BTreeMap::new(),
            pauses: BTreeMap::new(),
            control: Control::default(),
            objects: None,
            sums: Sums::default(),
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
        self.frames.get(&FramePath::root()).map_or(0, |f| f.nodes.iter().map(started_attempts).sum())
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
        self.frames.get(&FramePath::root()).is_some_and(|root| root.open > 0)
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
        container.is_some_and(|ix| self.graph.node(ix).kind == crate::nodes::NodeKind::Iteration)
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

pub(super) fn started_attempts(node: &NodeState) -> u64 {
    // A queued or ready node has not started; the attempt it waits for does not count yet. One that waits for a worker
    // within its attempt has.
    match node.status {
        NodeStatus::Unknown | NodeStatus::Skipped => 0,
        NodeStatus::Ready | NodeStatus::Queued if node.is_between() => u64::from(node.attempt),
        NodeStatus::Ready | NodeStatus::Queued => u64::from(node.attempt.saturating_sub(1)),
        NodeStatus::Stopped => {
            u64::from(if node.started_at.is_some() { node.attempt } else { node.attempt.saturating_sub(1) })
        }
        NodeStatus::Running
        | NodeStatus::Retrying
        | NodeStatus::Body
        | NodeStatus::Waiting
        | NodeStatus::Succeeded
        | NodeStatus::Failed
        | NodeStatus::Exception => u64::from(node.attempt),
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
            let handle = state.handle.as_deref().unwrap_or(crate::nodes::SOURCE_HANDLE);
            for &out in &node.outs {
                let taken = !node.is_branch() || &*graph.edge(out).handle == handle;
                edges[out.at()] = if taken { EdgeState::Taken } else { EdgeState::Skipped };
            }
        }
    }
    edges
}

/// The edges that are taken, as a test for [`crate::graph::ResponseNode::is_reached`].
pub(crate) fn taken(edges: &[EdgeState]) -> impl Fn(EdgeIx) -> bool + '_ {
    |edge| edges[edge.at()] == EdgeState::Taken
}
