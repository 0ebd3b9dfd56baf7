//! How a kind of node is executed: by the code that the scheduler uses as well, or by one that goes outside.

use tidemill_common::files::Files;
use tidemill_common::graph::{Graph, Node};
use tidemill_common::ids::{ExecutionId, RunId};
use tidemill_common::machine::run::RunOptions;
use tidemill_common::nodes::{NodeKind, NodeResult};
use tidemill_common::value::Variables;

use crate::calls::Calls;
use crate::http::Http;
use crate::knowledge::Datasets;
use crate::nodes::EXECUTORS;
use crate::nodes::code::CodeNodes;
use crate::nodes::document_extractor::DocumentNodes;
use crate::providers::{DeltaSink, Providers};
use crate::steps::Steps;
use crate::tools::Tools;

/// All that an execution may touch.
pub struct Attempt<'a> {
    /// The node, with its configuration.
    pub node: &'a Node,
    /// The workflow that it belongs to.
    pub graph: &'a Graph,
    /// What it may read; large values are loaded, secrets open.
    pub variables: &'a (dyn Variables + Send + Sync),
    /// The run's options.
    pub options: &'a RunOptions,
    /// Models.
    pub providers: &'a Providers,
    /// The way to other servers.
    pub http: &'a Http,
    /// Where files lie.
    pub files: &'a dyn Files,
    /// Which attempt it is.
    pub name: AttemptName,
    /// What it must not do twice.
    pub steps: &'a Steps,
    /// What runs code.
    pub code: &'a CodeNodes,
    /// What reads documents.
    pub documents: &'a DocumentNodes,
    /// Takes the pieces of what the node streams.
    pub on_delta: DeltaSink<'a>,
    /// Takes what a model thinks.
    pub on_thought: ThoughtSink<'a>,
    /// The ways to tools.
    pub tools: &'a Tools,
    /// Knowledge bases.
    pub knowledge: &'a Datasets,
    /// Library nodes, registered calls, services and datasources.
    pub calls: &'a Calls,
    /// Takes pieces of any output by its name, for nodes that stream more than one.
    pub on_piece: PieceSink<'a>,
    /// Longest prompt of an `llm` node in its profile form, in bytes.
    pub prompt_bytes_max: usize,
}

/// Takes a piece of an output: its name, the text. An empty text says that the output is one that streams.
pub type PieceSink<'a> = &'a (dyn Fn(&str, &str) + Send + Sync);

/// Takes the pieces of what a model thinks, none of them empty but perhaps the last, which is marked.
pub type ThoughtSink<'a> = &'a mut (dyn FnMut(&str, bool) + Send);

/// An attempt among all that there are; handed out again it has the same name.
#[derive(Debug, Clone, Copy)]
pub struct AttemptName {
    /// The run.
    pub run: RunId,
    /// The execution of the node.
    pub execution: ExecutionId,
    /// Which attempt of it, from 1.
    pub number: u32,
}

impl AttemptName {
    /// What its call carries as `Idempotency-Key`, in the form that steps of a job have.
    pub fn idempotency_key(&self) -> String {
        format!("{}:call:{}", self.execution, self.number)
    }
}

/// Executes nodes of one kind. Dropping the future ends the execution.
#[async_trait::async_trait]
pub trait NodeExecutor: Send + Sync {
    /// The output whose text is streamed, if the kind streams.
    fn streamed_output(&self) -> Option<&'static str>;
    /// One attempt. A failure is part of the result.
    async fn run(&self, attempt: Attempt<'_>) -> NodeResult;
}

/// What executes a kind of node.
#[derive(Clone, Copy)]
pub enum Executor {
    /// The code in `tidemill-common`, which needs nothing from outside.
    Pure,
    /// Code of the worker.
    Outside(&'static dyn NodeExecutor),
}

impl Executor {
    /// Whether it may touch anything outside.
    pub fn goes_outside(self) -> bool {
        matches!(self, Self::Outside(_))
    }
}

/// The executor of a kind; none for kinds that cannot be run yet.
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
