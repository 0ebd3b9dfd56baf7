//! The graph: a workflow in the form that the engine runs, with nodes, edges and data derived from them.
//! Immutable once built.
//!
//! [`build()`] turns a document into a [`Graph`] and reports all problems. Later code does not check again
//! for cycles, missing ends or unknown types.

mod body;
pub mod builder;
mod children;
pub mod code_modules;
mod containers;
mod cycles;
pub mod datasets;
mod draft;
mod names;
pub mod response;
mod settings;
mod validate;
mod wrapper;

use std::collections::HashMap;
use std::sync::Arc;

use tidemill_base::ids::NodeId;
use tidemill_base::value::secrets::Secrets;
use tidemill_base::value::{JsonMap, SegmentType};

pub use crate::dsl::children::global_id;
pub use crate::dsl::{AppMode, DocumentVariable, Front, GraphHash, SimpleMode};
pub use crate::nodes::node::{
    Backoff, DEFAULT_QUEUE, EdgeIx, ErrorStrategy, Node, NodeIx, NodeSettings, Quoted, RetryConfig,
};
pub use crate::nodes::work::{Approval, Child, ChildKind, Extraction, FedInput, INPUTS, Work};
pub use body::Body;
pub use builder::{Imported, build, import, import_within};
pub use response::{ResponseNode, stream_key, stream_prefix};
pub use tidemill_base::value::template::TemplatePart;

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
    /// True for a file that is a graph alone, not an app export.
    pub is_bare: bool,
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
    /// What only clients see.
    pub front: Front,
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

    /// Returns Dify's name of the app's mode. For a converted app it is the mode in its file.
    pub fn app_mode(&self) -> &'static str {
        self.front.mode.map_or(self.mode.name(), SimpleMode::name)
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
