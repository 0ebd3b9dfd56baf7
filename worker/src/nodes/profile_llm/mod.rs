//! The `llm` node in its profile form: calls the profile's model with the node's prompt, and runs its tool calls. Each
//! call has a journal entry, so a later worker continues after the last recorded one.
//!
//! `rounds` runs the rounds, `tool_set` the tools, and `approval` asks for approvals. `conversation` converts messages,
//! `reply` and `tool_result` are the results of model and tool calls, `outcome` writes the history, and `failed` defines the
//! failures. `human_relay` asks a person instead of a model.

mod conversation;
mod failed;
mod human_relay;
mod outcome;
mod reply;
mod rounds;
mod tool_result;
mod tool_set;

use serde_json::{Value as Json, json};
use tidemill_common::graph::Node;
use tidemill_common::ids::ExecutionId;
use tidemill_common::messages;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::llm::params;
use tidemill_common::nodes::llm::profile::ProfileData;
use tidemill_common::nodes::llm::record::Secrets;
use tidemill_common::value::{Segment, Variables};

use crate::attempt::executor::ThoughtSink;
use crate::outside::providers::profile::{NamedModel, Responder};
use crate::outside::providers::{DeltaSink, Providers};
use failed::Failed;
use rounds::Rounds;

pub use tool_set::ToolAccess;

/// The node's access to the worker.
pub struct Means<'a> {
    pub providers: &'a Providers,
    /// The environment of its tools, and the job's journal.
    pub tool_access: ToolAccess<'a>,
    /// Part of the ids of pauses.
    pub execution: ExecutionId,
    /// Longest prompt, in bytes.
    pub prompt_bytes_max: usize,
    /// Receives the model's text, piece by piece.
    pub on_delta: DeltaSink<'a>,
    /// Receives the reasoning, if the node wants it separately.
    pub on_thought: ThoughtSink<'a>,
}

/// Runs the node. A failure is part of the result, with the cost until then. All variables the node mentions must be
/// loaded. Dropping the future stops all running calls.
pub async fn run<'a>(
    data: &'a ProfileData,
    node: &'a Node,
    variables: &'a (dyn Variables + Send + Sync),
    means: Means<'a>,
) -> NodeResult {
    let mut result = NodeResult::default();
    let model = data.model.as_deref().unwrap_or_default();
    let profile = match means.providers.profile_with(&data.profile_id, model).await {
        Ok(profile) => profile,
        Err(error) => return failed(result, &Failed::of_profile(error)),
    };
    note(&mut result, &profile);
    let secrets = Secrets::among(node.mentions.clone(), variables);
    let prompt = match prompt(data, variables, means.prompt_bytes_max) {
        Ok(prompt) => prompt,
        Err(wrong) => return failed(result, &wrong),
    };
    result.inputs.push(("prompt".into(), Segment::string(secrets.masked(&prompt))));
    let (version, profile_id) = (profile.version, profile.id.clone());
    tracing::debug!(node = %node.id, profile = %profile_id, version, "asking the model of a profile");
    let before = match &data.conversation {
        Some(conversation) => messages::visible(variables, &conversation.id),
        None => Vec::new(),
    };
    let Responder::Model(model) = profile.responder else {
        let (journal, execution, profile) = (means.tool_access.journal, means.execution, profile.profile);
        let person = human_relay::HumanRelay { data, node, profile, secrets, journal, execution, before };
        return person.answers(result, &prompt).await;
    };
    let params = params::resolve(&data.parameters, variables);
    let mut rounds = Rounds::new(data, node, (&profile.profile, model), (params, secrets, before), means);
    let ended = rounds.run(&prompt).await;
    rounds.into_result(result, &prompt, ended)
}

/// Adds the profile to the record.
fn note(result: &mut NodeResult, profile: &NamedModel) {
    for (key, value) in [("profile_id", json!(profile.id)), ("profile_version", json!(profile.version))] {
        result.process_data.insert(key.into(), value);
    }
}

/// Renders the prompt.
fn prompt(data: &ProfileData, variables: &dyn Variables, bytes_max: usize) -> Result<String, Failed> {
    let prompt = data.prompt.render(&data.names, variables);
    let prompt = prompt.map_err(|error| Failed::validation(error.to_string()))?;
    if prompt.len() > bytes_max {
        let bytes = prompt.len();
        let message =
            format!("the prompt has {bytes} bytes, and may have {bytes_max} (worker.prompt_bytes_max)");
        return Err(Failed::validation(message));
    }
    Ok(prompt)
}

fn failed(mut result: NodeResult, failed: &Failed) -> NodeResult {
    result.process_data.insert("error".into(), failed.to_json());
    NodeResult { failure: Some(failed.failure.clone()), ..result }
}

/// A list as an output.
fn list(items: Vec<Json>) -> Segment {
    Segment::infer(Json::Array(items))
}
