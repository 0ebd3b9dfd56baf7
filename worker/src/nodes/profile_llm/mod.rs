//! `llm` in its profile form: the profile's model is asked the node's prompt, and tools that it calls are called, all of
//! it in steps of the job: whoever takes the job up again goes on behind the last one that was recorded.
//!
//! `talk` holds the rounds, `kit` the tools and `approval` the leave to call them, `conversation` what was said before,
//! `reply` and `called` what came of a question and of a call, `outcome` the history, `failed` what failures are called.
//! Where a person stands in for the model, `relay` asks them.

mod called;
mod conversation;
mod failed;
mod kit;
mod outcome;
mod relay;
mod reply;
mod talk;

use serde_json::{Value as Json, json};
use tidemill_common::graph::Node;
use tidemill_common::ids::ExecutionId;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::llm::params;
use tidemill_common::nodes::llm::profile::ProfileData;
use tidemill_common::nodes::llm::record::Secrets;
use tidemill_common::objects;
use tidemill_common::value::{Segment, Variables};

use crate::executor::ThoughtSink;
use crate::providers::profile::{NamedModel, Stands};
use crate::providers::{DeltaSink, Providers};
use failed::Failed;
use talk::Talk;

pub use kit::Reach;

/// What the node uses of the worker.
pub struct Means<'a> {
    /// Models.
    pub providers: &'a Providers,
    /// What its tools reach, and the steps of the job.
    pub reach: Reach<'a>,
    /// The execution: pauses have their names in it.
    pub execution: ExecutionId,
    /// Longest prompt, in bytes.
    pub prompt_bytes_max: usize,
    /// Takes what the model says, piece by piece.
    pub on_delta: DeltaSink<'a>,
    /// Takes what it thinks, where the node wants that apart.
    pub on_thought: ThoughtSink<'a>,
}

/// Runs the node. A failure is part of the result; so is what was spent until then. Every variable that the node mentions
/// must be at hand. Dropping the future ends whatever is under way.
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
        Some(conversation) => objects::visible(variables, &conversation.id),
        None => Vec::new(),
    };
    let Stands::Model(model) = profile.stands else {
        let (steps, execution, profile) = (means.reach.steps, means.execution, profile.profile);
        let person = relay::Person { data, node, profile, secrets, steps, execution, before };
        return person.answers(result, &prompt).await;
    };
    let params = params::resolve(&data.parameters, variables);
    let mut talk = Talk::new(data, node, (&profile.profile, model), (params, secrets, before), means);
    let ended = talk.run(&prompt).await;
    talk.into_result(result, &prompt, ended)
}

/// Who is asked, for the record.
fn note(result: &mut NodeResult, profile: &NamedModel) {
    for (key, value) in [("profile_id", json!(profile.id)), ("profile_version", json!(profile.version))] {
        result.process_data.insert(key.into(), value);
    }
}

/// The prompt with its variables filled in.
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
