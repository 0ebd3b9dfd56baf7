//! Makes what an executor gets from the node's configuration and the values of its job: prompts, parameters and variables
//! are filled in by the same code as for the worker's own executors.

use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::messages::Message as ListedMessage;
use tidemill_common::nodes::llm::LlmData;
use tidemill_common::nodes::llm::conversation::Conversation;
use tidemill_common::nodes::llm::message::{MediaKind, Message, ModelFacts};
use tidemill_common::nodes::llm::prompt::{self, Prompt};
use tidemill_common::nodes::step::{Secrets, params};
use tidemill_common::nodes::tool::{KnownParameters, ToolData, parameters};
use tidemill_common::nodes::{NodeData, NodeResult};
use tidemill_common::value::{JsonMap, Lookup, Segment, Variables};

use crate::attempt::variables::JobVariables;
use crate::host::call::{NodeMessage, NodeValues};
use crate::outside::calls::prepare::made;
use crate::outside::tools::{Stage, ToolError};

/// The values of one attempt.
pub(super) struct Given {
    pub(super) values: Arc<NodeValues>,
    pub(super) inputs: JsonMap,
    pub(super) messages: Vec<NodeMessage>,
    /// What the node's record shows before it has run.
    pub(super) result: NodeResult,
    /// The prompt of an `llm` node, for what follows its reply.
    pub(super) asked: Option<Asked>,
}

/// The prompt of an `llm` node.
pub(super) struct Asked {
    pub(super) prompt: Prompt,
    /// The messages that join the list of the conversation, with its settings.
    pub(super) joined: Option<(Conversation, Vec<ListedMessage>)>,
}

impl Given {
    /// Reads the values.
    ///
    /// # Errors
    /// The result of a node whose input cannot be made: a prompt or a parameter that lacks its variable.
    pub(super) fn of(
        node: &Node,
        config: &JsonMap,
        variables: &JobVariables,
        options: &RunOptions,
    ) -> Result<Self, Box<NodeResult>> {
        let values = values(variables);
        let mut inputs: JsonMap =
            values.0.iter().map(|(of, name, value)| (format!("{of}.{name}"), value.value.clone())).collect();
        let declared = declared(config, variables);
        inputs.extend(declared.iter().map(|(name, value)| (name.clone(), value.value.clone())));
        let mut given = Self {
            values: Arc::new(values),
            inputs,
            messages: Vec::new(),
            result: NodeResult { inputs: declared, ..NodeResult::default() },
            asked: None,
        };
        match &node.data {
            NodeData::Llm(data) => given.ask(data, variables, options)?,
            NodeData::Tool(data) => given.fill(data, variables)?,
            NodeData::Step(data) => {
                let values = params::resolve(&data.params, variables, &mut Secrets::default(), &[]);
                given.inputs.extend(values);
            }
            _ => {}
        }
        // An earlier stage has filled in what was missing.
        given.inputs.extend(made(variables).unwrap_or_default());
        Ok(given)
    }

    fn ask(
        &mut self,
        data: &LlmData,
        variables: &JobVariables,
        options: &RunOptions,
    ) -> Result<(), Box<NodeResult>> {
        let mut shown = Vec::new();
        let undefined = options.template_undefined;
        let prompt = prompt::assemble(data, variables, undefined, &takes_all(), &mut shown);
        self.result.inputs = shown;
        let mut prompt = prompt.map_err(|failure| self.failed(failure))?;
        let joined = data.conversation.clone().map(|conversation| {
            let own = conversation.join(&mut prompt, variables);
            (conversation, own)
        });
        self.messages = prompt.messages.iter().map(message).collect();
        self.asked = Some(Asked { prompt, joined });
        Ok(())
    }

    /// Fills in the parameters of a tool.
    fn fill(&mut self, data: &ToolData, variables: &JobVariables) -> Result<(), Box<NodeResult>> {
        self.result.metadata = data.metadata();
        let known = data.declared.as_deref().unwrap_or_default();
        let declared = KnownParameters { parameters: known, takes_more: true };
        let name = &data.provider_name;
        let configured = parameters::configured(data, declared, variables)
            .map_err(|message| self.failed(ToolError::unavailable(message).failure(name)))?;
        let filled = parameters::filled(data, declared, variables).map_err(|failure| self.failed(failure))?;
        self.result.inputs = filled.shown;
        let arguments = parameters::arguments(filled.values, configured, declared)
            .map_err(|message| self.failed(ToolError::new(Stage::Invoke, message).failure(name)))?;
        self.inputs.extend(arguments);
        Ok(())
    }

    fn failed(&mut self, failure: NodeFailure) -> Box<NodeResult> {
        Box::new(NodeResult { failure: Some(failure), ..std::mem::take(&mut self.result) })
    }
}

/// All values of the job, but those that stages keep for themselves.
fn values(variables: &JobVariables) -> NodeValues {
    let names = variables.names().into_iter().filter(|(node, _)| !node.starts_with('#'));
    let found = names.filter_map(|(node, name)| match variables.variable(&node, &name) {
        Lookup::Found(value) => {
            let value = value.into_owned();
            Some((node, name, value))
        }
        Lookup::Missing | Lookup::Blob(_) => None,
    });
    NodeValues(found.collect())
}

/// The variables that the node declares under names of their own, in `variables` and, for prompts, in
/// `prompt_config.jinja2_variables`.
fn declared(config: &JsonMap, variables: &JobVariables) -> Vec<(String, Segment)> {
    let own = config.get("variables").and_then(Json::as_array);
    let jinja = config.get("prompt_config").and_then(|config| config.get("jinja2_variables")?.as_array());
    let one = |entry: &Json| {
        let name = entry.get("variable")?.as_str()?.to_owned();
        let selector = entry.get("value_selector")?.as_array()?;
        let selector: Option<Vec<String>> =
            selector.iter().map(|part| part.as_str().map(str::to_owned)).collect();
        Some((name, variables.found(&selector?)?.into_owned()))
    };
    [own, jinja].into_iter().flatten().flatten().filter_map(one).collect()
}

/// The facts of an executor that gets every file of the prompt.
fn takes_all() -> ModelFacts {
    let kinds = [MediaKind::Image, MediaKind::Document, MediaKind::Audio, MediaKind::Video];
    let features = kinds.map(|kind| kind.feature().to_owned()).to_vec();
    ModelFacts { features: Some(features), ..ModelFacts::default() }
}

fn message(message: &Message) -> NodeMessage {
    NodeMessage {
        role: message.role.name().to_owned(),
        text: message.joined_text(),
        files: message.files().map(|part| Json::Object(part.file.clone())).collect(),
    }
}
