//! A node of a graph: its configuration, and what its file says of errors, retries and queues.

use std::sync::Arc;

use super::NodeData;
use super::work::{Child, Work};
use crate::kinds::{ExecutionType, NodeKind};
use tidemill_base::ids::NodeId;
use tidemill_base::value::Segment;

/// The index of a node in `Graph::nodes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub u32);

impl NodeIx {
    /// Returns the index as `usize`.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// The index of an edge in `Graph::edges`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeIx(pub u32);

impl EdgeIx {
    /// Returns the index as `usize`.
    pub const fn at(self) -> usize {
        self.0 as usize
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

impl Node {
    /// True when only the edges with the result's handle are followed.
    pub fn is_branch(&self) -> bool {
        self.kind.spec().execution == ExecutionType::Branch
            || self.error_strategy == Some(ErrorStrategy::FailBranch)
            || self.chooses
    }
}

/// The parts of a node that each of its events or changes contains, converted once.
#[derive(Debug, Clone, Default)]
pub struct Quoted {
    /// JSON.
    pub id: String,
    /// JSON.
    pub title: String,
    /// The id as a part of a key.
    pub in_key: String,
}

impl Quoted {
    /// Converts id and title.
    pub(crate) fn of(id: &NodeId, title: &str) -> Self {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        Self { id: quoted(id.as_str()), title: quoted(title), in_key: id.in_key().into_owned() }
    }
}
