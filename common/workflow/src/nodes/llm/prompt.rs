//! Builds the request to a model from configuration and variables: messages, parameters, and the record of the inputs.
//!
//! The order of steps is Dify's, since the workflow sees the first failure.

use serde_json::{Value as Json, json};

use super::context::{self, Context};
use super::fill::{Fill, Filled};
use super::message::{Message, ModelFacts};
use super::record::{self, Inputs, Secrets};
use super::{LlmData, ModelMode, files, params, structured, tokens};
use crate::nodes::evaluate::UndefinedNames;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::{Segment, SegmentType, Variables};

/// The request to a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prompt {
    /// The conversation, oldest first; at least one message.
    pub messages: Vec<Message>,
    /// Parameters of the call, and texts that end the reply.
    pub params: params::Params,
    /// Texts that the record masks.
    pub secrets: Secrets,
    /// The context in the prompt. `None` when context is off or its variable is absent.
    pub context: Option<Context>,
    /// Files that the model is not known to accept.
    pub files_left_out: usize,
}

impl Prompt {
    /// `process_data.prompts`; see [`record::prompts`].
    pub fn record(&self, mode: ModelMode) -> Json {
        record::prompts(&self.messages, mode, &self.secrets)
    }
}

/// Builds the prompt. All variables that the node mentions must be loaded; a blob counts as missing. `inputs` is filled
/// as far as the work gets, also on failure.
///
/// # Errors
/// A failure with Dify's class and text.
pub fn assemble(
    data: &LlmData,
    variables: &dyn Variables,
    undefined: UndefinedNames,
    facts: &ModelFacts,
    inputs: &mut Inputs,
) -> Result<Prompt, NodeFailure> {
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    let secrets = Secrets::among(mentions, variables);
    let assembled = assemble_openly(data, variables, undefined, facts, inputs);
    secrets.mask(inputs);
    assembled.map(|prompt| Prompt { secrets, ..prompt })
}

fn assemble_openly(
    data: &LlmData,
    variables: &dyn Variables,
    undefined: UndefinedNames,
    facts: &ModelFacts,
    inputs: &mut Inputs,
) -> Result<Prompt, NodeFailure> {
    record::references(data, variables, inputs)?;
    record::jinja_variables(data, variables, inputs)?;
    let vision = files::of_vision(data.vision.as_ref(), variables)?;
    if !vision.is_empty() {
        record::set(inputs, "#files#", Segment::new(SegmentType::ArrayFile, json!(vision)));
    }
    let context = data.context.as_ref().map(|selector| context::read(selector, variables)).transpose()?;
    let text = context.as_ref().map(|context| context.text.as_str()).unwrap_or_default();
    if !text.is_empty() {
        record::set(inputs, "#context#", Segment::string(text));
    }
    let params = params::resolve(&data.model.completion_params, variables);
    if data.structured_output.is_some() {
        structured::check_capability(&data.model, facts)?;
    }
    record::set(inputs, "model_provider", Segment::string(&data.model.provider));
    record::set(inputs, "model_name", Segment::string(&data.model.name));
    // Dify compares the history with the whole window; the prompt itself is not counted here.
    let history_max = tokens::rest(facts, &params, 0);
    let fill = Fill {
        variables,
        undefined,
        context: text,
        jinja: &data.jinja_variables,
        memory: data.memory.as_ref().map(|memory| (memory, history_max)),
        vision: &vision,
        detail: &data.detail,
        facts,
        one_text: data.model.mode == ModelMode::Completion,
    };
    let Filled { messages, files_left_out } = fill.messages(&data.prompt)?;
    Ok(Prompt { messages, params, secrets: Secrets::default(), context, files_left_out })
}
