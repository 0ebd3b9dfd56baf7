//! The graph: a workflow in the form that the engine runs, with nodes, edges and data derived from them.
//! Immutable once built.
//!
//! [`build()`] turns a document into a [`Graph`] and reports all problems. Later code does not check again
//! for cycles, missing ends or unknown types.

mod body;
pub mod build;
mod children;
mod containers;
mod cycles;
mod draft;
mod names;
pub mod response;
mod settings;
mod validate;
mod work;
mod wrapper;

use std::collections::HashMap;
use std::sync::Arc;

use crate::ids::NodeId;
use crate::nodes::{NodeData, NodeKind};
use crate::value::secrets::Secrets;
use crate::value::{JsonMap, Segment, SegmentType};

pub use body::Body;
pub use build::{Imported, build, import, import_within};
pub use children::global_id;
pub(crate) use children::model_of;
pub use response::{ResponseNode, TemplatePart, stream_key, stream_prefix};
pub use work::{Child, ChildKind, Confirm, Extraction, FedInput, INPUTS, Work};

/// The index of a node in [`Graph::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub u32);
impl NodeIx {
    /// Returns the index as `usize`.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// The index of an edge in [`Graph::edges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeIx(pub u32);
impl EdgeIx {
    /// Returns the index as `usize`.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// The SHA-256 of a workflow document's canonical text, in hex: the name of a version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphHash(pub Arc<str>);
impl std::fmt::Display for GraphHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kind of app that the workflow belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppMode {
    /// Start … End, no conversation (Dify: `workflow`).
    Workflow,
    /// Start … Answer, within a conversation (Dify: `advanced-chat`).
    Chat,
}
impl AppMode {
    /// Returns Dify's name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Chat => "advanced-chat",
        }
    }
}

/// The reaction to a node that has failed after its last attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorStrategy {
    /// The run continues by the handle `fail-branch`.
    FailBranch,
    /// The run continues with these outputs.
    DefaultValue(Vec<(String, Segment)>),
}

/// The attempts after a node has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryConfig {
    pub enabled: bool,
    /// Number of attempts after the first.
    pub retries_max: u32,
    /// Milliseconds before each of them.
    pub interval_ms: u64,
}

/// The growth of the wait between attempts: `tidemill.backoff`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Each wait is this many times the one before; at least 1, and 1 by default.
    pub multiplier: f64,
    /// Longest wait before jitter; `None` means no limit.
    pub max_interval_ms: Option<u64>,
    /// Largest share by which a wait is shortened or lengthened at random, from 0 (the default) to 1.
    pub jitter: f64,
}
impl Default for Backoff {
    fn default() -> Self {
        Self { multiplier: 1.0, max_interval_ms: None, jitter: 0.0 }
    }
}

/// The queue of nodes that name no queue.
pub const DEFAULT_QUEUE: &str = "default";

/// The engine's own settings of a node, from `data.tidemill`.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSettings {
    /// The queue whose workers run the node.
    pub queue: Arc<str>,
    /// True when a pure node must run on a worker (`runs_on: worker`).
    pub on_worker: bool,
    /// Longest duration of one attempt; `None` means no limit.
    pub execution_timeout_ms: Option<u64>,
    /// Longest time that a job may wait in its queue; `None` means no limit.
    pub queue_timeout_ms: Option<u64>,
    /// The growth of the wait between attempts; without it all waits are equal.
    pub backoff: Option<Backoff>,
    /// True when a wait that the remote side asks for counts if it is longer than ours.
    pub honour_retry_after: bool,
    /// Error types after which there is no further attempt.
    pub not_retryable: Vec<String>,
    /// True when only temporary failures are tried again; nodes in Dify's form try any failure again.
    pub passing_only: bool,
    /// True when calls of the node carry the header `Idempotency-Key`.
    pub idempotency_key: bool,
}
impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            queue: DEFAULT_QUEUE.into(),
            on_worker: false,
            execution_timeout_ms: None,
            queue_timeout_ms: None,
            backoff: None,
            honour_retry_after: false,
            not_retryable: Vec::new(),
            passing_only: false,
            idempotency_key: false,
        }
    }
}

/// A node.
#[derive(Debug, Clone)]
pub struct Node {
    /// The id in the file.
    pub id: NodeId,
    pub kind: NodeKind,
    /// The name that events show.
    pub title: String,
    /// The version of the implementation, `"1"` by default.
    pub version: String,
    /// The configuration, parsed and checked.
    pub data: NodeData,
    /// The reaction to a failure; `None` means that the run fails.
    pub error_strategy: Option<ErrorStrategy>,
    pub retry: RetryConfig,
    pub settings: NodeSettings,
    /// True when the node chooses one of several handles although its type is not a branch: one of its edges
    /// has such a handle.
    pub chooses: bool,
    /// Edges that end here, in file order.
    pub ins: Vec<EdgeIx>,
    /// Edges that begin here, in file order.
    pub outs: Vec<EdgeIx>,
    /// The container of the node.
    pub parent: Option<NodeIx>,
    /// The nearest loop around the node, also through iterations. Each round of it clears the node's outputs,
    /// and a loop-end ends it.
    pub loop_id: Option<NodeIx>,
    /// The variables that the configuration mentions, as `(node, name)` without duplicates. The node's job
    /// must carry them.
    pub mentions: Vec<(String, String)>,
    /// True when some node reads this node's conversation with its model. Only then is the conversation an
    /// output.
    pub gives_context: bool,
    /// Extra work of the node's job besides its own call; `None` for nearly all nodes.
    pub work: Option<Box<Work>>,
    /// The nodes that run inside its job, in order.
    pub children: Vec<NodeIx>,
    /// Set for a node that runs inside another.
    pub child: Option<Box<Child>>,
    /// Id and title as JSON.
    pub quoted: Quoted,
}

