//! Chooses how a node type is executed: by the pure code in `tidemill-common`, or by worker code that reaches outside.

use tidemill_common::files::Files;
use tidemill_common::graph::{Graph, Node};
use tidemill_common::ids::{ExecutionId, RunId};
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::nodes::{NodeKind, NodeResult};
use tidemill_common::value::Variables;

use crate::attempt::journal::Journal;
use crate::host::Hosts;
use crate::nodes::EXECUTORS;
use crate::nodes::code::CodeNodes;
use crate::nodes::document_extractor::DocumentNodes;
use crate::nodes::http_request::AnswerRules;
use crate::outside::calls::Calls;
use crate::outside::extensions::Extensions;
use crate::outside::http::Http;
use crate::outside::knowledge::Datasets;
use crate::outside::providers::{DeltaSink, Providers};
use crate::outside::tools::Tools;

/// Everything an execution may use.
pub struct Attempt<'a> {
    pub node: &'a Node,
    pub graph: &'a Graph,
    /// The values the node may read. Large values are loaded, secrets are open.
    pub variables: &'a (dyn Variables + Send + Sync),
    pub options: &'a RunOptions,
    pub providers: &'a Providers,
    /// Client for other servers.
    pub http: &'a Http,
    /// The file storage.
    pub files: &'a dyn Files,
    pub name: AttemptName,
    /// The app of the run, or else the version of the workflow. Apps share slots fairly.
    pub app: &'a str,
    /// The job's journal: calls that must not be repeated.
    pub journal: &'a Journal,
    /// The sandbox for code.
    pub code: &'a CodeNodes,
    /// The document readers.
    pub documents: &'a DocumentNodes,
    /// Receives the pieces of the node's streamed text.
    pub on_delta: DeltaSink<'a>,
    /// Receives the pieces of a model's reasoning.
    pub on_thought: ThoughtSink<'a>,
    pub tools: &'a Tools,
    pub knowledge: &'a Datasets,
    pub calls: &'a Calls,
    pub extensions: &'a Extensions,
    /// Receives pieces of any output by name, for nodes that stream several outputs.
    pub on_piece: PieceSink<'a>,
    /// Sends all pieces so far, so that they come before an event that is sent next.
    pub flush: Flush<'a>,
    pub prompt_bytes_max: usize,
    /// How `http-request` nodes read answers.
    pub answers: AnswerRules,
}

/// Receives a piece of an output: the output's name and the text. An empty text declares that the output streams.
pub type PieceSink<'a> = &'a (dyn Fn(&str, &str) + Send + Sync);

/// Sends the pieces that are gathered.
pub type Flush<'a> = &'a (dyn Fn() + Send + Sync);

/// Receives the pieces of a model's reasoning. The flag marks the last piece; only the last one may be empty.
pub type ThoughtSink<'a> = &'a mut (dyn FnMut(&str, bool) + Send);

/// The identity of an attempt. It stays the same when the job is delivered again.
#[derive(Debug, Clone, Copy)]
pub struct AttemptName {
    pub run: RunId,
    pub execution: ExecutionId,
    /// The number of the attempt, from 1.
    pub number: u32,
}

impl AttemptName {
    /// The `Idempotency-Key` of its call, in the same form as those of journal entries.
    pub fn idempotency_key(&self) -> String {
        format!("{}:call:{}", self.execution, self.number)
    }
}

/// Executes nodes of one type. Dropping the future stops the execution.
#[async_trait::async_trait]
pub trait NodeExecutor: Send + Sync {
    /// The name of the output whose text is streamed; `None` if the type does not stream.
    fn streamed_output(&self) -> Option<&'static str>;
    /// Runs one attempt. A failure is part of the result.
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult;
}

/// The executor of a node type.
#[derive(Clone, Copy)]
pub enum Executor {
    /// Pure code in `tidemill-common`.
    Pure,
    /// Worker code that may reach outside.
    Outside(&'static dyn NodeExecutor),
    /// An executor of the host program, found among [`Hosts`].
    Hosted,
}

impl Executor {
    /// Returns true if it may reach outside.
    pub fn goes_outside(self) -> bool {
        matches!(self, Self::Outside(_) | Self::Hosted)
    }
}

/// Returns the executor of a node: the host's, if it has one for this node, else that of the type. `None` if this worker
/// cannot run the node.
pub(crate) fn executor_for(node: &Node, hosts: &Hosts) -> Option<Executor> {
    if hosts.find(node).is_some() { Some(Executor::Hosted) } else { executor_of(node.kind) }
}

/// Returns the executor of a node type, or `None` if this worker cannot run the type.
pub fn executor_of(kind: NodeKind) -> Option<Executor> {
    EXECUTORS.iter().find(|(known, _)| *known == kind).map(|(_, executor)| *executor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::nodes::NODE_TYPES;

    #[test]
    fn every_kind_that_can_be_run_has_one_executor_and_no_other_kind_has() {
        for spec in NODE_TYPES {
            let rows = EXECUTORS.iter().filter(|(kind, _)| *kind == spec.kind).count();
            assert_eq!(rows, usize::from(spec.implemented), "{}", spec.wire);
            if let Some(executor) = executor_of(spec.kind) {
                assert_eq!(matches!(executor, Executor::Pure), spec.pure, "{}", spec.wire);
            }
        }
    }
}
