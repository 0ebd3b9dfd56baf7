//! Follows the stream of an executor to its last event. A panic of the executor is a failure of the node.

use std::panic::AssertUnwindSafe;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value as Json;
use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::telemetry;

use crate::attempt::executor::PieceSink;
use crate::host::{NodeCall, NodeEvent, NodeExecutor, NodeOutcome};
use crate::metrics;

/// The class of a failure that the executor did not name.
const NO_RESULT: &str = "NoResultError";

/// The last event of an executor.
pub(crate) enum End {
    Succeeded(NodeOutcome),
    Failed(NodeFailure),
    Asks { message: String, schema: Option<Json> },
}

/// The texts that an executor has streamed, by output.
pub(crate) struct Said<'a> {
    texts: Vec<(String, String)>,
    bytes: usize,
    /// The limit, with the setting that has it.
    bytes_max: (usize, &'static str),
    out: PieceSink<'a>,
}

impl<'a> Said<'a> {
    /// Sends pieces to `out`. All of them together have at most `bytes_max` bytes, a limit with its setting.
    pub(crate) fn new(bytes_max: (usize, &'static str), out: PieceSink<'a>) -> Self {
        Self { texts: Vec::new(), bytes: 0, bytes_max, out }
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// The texts are too long.
    pub(crate) fn take(&mut self, output: &str, text: &str) -> Result<(), NodeFailure> {
        let known = self.texts.iter().position(|(name, _)| name == output);
        self.bytes += text.len() + if known.is_none() { output.len() } else { 0 };
        let (bytes_max, setting) = self.bytes_max;
        if self.bytes > bytes_max {
            let message =
                format!("the executor has streamed {} bytes, more than {bytes_max} ({setting})", self.bytes);
            return Err(NodeFailure::new(EngineErrorType::ValueTooLarge.name(), message));
        }
        match known {
            Some(at) => self.texts[at].1.push_str(text),
            None => self.texts.push((output.to_owned(), text.to_owned())),
        }
        (self.out)(output, text);
        Ok(())
    }

    /// The texts so far, by output.
    pub(crate) fn texts(&self) -> &[(String, String)] {
        &self.texts
    }

    /// Sends the end of a text that the outcome has in full. A text that differs from the pieces stays as it is:
    /// clients have seen the pieces.
    pub(crate) fn complete(&self, output: &str, whole: &str) {
        let streamed = self.texts.iter().find(|(name, _)| name == output);
        if let Some(rest) = streamed.and_then(|(_, text)| whole.strip_prefix(text.as_str()))
            && !rest.is_empty()
        {
            (self.out)(output, rest);
        }
    }
}

/// Runs an attempt to its last event.
pub(crate) async fn follow(executor: &dyn NodeExecutor, call: NodeCall, said: &mut Said<'_>) -> End {
    let node = call.node.clone();
    let begun = std::panic::catch_unwind(AssertUnwindSafe(|| executor.execute(call)));
    let mut events: BoxStream<'static, NodeEvent> = match begun {
        Ok(events) => events,
        Err(panic) => return End::Failed(panicked(&node, &*panic)),
    };
    loop {
        let event = match AssertUnwindSafe(events.next()).catch_unwind().await {
            Ok(event) => event,
            Err(panic) => return End::Failed(panicked(&node, &*panic)),
        };
        match event {
            Some(NodeEvent::Started) => {}
            Some(NodeEvent::Chunk { output, text, .. }) => {
                if let Err(failure) = said.take(&output, &text) {
                    return End::Failed(failure);
                }
            }
            Some(NodeEvent::Succeeded(outcome)) => return End::Succeeded(outcome),
            Some(NodeEvent::Failed { class, message }) => {
                return End::Failed(NodeFailure::passing(class, message));
            }
            Some(NodeEvent::PauseRequested { message, schema }) => return End::Asks { message, schema },
            None => {
                let message = format!("the executor of node {node} has ended without a result");
                return End::Failed(NodeFailure::passing(NO_RESULT, message));
            }
        }
    }
}

fn panicked(node: &str, panic: &(dyn std::any::Any + Send)) -> NodeFailure {
    metrics::PANICS.count();
    let said = telemetry::panic_message(panic);
    let message = format!("the executor of node {node} panicked: {said}");
    NodeFailure::passing(EngineErrorType::WorkerPanic.name(), message)
}
