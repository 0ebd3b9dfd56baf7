//! Node executors of a host: a program that contains a worker or the engine, in Rust or through the Python package. The
//! worker asks them before its own executors; lease, heartbeat, retries, chunks and hand-back stay the worker's.
//!
//! [`registry`] is the table of executors, [`call`] is what an executor is given. [`dispatch`] runs one attempt: [`given`]
//! and [`configs`] make its input, [`outcome`] its result, [`listen`] follows the executor's stream within its
//! [`bounds`], [`pauses`] asks people. [`calls`] registers the Calls of the host.

mod bounds;
pub mod call;
pub(crate) mod calls;
pub(crate) mod configs;
pub(crate) mod dispatch;
mod given;
pub(crate) mod listen;
mod outcome;
pub(crate) mod pauses;
pub mod registry;
#[cfg(test)]
mod tests;

use futures_util::stream::BoxStream;
use serde_json::Value as Json;
use tidemill_common::value::JsonMap;

pub use self::call::{NodeCall, NodeMessage};
pub use self::registry::{Hosts, HostsError};

/// Executes nodes. One executor may run many nodes at once.
///
/// A node is executed at least once: when its worker dies, or a pause command takes its job back, it is executed again,
/// with the same [`NodeCall::execution`]. Dropping the stream cancels the execution.
pub trait NodeExecutor: Send + Sync + 'static {
    /// Starts one attempt. The stream's last event is [`NodeEvent::Succeeded`], [`NodeEvent::Failed`] or
    /// [`NodeEvent::PauseRequested`]; a stream that ends without one has failed.
    fn execute(&self, call: NodeCall) -> BoxStream<'static, NodeEvent>;
}

/// A message of an executor about the attempt that it runs.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeEvent {
    /// It has begun. Not required.
    Started,
    /// A piece of an output that streams. An output that the outcome does not have is made of its pieces. Those of
    /// `reasoning_content` of an `llm` node are its reasoning, which has events of its own.
    Chunk {
        /// The name of the output.
        output: String,
        /// The piece.
        text: String,
        /// No other piece of this output follows. Not required.
        is_final: bool,
    },
    /// The node has ended.
    Succeeded(NodeOutcome),
    /// The attempt has failed. Retries and error strategies of the node apply.
    Failed {
        /// The class, which error branches and `error_type` show, for example `ValueError`.
        class: String,
        /// The text.
        message: String,
    },
    /// The run pauses until a person answers. Then the node is executed again, with [`NodeCall::answer`].
    PauseRequested {
        /// Shown to the person who answers.
        message: String,
        /// A JSON schema of the answer; any answer fits without one.
        schema: Option<Json>,
    },
}

/// The result of a node that has succeeded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeOutcome {
    /// The outputs, in order. A file is an object with `dify_model_identity`, as in variables.
    pub outputs: JsonMap,
    /// Details for the record of the run.
    pub process_data: JsonMap,
    /// Tokens, prices and the like, for the record; the keys are those of Dify (`total_tokens`, …).
    pub metadata: JsonMap,
    /// The tokens that count for the run and its budget, `(prompt, completion)`. Prices in [`Self::metadata`]
    /// (`total_price`, `currency`) count with them.
    pub tokens: Option<(u64, u64)>,
    /// The handle of the edges that the run follows; `source` if it is absent. Only branches have other handles.
    pub handle: Option<String>,
}
