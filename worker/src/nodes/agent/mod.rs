//! The `agent` node: a model that calls tools in rounds. `tidemill-common` builds the messages and reads the replies;
//! this module makes the calls. Each call has a journal entry, so an agent continues after the last recorded call and
//! pays for none twice.

mod by_plugin;
mod function_calling;
mod react;
mod reply;
mod rounds;
mod servers;
mod text_stream;

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::files::Files;
use tidemill_common::graph::Node;
use tidemill_common::ids::{ExecutionId, RunId};
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::agent::parameters::{self, AgentParameters};
use tidemill_common::nodes::agent::{AgentData, Strategy, prompt};
use tidemill_common::nodes::llm::memory;
use tidemill_common::nodes::llm::record::Secrets;
use tidemill_common::nodes::llm::turns;
use tidemill_common::nodes::llm::usage;
use tidemill_common::value::{JsonMap, Segment, Variables};

use crate::attempt::executor::{Flush, PieceSink, ThoughtSink};
use crate::attempt::journal::Journal;
use crate::outside::http::Http;
use crate::outside::providers::Providers;
use crate::outside::tools::Tools;
use by_plugin::Chosen;
use rounds::{Rounds, Unready};

/// Most tokens of history in the prompt (Dify's default if the model states no limit).
const HISTORY_TOKENS_MAX: u64 = 2000;

/// The node's access to the worker.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub providers: &'a Providers,
    pub tools: &'a Tools,
    /// The guarded client.
    pub http: &'a Http,
    pub files: &'a dyn Files,
    /// The run that owns the files.
    pub run: &'a RunId,
    /// Part of the names of its journal entries.
    pub execution: ExecutionId,
    /// The job's journal.
    pub journal: &'a Journal,
    /// Receives pieces of outputs as they arrive.
    pub on_piece: PieceSink<'a>,
    /// Sends the pieces so far. A round's text must come before the lines of the log that follow it.
    pub flush: Flush<'a>,
    /// Tools that need no approval; `None` if no tool needs one.
    pub auto_approved: Option<&'a [Arc<str>]>,
}

/// Runs the node. A failure is part of the result, with the cost until then. All variables the node mentions must be
/// loaded. Dropping the future stops all running calls.
pub async fn run(
    data: &AgentData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
    on_thought: ThoughtSink<'_>,
) -> NodeResult {
    let strategy = match by_plugin::choose(data, means).await {
        Ok(Chosen::Own(strategy)) => strategy,
        Ok(Chosen::Plugin(found)) => {
            return Box::pin(by_plugin::run(&found, data, node, variables, means, on_thought)).await;
        }
        Ok(Chosen::Ended(known)) => return by_plugin::recalled(&known, data, variables, means),
        Err(unready) => return not_ready(NodeResult::default(), unready),
    };
    let given = match parameters::resolve(data, variables) {
        Ok(given) => given,
        Err(failure) => return NodeResult::failed(failure),
    };
    let inputs = given.shown.iter().map(|(name, value)| (name.clone(), Segment::infer(value.clone())));
    let result = NodeResult { inputs: inputs.collect(), ..NodeResult::default() };
    let history = match history(data, variables) {
        Ok(history) => history,
        Err(failure) => return NodeResult { failure: Some(failure), ..result },
    };
    let offered = match servers::ask(&given.servers, means.tools).await {
        Ok(offered) => offered,
        Err(unready) => return not_ready(result, unready),
    };
    let mut rounds = match Rounds::new(&given, &offered, node, means, (data.reasoning, on_thought)).await {
        Ok(rounds) => rounds,
        Err(unready) => return not_ready(result, unready),
    };
    tell_context(&given, means, node);
    let said = node.gives_context.then(|| prompt::opening(&given.instruction, history.clone(), &given.query));
    let outcome = match strategy {
        Strategy::FunctionCalling => function_calling::run(&mut rounds, &given, history).await,
        Strategy::ReAct => react::run(&mut rounds, &given, history).await,
    };
    let metadata = metadata(data, &rounds, node);
    let (usage, wasted) = (rounds.usage(), rounds.wasted());
    match outcome {
        Ok(()) => {
            let outputs = rounds.outputs().await;
            match outputs {
                Ok(mut outputs) => {
                    if let Some(said) = said {
                        let text = outputs.iter().find(|(name, _)| name == "text");
                        let text = text.map(|(_, text)| text.text().into_owned()).unwrap_or_default();
                        let secrets = Secrets::among(node.mentions.clone(), variables);
                        outputs
                            .push((turns::CONTEXT.to_owned(), turns::build_context(&said, &text, &secrets)));
                    }
                    NodeResult { outputs, metadata, usage: Some(usage), ..result }
                }
                Err(failure) => NodeResult { failure: Some(failure), metadata, usage: Some(usage), ..result },
            }
        }
        Err(message) => {
            let result = NodeResult { metadata, usage: Some(usage), wasted, ..result };
            failed(result, "Failed to invoke agent", &message)
        }
    }
}

fn not_ready(result: NodeResult, unready: Unready) -> NodeResult {
    let Unready { message, retryable, retry_after_ms, lacks } = unready;
    let failed = failed(result, "Failed to get agent strategy", &message);
    let failure = failed.failure.map(|failure| NodeFailure { retryable, retry_after_ms, lacks, ..failure });
    NodeResult { failure, ..failed }
}

/// Dify gives such failures no error type.
fn failed(result: NodeResult, what: &str, why: &str) -> NodeResult {
    NodeResult { failure: Some(NodeFailure::new("", format!("{what}: {why}"))), ..result }
}

/// The conversation so far, limited to the memory window. A missing conversation is empty (Dify).
fn history(
    data: &AgentData,
    variables: &dyn Variables,
) -> Result<Vec<tidemill_common::nodes::llm::message::Message>, NodeFailure> {
    match data.memory.as_ref().and_then(|memory| memory.size).filter(|size| *size > 0) {
        Some(size) => memory::messages(variables, Some(size), HISTORY_TOKENS_MAX),
        None => Ok(Vec::new()),
    }
}

fn tell_context(given: &AgentParameters, means: Means<'_>, node: &Node) {
    if given.context.is_empty() {
        return;
    }
    let mut told = JsonMap::new();
    told.insert("node_id".into(), json!(node.id.as_str()));
    told.insert("retriever_resources".into(), Json::Array(given.context.clone()));
    told.insert("context".into(), json!(""));
    means.journal.emit(vec![(StepEvent::RetrieverResource, told)]);
}

fn metadata(data: &AgentData, rounds: &Rounds<'_>, node: &Node) -> JsonMap {
    let mut metadata = usage::metadata(&rounds.usage());
    metadata.insert("tool_info".into(), json!({"icon": null, "agent_strategy": data.strategy_name()}));
    metadata.insert("agent_log".into(), Json::Array(rounds.logs.to_json(node.id.as_str())));
    metadata
}

#[cfg(test)]
mod tests;
