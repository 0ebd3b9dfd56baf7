//! The table of a host's executors: by node id, tool provider, node type, queue or Call. A worker finds the executor of a
//! node in it, and an embedded engine the nodes that it must not evaluate itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::json;
use tidemill_common::graph::Node;
use tidemill_common::nodes::{ExecutionType, NodeData, NodeKind};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::worker::HostedAbility;

use super::NodeExecutor;

/// The executors of a host. The most exact registration wins: a node's id, then the provider of its tool,
/// then its type, then its queue. Nodes without a registration are executed by the worker itself.
#[derive(Clone, Default)]
pub struct Hosts {
    nodes: HashMap<String, Arc<dyn NodeExecutor>>,
    tools: HashMap<String, Arc<dyn NodeExecutor>>,
    types: HashMap<NodeKind, Arc<dyn NodeExecutor>>,
    queues: HashMap<String, Arc<dyn NodeExecutor>>,
    calls: HashMap<String, HostedCall>,
}

/// A Call of the host.
#[derive(Clone)]
struct HostedCall {
    manifest: JsonMap,
    executor: Arc<dyn NodeExecutor>,
}

/// The reason why an executor cannot be registered.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum HostsError {
    /// No such node type.
    #[error(
        "there is no node type {0:?}; for work of your own register a provider of tools (`tool` nodes) or a Call (`call` nodes)"
    )]
    UnknownType(String),
    /// Nodes of this type hold other nodes, or begin a run; the engine itself executes them.
    #[error(
        "nodes of type {0} are executed by the engine itself; register a node inside or after it instead"
    )]
    EnginesOwn(String),
}

impl Hosts {
    /// Executes the node with this id, in every workflow.
    #[must_use]
    pub fn node(mut self, id: &str, executor: Arc<dyn NodeExecutor>) -> Self {
        self.nodes.insert(id.to_owned(), executor);
        self
    }

    /// Executes the tools of this provider (`provider_id` or `provider_name` of a `tool` node).
    #[must_use]
    pub fn tool(mut self, provider: &str, executor: Arc<dyn NodeExecutor>) -> Self {
        self.tools.insert(provider.to_owned(), executor);
        self
    }

    /// Executes all nodes of this type, named as in workflow files.
    ///
    /// # Errors
    /// [`HostsError::UnknownType`], or [`HostsError::EnginesOwn`] for types that only the engine can execute.
    pub fn node_type(mut self, name: &str, executor: Arc<dyn NodeExecutor>) -> Result<Self, HostsError> {
        let kind = NodeKind::from_wire(name).ok_or_else(|| HostsError::UnknownType(name.to_owned()))?;
        if is_engines_own(kind) {
            return Err(HostsError::EnginesOwn(name.to_owned()));
        }
        self.types.insert(kind, executor);
        Ok(self)
    }

    /// Runs the Call of this id, which `call` nodes and library nodes name. Its manifest is that of
    /// `tidemill calls add`, of which `info` is required; `transport`, `operations` and `streaming` are filled in. The
    /// worker registers it when it starts.
    ///
    /// Each operation is one execution: `config` has `call`, `operation` (`init`, `exec`, `after_exec`) and, for `init`,
    /// `call_vars`. The outputs of `init` are the input of `exec`; the pieces and outputs of `exec` are those of the Call.
    #[must_use]
    pub fn call(mut self, id: &str, mut manifest: JsonMap, executor: Arc<dyn NodeExecutor>) -> Self {
        manifest.insert("transport".into(), json!({"type": "worker"}));
        manifest.entry("operations").or_insert_with(|| json!(["init", "exec"]));
        manifest.entry("streaming").or_insert_with(|| true.into());
        self.calls.insert(id.to_owned(), HostedCall { manifest, executor });
        self
    }

    /// Executes all nodes of this queue (`tidemill: {queue: …}` in a node's data) that a host may execute.
    #[must_use]
    pub fn queue(mut self, name: &str, executor: Arc<dyn NodeExecutor>) -> Self {
        self.queues.insert(name.to_owned(), executor);
        self
    }

    /// The executor of a node, by the most exact registration.
    pub(crate) fn find(&self, node: &Node) -> Option<&Arc<dyn NodeExecutor>> {
        if self.executes_no_node() || is_engines_own(node.kind) {
            return None;
        }
        let of_tool = || {
            let NodeData::Tool(data) = &node.data else { return None };
            self.tools.get(&data.provider_id).or_else(|| self.tools.get(&data.provider_name))
        };
        let own = self.nodes.get(node.id.as_str());
        own.or_else(of_tool)
            .or_else(|| self.types.get(&node.kind))
            .or_else(|| self.queues.get(&*node.settings.queue))
    }

    /// Returns true if an executor of the host takes this node. For such a node a scheduler must order a job, also when
    /// it could evaluate the node itself.
    pub fn takes(&self, node: &Node) -> bool {
        self.find(node).is_some()
    }

    /// The executors as the record of a worker shows them.
    pub(crate) fn ability(&self) -> HostedAbility {
        let sorted = |map: &HashMap<String, Arc<dyn NodeExecutor>>| {
            let mut names: Vec<String> = map.keys().cloned().collect();
            names.sort_unstable();
            names
        };
        let mut types: Vec<String> = self.types.keys().map(|kind| kind.wire().to_owned()).collect();
        types.sort_unstable();
        HostedAbility {
            nodes: sorted(&self.nodes),
            types,
            tools: sorted(&self.tools),
            queues: sorted(&self.queues),
            calls: {
                let mut ids: Vec<String> = self.calls.keys().cloned().collect();
                ids.sort_unstable();
                ids
            },
        }
    }

    /// Returns true if there is no executor.
    pub fn is_empty(&self) -> bool {
        self.executes_no_node() && self.calls.is_empty()
    }

    fn executes_no_node(&self) -> bool {
        self.nodes.is_empty() && self.tools.is_empty() && self.types.is_empty() && self.queues.is_empty()
    }

    /// The manifests of its Calls, by id.
    pub(crate) fn manifests(&self) -> Vec<(String, JsonMap)> {
        let mut all: Vec<_> =
            self.calls.iter().map(|(id, call)| (id.clone(), call.manifest.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The executors of its Calls, by id.
    pub(crate) fn call_executors(&self) -> HashMap<String, Arc<dyn NodeExecutor>> {
        self.calls.iter().map(|(id, call)| (id.clone(), call.executor.clone())).collect()
    }

    /// The queues that have an executor of their own.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.queues.keys().map(String::as_str)
    }
}

/// True for types that hold other nodes, begin a run or end one.
fn is_engines_own(kind: NodeKind) -> bool {
    let execution = kind.spec().execution;
    matches!(execution, ExecutionType::Container | ExecutionType::Root)
        || matches!(kind, NodeKind::IterationStart | NodeKind::LoopStart | NodeKind::LoopEnd | NodeKind::End)
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |map: &HashMap<String, Arc<dyn NodeExecutor>>| map.keys().cloned().collect::<Vec<_>>();
        f.debug_struct("Hosts")
            .field("nodes", &names(&self.nodes))
            .field("tools", &names(&self.tools))
            .field("types", &self.types.keys().map(|kind| kind.wire()).collect::<Vec<_>>())
            .field("queues", &names(&self.queues))
            .field("calls", &self.calls.keys().collect::<Vec<_>>())
            .finish()
    }
}
