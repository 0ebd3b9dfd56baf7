//! The `agent` node: rounds of a model that calls tools. What is said and read is made in `tidemill-common`; here the
//! rounds are made, each of their calls a step of the job: an agent that is killed between any two of them goes on behind
//! the last one that was recorded, and asks and pays for none of them again.

mod function_calling;
mod react;
mod rounds;
mod said;
mod spoken;

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::files::Files;
use tidemill_common::graph::Node;
use tidemill_common::ids::{ExecutionId, RunId};
use tidemill_common::machine::events::StepEvent;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::agent::parameters::{self, Given};
use tidemill_common::nodes::agent::{AgentData, Strategy, prompt};
use tidemill_common::nodes::llm::memory;
use tidemill_common::nodes::llm::record::Secrets;
use tidemill_common::nodes::llm::turns;
use tidemill_common::nodes::llm::usage;
use tidemill_common::value::{JsonMap, Segment, Variables};

use crate::executor::{PieceSink, ThoughtSink};
use crate::http::Http;
use crate::providers::Providers;
use crate::steps::Steps;
use crate::tools::Tools;
use rounds::Rounds;

/// Tokens of history that an agent is told at most (Dify's default where the model does not say more).
const HISTORY_TOKENS_MAX: u64 = 2000;

/// What the node uses of the worker.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// Models.
    pub providers: &'a Providers,
    /// The ways to tools.
    pub tools: &'a Tools,
    /// The guarded way out.
    pub http: &'a Http,
    /// Where files lie.
    pub files: &'a dyn Files,
    /// Whose files they are.
    pub run: &'a RunId,
    /// The execution: its steps have their names in it.
    pub execution: ExecutionId,
    /// What must not be done twice.
    pub steps: &'a Steps,
    /// Takes pieces of outputs as they come.
    pub on_piece: PieceSink<'a>,
    /// Tools that may be called without asking; none: all of them.
    pub auto_approved: Option<&'a [Arc<str>]>,
}

/// Runs the node. A failure is part of the result; so is what was spent until then. Every variable that the node mentions
/// must be at hand. Dropping the future ends whatever is under way.
pub async fn run(
    data: &AgentData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
    on_thought: ThoughtSink<'_>,
) -> NodeResult {
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
    let mut rounds = match Rounds::new(&given, node, means, (data.reasoning, on_thought)).await {
        Ok(rounds) => rounds,
        Err(message) => return failed(result, "Failed to get agent strategy", &message),
    };
    tell_context(&given, means, node);
    let said = node.gives_context.then(|| prompt::opening(&given.instruction, history.clone(), &given.query));
    let outcome = match data.strategy {
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

/// Dify gives such failures no class.
fn failed(result: NodeResult, what: &str, why: &str) -> NodeResult {
    NodeResult { failure: Some(NodeFailure::new("", format!("{what}: {why}"))), ..result }
}

/// The conversation so far; the window holds however it is switched, and a missing one is none (Dify).
fn history(
    data: &AgentData,
    variables: &dyn Variables,
) -> Result<Vec<tidemill_common::nodes::llm::message::Message>, NodeFailure> {
    match data.memory.as_ref().and_then(|memory| memory.size).filter(|size| *size > 0) {
        Some(size) => memory::messages(variables, Some(size), HISTORY_TOKENS_MAX),
        None => Ok(Vec::new()),
    }
}

fn tell_context(given: &Given, means: Means<'_>, node: &Node) {
    if given.context.is_empty() {
        return;
    }
    let mut told = JsonMap::new();
    told.insert("node_id".into(), json!(node.id.as_str()));
    told.insert("retriever_resources".into(), Json::Array(given.context.clone()));
    told.insert("context".into(), json!(""));
    means.steps.tell(vec![(StepEvent::RetrieverResource, told)]);
}

fn metadata(data: &AgentData, rounds: &Rounds<'_>, node: &Node) -> JsonMap {
    let mut metadata = usage::metadata(&rounds.usage());
    metadata.insert("tool_info".into(), json!({"icon": null, "agent_strategy": data.strategy.name()}));
    metadata.insert("agent_log".into(), Json::Array(rounds.logs.shown(node.id.as_str())));
    metadata
}

#[cfg(test)]
mod tests;
