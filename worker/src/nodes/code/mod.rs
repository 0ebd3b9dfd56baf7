//! The `code` node: takes inputs from variables, runs the code in a sandbox, and reads outputs from what it printed.
//!
//! The settings choose the sandbox: a dify-sandbox service ([`remote`]) or the built-in one (`tidemill-sandbox`).

mod program;
mod remote;

use std::sync::Arc;

use tidemill_common::config::CodeConfig;
use tidemill_common::failure::NodeFailure;
use tidemill_common::http::Http;
use tidemill_common::need::Need;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::code::{CodeData, CodeLanguage, CodeLimits, check, inputs_json, result};
use tidemill_common::value::{Segment, Variables};
use tidemill_sandbox::helper::Host;
use tidemill_sandbox::{BuiltIn, CodeRunner, Owner, Program, State};

/// Dify's error type of all failures while code runs.
const EXECUTION_ERROR: &str = "CodeExecutionError";

/// The sandbox of a worker, and the limits of its results.
pub struct CodeNodes {
    runner: Box<dyn CodeRunner>,
    limits: CodeLimits,
}

impl CodeNodes {
    /// Creates the sandbox from the settings; code calls servers with `http` if they allow it. Nothing is started before it is needed; a sandbox that cannot run reports
    /// that then.
    pub fn new(config: &CodeConfig, http: Arc<Http>) -> Self {
        let runner: Box<dyn CodeRunner> = if config.endpoint.is_empty() {
            Box::new(BuiltIn::with_network(config, Host::named(&config.helper), Some(http)))
        } else {
            Box::new(remote::Remote::new(config))
        };
        Self { runner, limits: config.into() }
    }

    /// Uses the caller's sandbox.
    pub fn with(runner: Box<dyn CodeRunner>, limits: CodeLimits) -> Self {
        Self { runner, limits }
    }

    /// The state, for operators.
    pub fn state(&self) -> State {
        self.runner.state()
    }

    /// Tests whether code can run, and returns the state for operators.
    ///
    /// # Errors
    /// The reason code nodes fail here, with the same text as the node's failure.
    pub async fn ready(&self) -> Result<String, String> {
        self.runner.ready().await.map_err(|error| error.to_string())
    }

    /// Tests whether code of this language seems to run here, without starting anything.
    ///
    /// # Errors
    /// The reason why it does not.
    pub(crate) fn seems_able(&self, language: CodeLanguage) -> Result<(), String> {
        self.runner.seems_able(language)
    }

    /// What is missing here, after a program has failed: then a failure is no fault of the program.
    async fn lacks(&self, language: CodeLanguage) -> Option<Box<Need>> {
        let reason = self.runner.able(language).await.err()?;
        tracing::debug!(reason, "code cannot run here");
        Some(Box::new(Need::Code { language: language.name().into() }))
    }

    /// Runs a node. A failure is part of the result, with the inputs unless it escaped the node (as in Dify). Dropping
    /// the future stops the code. With `texts_become_numbers` a text such as `1e+3` becomes a number, whatever its
    /// declared type, as on Dify.
    pub async fn run(
        &self,
        data: &CodeData,
        variables: &(dyn Variables + Send + Sync),
        owner: Owner<'_>,
        texts_become_numbers: bool,
    ) -> NodeResult {
        let inputs = match data.inputs(variables) {
            Ok(inputs) => inputs,
            Err(failure) => return NodeResult::failed(failure),
        };
        let text = inputs_json(&inputs);
        let program = Program { language: data.language, code: &data.code, inputs: &text, owner };
        let printed = match self.runner.run(program).await {
            Ok(printed) => printed,
            Err(error) => {
                let failure = NodeFailure::new(EXECUTION_ERROR, error.to_string());
                let lacks = self.lacks(data.language).await;
                return failed(inputs, NodeFailure { lacks, ..failure });
            }
        };
        let checked = result::read(&printed, texts_become_numbers)
            .and_then(|returned| check::outputs(returned, &data.outputs, &self.limits));
        match checked {
            Ok(outputs) => {
                let outputs = outputs.into_iter().map(|(name, value)| (name, Segment::infer(value)));
                NodeResult { inputs, ..NodeResult::outputs(outputs.collect()) }
            }
            Err(failure) => failed(inputs, failure),
        }
    }
}

/// The need that a result shows to be met here: code has run, also if it failed itself. `None` if the result does not
/// show that. An exception that escaped may be older than the code's start.
pub(crate) fn met(data: &CodeData, result: &NodeResult) -> Option<Need> {
    let has_run = result.failure.as_ref().is_none_or(|failure| {
        failure.lacks.is_none() && failure.error_type != NodeFailure::escaped("").error_type
    });
    has_run.then(|| Need::Code { language: data.language.name().into() })
}

fn failed(inputs: Vec<(String, Segment)>, failure: NodeFailure) -> NodeResult {
    // An exception that escapes a node loses the record of its inputs.
    let escaped = failure.error_type == NodeFailure::escaped("").error_type;
    let inputs = if escaped { Vec::new() } else { inputs };
    NodeResult { inputs, ..NodeResult::failed(failure) }
}
