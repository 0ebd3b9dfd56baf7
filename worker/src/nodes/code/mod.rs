//! The `code` node: inputs out of variables, a sandbox that runs the code, outputs out of what it printed.
//!
//! Which sandbox is a setting: a dify-sandbox ([`remote`]) or the one that is built in (`tidemill-sandbox`).

mod program;
mod remote;

use tidemill_common::config::CodeConfig;
use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::code::{CodeData, CodeLimits, check, inputs_json, result};
use tidemill_common::value::{Segment, Variables};
use tidemill_sandbox::helper::Host;
use tidemill_sandbox::{BuiltIn, CodeRunner, Program, State};

/// Dify's class of everything that goes wrong while code runs.
const EXECUTION_ERROR: &str = "CodeExecutionError";

/// What code nodes need of a worker: where code runs, and how large its results may be.
pub struct CodeNodes {
    runner: Box<dyn CodeRunner>,
    limits: CodeLimits,
}

impl CodeNodes {
    /// By the settings. Nothing is started before it is needed; a sandbox that cannot run code says so then.
    pub fn new(config: &CodeConfig) -> Self {
        let runner: Box<dyn CodeRunner> = if config.endpoint.is_empty() {
            Box::new(BuiltIn::new(config, Host::this_program()))
        } else {
            Box::new(remote::Remote::new(config))
        };
        Self { runner, limits: config.into() }
    }

    /// With a sandbox of the caller's.
    pub fn with(runner: Box<dyn CodeRunner>, limits: CodeLimits) -> Self {
        Self { runner, limits }
    }

    /// What an operator should know of it.
    pub fn state(&self) -> State {
        self.runner.state()
    }

    /// Tries what code needs; answers what an operator should know.
    ///
    /// # Errors
    /// Why code nodes fail here, as they would say it.
    pub async fn ready(&self) -> Result<String, String> {
        self.runner.ready().await.map_err(|error| error.to_string())
    }

    /// Runs a node. A failure is part of the result, with the inputs unless it escaped the node (as on Dify). Dropping the
    /// future ends the code.
    pub async fn run(&self, data: &CodeData, variables: &(dyn Variables + Send + Sync)) -> NodeResult {
        let inputs = match data.inputs(variables) {
            Ok(inputs) => inputs,
            Err(failure) => return NodeResult::failed(failure),
        };
        let text = inputs_json(&inputs);
        let program = Program { language: data.language, code: &data.code, inputs: &text };
        let printed = match self.runner.run(program).await {
            Ok(printed) => printed,
            Err(error) => return failed(inputs, NodeFailure::new(EXECUTION_ERROR, error.to_string())),
        };
        let checked =
            result::read(&printed).and_then(|returned| check::outputs(returned, &data.outputs, &self.limits));
        match checked {
            Ok(outputs) => {
                let outputs = outputs.into_iter().map(|(name, value)| (name, Segment::infer(value)));
                NodeResult { inputs, ..NodeResult::outputs(outputs.collect()) }
            }
            Err(failure) => failed(inputs, failure),
        }
    }
}

fn failed(inputs: Vec<(String, Segment)>, failure: NodeFailure) -> NodeResult {
    // An exception that escapes a node takes the record of its inputs with it.
    let escaped = failure.error_type == NodeFailure::escaped("").error_type;
    let inputs = if escaped { Vec::new() } else { inputs };
    NodeResult { inputs, ..NodeResult::failed(failure) }
}