/// The parts of a node that each of its events contains, converted to JSON once.
#[derive(Debug, Clone, Default)]
pub struct Quoted {
    pub id: String,
    pub title: String,
}

impl Quoted {
    /// Converts id and title.
    fn of(id: &NodeId, title: &str) -> Self {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        Self { id: quoted(id.as_str()), title: quoted(title) }
    }
}

impl Node {
    /// True when only the edges with the result's handle are followed.
    pub fn is_branch(&self) -> bool {
        self.kind.spec().execution == crate::nodes::ExecutionType::Branch
            || self.error_strategy == Some(ErrorStrategy::FailBranch)
            || self.chooses
    }
}

/// An edge.
#[derive(Debug, Clone)]
pub struct Edge {
    /// Internal id, `edge_<n>` in file order, as on Dify.
    pub id: String,
    pub source: NodeIx,
    pub target: NodeIx,
    /// The handle of the source node; `source` unless the file names another.
    pub handle: Arc<str>,
}

/// An environment or conversation variable of the document.
#[derive(Clone, PartialEq)]
pub struct DocumentVariable {
    /// The id in the file, empty when absent.
    pub id: String,
    pub name: Arc<str>,
    /// The value; of type `secret` for secrets (environment only).
    pub value: Segment,
    pub description: String,
}

impl std::fmt::Debug for DocumentVariable {
    /// Leaves out the value, which may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DocumentVariable({:?}: {})", self.name, self.value.ty)
    }
}

/// Nodes by id. Each result of a worker names a node by id.
type Index = HashMap<NodeId, NodeIx, foldhash::fast::RandomState>;

/// Returns the secrets of an environment that are long enough to be searched for in texts.
fn secrets_of(environment: &[DocumentVariable]) -> Secrets {
    let secrets = environment.iter().filter(|one| one.value.ty == SegmentType::Secret);
    Secrets::long_of(secrets.map(|one| (one.name.clone(), &one.value)))
}

/// A workflow that is ready to run.
#[derive(Debug, Clone)]
pub struct Graph {
    /// The name of this version.
    pub hash: GraphHash,
    /// The app's name; empty for a bare graph.
    pub name: String,
    pub mode: AppMode,
    /// All nodes that can be executed, in file order (without notes), followed by those that run inside
    /// others.
    pub nodes: Vec<Node>,
    /// All edges, in file order.
    pub edges: Vec<Edge>,
    /// The node where a run begins.
    pub root: NodeIx,
    pub environment: Vec<DocumentVariable>,
    /// Conversation variables with their initial values.
    pub conversation: Vec<DocumentVariable>,
    /// `workflow.features`, unchanged.
    pub features: JsonMap,
    /// The Answer and End nodes of the root graph, sorted by node id, with the conditions under which each
    /// may stream.
    pub responses: Vec<ResponseNode>,
    /// Selectors of two or more parts that a response template mentions, in the form of [`stream_key`]. Only
    /// chunks of these are stored.
    pub streamed: std::collections::HashSet<String>,
    /// The secrets that are masked in texts that are shown: the long enough ones of the environment. Empty
    /// when the settings allow such texts to be shown.
    pub hidden: Secrets,
    index: Index,
    bodies: HashMap<NodeIx, Body>,
}

impl Graph {
    /// Returns the secrets that are long enough to be searched for in texts, whatever the settings say.
    pub fn long_secrets(&self) -> Secrets {
        secrets_of(&self.environment)
    }

    /// Returns the graph with no secrets to mask if `shows_secrets` (`compat.secrets_in_outputs`).
    #[must_use]
    pub fn showing(mut self, shows_secrets: bool) -> Self {
        if shows_secrets {
            self.hidden = Secrets::default();
        }
        self
    }

    /// Returns the queues of its nodes, without duplicates.
    pub fn queues(&self) -> Vec<Arc<str>> {
        let mut queues: Vec<Arc<str>> = self.nodes.iter().map(|node| node.settings.queue.clone()).collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }
    /// Returns the node at an index.
    pub fn node(&self, ix: NodeIx) -> &Node {
        &self.nodes[ix.at()]
    }
    /// Returns the edge at an index.
    pub fn edge(&self, ix: EdgeIx) -> &Edge {
        &self.edges[ix.at()]
    }
    /// Returns the body of an iteration or loop.
    ///
    /// # Panics
    /// When the node is not a container.
    pub fn body(&self, container: NodeIx) -> &Body {
        &self.bodies[&container]
    }
    /// Returns the index of the node with this id.
    pub fn find(&self, id: &str) -> Option<NodeIx> {
        self.index.get(id).copied()
    }
    /// True when a response template shows text that this node streams.
    pub fn is_streamed(&self, node: &Node) -> bool {
        let of_node = response::keys_of(node.id.as_str());
        self.streamed.iter().any(|key| of_node(key))
    }
    /// Returns an environment variable by name.
    pub fn environment_variable(&self, name: &str) -> Option<&DocumentVariable> {
        self.environment.iter().find(|v| &*v.name == name)
    }
}
