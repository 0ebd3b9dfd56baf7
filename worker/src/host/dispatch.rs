//! Runs one attempt of a node that has an executor of the host: makes its input, follows its stream, and turns its last
//! event into the node's result. A pause parks the job; when it is answered, the node is executed again.

use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::graph::{GraphHash, Node};
use tidemill_common::nodes::{NodeKind, NodeResult};
use tidemill_common::value::JsonMap;

use crate::attempt::execute::Doing;
use crate::attempt::journal::Journal;
use crate::attempt::variables::JobVariables;
use crate::host::configs::{Configs, NodeConfigs};
use crate::host::given::Given;
use crate::host::listen::{End, Said, follow};
use crate::host::pauses::Questions;
use crate::host::{NodeCall, NodeExecutor, outcome};

/// The beginning of the journal keys of a node's questions.
const KEY: &str = "host";
/// The output of an `llm` node that has the model's reasoning.
const REASONING: &str = "reasoning_content";

/// Runs one attempt.
pub(crate) async fn run(
    doing: Doing<'_>,
    executor: &dyn NodeExecutor,
    node: &Node,
    variables: &JobVariables,
) -> NodeResult {
    let own;
    let journal = match doing.journal {
        Some(journal) => journal,
        None => {
            own = Journal::new(doing.handle, doing.name.execution).hiding(variables.secrets());
            &own
        }
    };
    let mut result = match attempt(doing, executor, node, variables, journal).await {
        Ok(result) | Err(result) => *result,
    };
    result.warnings.extend(journal.take_warnings());
    result
}

async fn attempt(
    doing: Doing<'_>,
    executor: &dyn NodeExecutor,
    node: &Node,
    variables: &JobVariables,
    journal: &Journal,
) -> Result<Box<NodeResult>, Box<NodeResult>> {
    let configs = configs(doing, variables).await.map_err(|failure| Box::new(NodeResult::failed(failure)))?;
    let nothing = JsonMap::new();
    let config = configs.get(node.id.as_str()).unwrap_or(&nothing);
    let mut given = Given::of(node, config, variables, doing.options)?;
    let questions = Questions { journal, node, options: doing.options, key: KEY };
    let mut answers = questions.answered().await;
    let on_piece = &|output: &str, text: &str| stream(doing, node, output, text);
    let bytes_max = (doing.handle.core.settings.value_bytes_max, "run.value_bytes_max");
    loop {
        let call = call(doing, node, config, &given, &answers);
        let mut said = Said::new(bytes_max, on_piece);
        let (message, schema) = match follow(executor, call, &mut said).await {
            End::Succeeded(done) => {
                if said.texts().iter().any(|(output, _)| is_thought(node, output)) {
                    doing.progress.lock().think("", true);
                }
                let (result, asked) = (std::mem::take(&mut given.result), given.asked.take());
                return Ok(Box::new(outcome::result(node, result, done, &said, asked)));
            }
            End::Failed(failure) => {
                let result = std::mem::take(&mut given.result);
                return Err(Box::new(NodeResult { failure: Some(failure), ..result }));
            }
            End::Asks { message, schema } => (message, schema),
        };
        let answer = questions.ask(answers.len(), message, schema).await;
        answers.push(answer.map_err(|failure| Box::new(NodeResult::failed(failure)))?);
    }
}

/// Sends a piece of an output.
fn stream(doing: Doing<'_>, node: &Node, output: &str, text: &str) {
    let mut progress = doing.progress.lock();
    if is_thought(node, output) {
        progress.think(text, false);
    } else {
        progress.push_to(output, text);
    }
}

/// True for the reasoning of an `llm` node. It is no text of an answer: it has events of its own, as if the worker had
/// asked the model.
fn is_thought(node: &Node, output: &str) -> bool {
    node.kind == NodeKind::Llm && output == REASONING
}

/// The data of the workflow's nodes, from memory or from the stored document.
async fn configs(doing: Doing<'_>, variables: &JobVariables) -> Result<Arc<Configs>, NodeFailure> {
    let (core, hash) = (&doing.handle.core, &variables.graph().hash);
    match core.configs.find(hash) {
        Some(known) => Ok(known),
        None => {
            let text = core.workflows.document(doing.handle.place.shard, hash).await?;
            read(core.configs.clone(), hash.clone(), text).await
        }
    }
}

/// Reads a document on a thread of its own, because it may be large.
async fn read(
    configs: Arc<NodeConfigs>,
    hash: GraphHash,
    text: Arc<str>,
) -> Result<Arc<Configs>, NodeFailure> {
    let read = tokio::task::spawn_blocking(move || configs.read(&hash, &text)).await;
    read.unwrap_or_else(|error| {
        let message = format!("the data of the workflow's nodes could not be read: {error}");
        Err(NodeFailure::new(EngineErrorType::Engine.name(), message))
    })
}

fn call(doing: Doing<'_>, node: &Node, config: &JsonMap, given: &Given, answers: &[Json]) -> NodeCall {
    NodeCall {
        run: doing.name.run.to_string(),
        execution: doing.name.execution.to_string(),
        attempt: doing.name.number,
        app: doing.handle.app.as_deref().map(str::to_owned),
        node: node.id.as_str().to_owned(),
        node_type: node.kind.wire().to_owned(),
        title: node.title.clone(),
        config: config.clone(),
        inputs: given.inputs.clone(),
        messages: given.messages.clone(),
        answer: answers.last().cloned(),
        answers: answers.to_vec(),
        values: given.values.clone(),
    }
}
