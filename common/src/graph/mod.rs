//! A workflow as the engine runs it: nodes, edges and what follows from them. Immutable once built.
//!
//! [`build()`] turns a parsed document into a [`Graph`] and says everything that is wrong with it;
//! behind that, nobody checks again for cycles, missing ends or unknown types.

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

/// The place of a node in [`Graph::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub u32);
impl NodeIx {
    /// As an index.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// The place of an edge in [`Graph::edges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeIx(pub u32);
impl EdgeIx {
    /// As an index.
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

/// What kind of app the workflow belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppMode {
    /// Start … End, no conversation (Dify: `workflow`).
    Workflow,
    /// Start … Answer, within a conversation (Dify: `advanced-chat`).
    Chat,
}
impl AppMode {
    /// Dify's name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Chat => "advanced-chat",
        }
    }
}

/// What happens when a node has failed for good.
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorStrategy {
    /// Leave by the handle `fail-branch`.
    FailBranch,
    /// Go on with these outputs.
    DefaultValue(Vec<(String, Segment)>),
}

/// How often and after how long a failed node is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryConfig {
    /// Whether it is tried again at all.
    pub enabled: bool,
    /// Tries after the first.
    pub retries_max: u32,
    /// Milliseconds before each.
    pub interval_ms: u64,
}

/// How the wait between attempts grows: `tidemill.backoff`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Each wait is so many times the one before; at least 1, and 1 by default.
    pub multiplier: f64,
    /// Longest wait before jitter; none by default.
    pub max_interval_ms: Option<u64>,
    /// By which share of itself a wait is shortened or lengthened at most, from 0, the default, to 1.
    pub jitter: f64,
}
impl Default for Backoff {
    fn default() -> Self {
        Self { multiplier: 1.0, max_interval_ms: None, jitter: 0.0 }
    }
}

/// The queue of nodes that name none.
pub const DEFAULT_QUEUE: &str = "default";

/// The engine's own settings of a node: its `data.tidemill` block.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSettings {
    /// The queue whose workers run the node.
    pub queue: Arc<str>,
    /// True when a pure node is to run on a worker all the same (`runs_on: worker`).
    pub on_worker: bool,
    /// Longest time one attempt may run; none by default.
    pub execution_timeout_ms: Option<u64>,
    /// Longest time a job may wait in its queue; none by default.
    pub queue_timeout_ms: Option<u64>,
    /// Growth of the wait between attempts; without it every wait is as long as the first.
    pub backoff: Option<Backoff>,
    /// Whether a wait that the other side asked for is kept when it is the longer one.
    pub honour_retry_after: bool,
    /// Error types after which the node is not tried again.
    pub not_retryable: Vec<String>,
    /// Whether only a failure that may pass is tried again; nodes as Dify has them try any.
    pub passing_only: bool,
    /// Whether calls that the node makes carry `Idempotency-Key`.
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
    /// Its id in the file.
    pub id: NodeId,
    /// What it does.
    pub kind: NodeKind,
    /// Shown in events.
    pub title: String,
    /// Which implementation, `"1"` by default.
    pub version: String,
    /// Its configuration, parsed and checked.
    pub data: NodeData,
    /// What to do when it fails.
    pub error_strategy: Option<ErrorStrategy>,
    /// When to try again.
    pub retry: RetryConfig,
    /// The engine's settings for it.
    pub settings: NodeSettings,
    /// It leaves by one of several handles although its type is no branch: an edge carries one that it may choose.
    pub chooses: bool,
    /// Edges that end here, in file order.
    pub ins: Vec<EdgeIx>,
    /// Edges that leave here, in file order.
    pub outs: Vec<EdgeIx>,
    /// The container it lies in.
    pub parent: Option<NodeIx>,
    /// The nearest loop that it lies in, however deep in iterations: whose rounds forget its outputs, and which loop a
    /// loop-end ends.
    pub loop_id: Option<NodeIx>,
    /// The variables its configuration mentions, as `(node, name)`, each once: what a job must carry.
    pub mentions: Vec<(String, String)>,
    /// Whether anybody reads what was said to its model and by it: only then is it an output.
    pub gives_context: bool,
    /// What its job does besides its own call; none for nearly all nodes.
    pub work: Option<Box<Work>>,
    /// The nodes that run inside its job, in order.
    pub children: Vec<NodeIx>,
    /// Set for such a node itself.
    pub child: Option<Box<Child>>,
    /// How it is named in messages.
    pub quoted: Quoted,
}

/// What each event of a node says of it, as JSON: put into words once and not for each event.
#[derive(Debug, Clone, Default)]
pub struct Quoted {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
}

impl Quoted {
    /// Of a node of this id and title.
    fn of(id: &NodeId, title: &str) -> Self {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        Self { id: quoted(id.as_str()), title: quoted(title) }
    }
}

impl Node {
    /// True when only edges with the result's handle are taken.
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
    /// Where it begins.
    pub source: NodeIx,
    /// Where it ends.
    pub target: NodeIx,
    /// The handle it leaves by; `source` unless the file says otherwise.
    pub handle: Arc<str>,
}

/// A variable that the document defines: environment or conversation.
#[derive(Clone, PartialEq)]
pub struct DocumentVariable {
    /// The variable's own id in the file, empty when absent.
    pub id: String,
    /// Its name.
    pub name: Arc<str>,
    /// Its value; type `secret` for secrets (environment only).
    pub value: Segment,
    /// Text for people.
    pub description: String,
}

impl std::fmt::Debug for DocumentVariable {
    /// Without the value: it may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DocumentVariable({:?}: {})", self.name, self.value.ty)
    }
}

/// Nodes by their ids. Each result of a worker names one.
type Index = HashMap<NodeId, NodeIx, foldhash::fast::RandomState>;

/// The secrets of an environment that texts can be searched for.
fn secrets_of(environment: &[DocumentVariable]) -> Secrets {
    let secrets = environment.iter().filter(|one| one.value.ty == SegmentType::Secret);
    Secrets::long_of(secrets.map(|one| (one.name.clone(), &one.value)))
}

/// A workflow, ready to run.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Names this version.
    pub hash: GraphHash,
    /// The app's name; empty for a bare graph.
    pub name: String,
    /// The app's mode.
    pub mode: AppMode,
    /// All nodes that can be executed, in file order (notes are dropped); behind them those that run inside others.
    pub nodes: Vec<Node>,
    /// All edges, in file order.
    pub edges: Vec<Edge>,
    /// Where a run begins.
    pub root: NodeIx,
    /// Environment variables.
    pub environment: Vec<DocumentVariable>,
    /// Conversation variables with their first values.
    pub conversation: Vec<DocumentVariable>,
    /// `workflow.features` as it stands in the file.
    pub features: JsonMap,
    /// Answer and End nodes of the root graph, sorted by node id: who may stream, and what must be decided first.
    pub responses: Vec<ResponseNode>,
    /// Selectors of two or more parts that some response template mentions, as [`stream_key`] writes them: whose chunks are
    /// kept.
    pub streamed: std::collections::HashSet<String>,
    /// The secrets of its environment that texts which are shown are searched for: those that are long enough, unless
    /// the settings say that what is made from them is shown.
    pub hidden: Secrets,
    index: Index,
    bodies: HashMap<NodeIx, Body>,
}

impl Graph {
    /// The secrets of its environment that are long enough to be searched for in texts, whatever the settings say.
    pub fn long_secrets(&self) -> Secrets {
        secrets_of(&self.environment)
    }

    /// The same graph; if `shows_secrets` (`compat.secrets_in_outputs`), texts made from its secrets are shown as they are.
    #[must_use]
    pub fn showing(mut self, shows_secrets: bool) -> Self {
        if shows_secrets {
            self.hidden = Secrets::default();
        }
        self
    }

    /// The queues that its nodes use, each once.
    pub fn queues(&self) -> Vec<Arc<str>> {
        let mut queues: Vec<Arc<str>> = self.nodes.iter().map(|node| node.settings.queue.clone()).collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }
    /// The node at a place.
    pub fn node(&self, ix: NodeIx) -> &Node {
        &self.nodes[ix.at()]
    }
    /// The edge at a place.
    pub fn edge(&self, ix: EdgeIx) -> &Edge {
        &self.edges[ix.at()]
    }
    /// The body of an iteration or loop.
    ///
    /// # Panics
    /// When the node is no container.
    pub fn body(&self, container: NodeIx) -> &Body {
        &self.bodies[&container]
    }
    /// The place of a node by its id.
    pub fn find(&self, id: &str) -> Option<NodeIx> {
        self.index.get(id).copied()
    }
    /// Whether any answer shows text that this node streams.
    pub fn is_streamed(&self, node: &Node) -> bool {
        let of_node = response::keys_of(node.id.as_str());
        self.streamed.iter().any(|key| of_node(key))
    }
    /// An environment variable by name.
    pub fn environment_variable(&self, name: &str) -> Option<&DocumentVariable> {
        self.environment.iter().find(|v| &*v.name == name)
    }
}
