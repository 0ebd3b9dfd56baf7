//! The parameters of a strategy, as Dify's agent node builds them: the model with its facts and the conversation so far, the tools
//! with their parameters.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::agent::parameters::{self, AgentTool};
use tidemill_common::nodes::agent::{AgentData, prompt};
use tidemill_common::nodes::llm::message::{Message, MessagePart};
use tidemill_common::nodes::tool::{Declaration, Form, Parameter, ProviderKind};
use tidemill_common::value::{JsonMap, Variables};
use tidemill_plugins::package::{HISTORY, Kind};

use super::super::rounds::Unready;
use super::super::{Means, history};
use super::map;
use crate::outside::plugins::FoundStrategy;
use crate::outside::providers::profile::ModelKind;
use crate::outside::tools::ToolName;

/// Features of models that every release of the SDK knows. It refuses a model with another one.
const FEATURES: [&str; 8] = [
    "tool-call",
    "multi-tool-call",
    "agent-thought",
    "vision",
    "stream-tool-call",
    "document",
    "video",
    "audio",
];

/// The reason why there are no parameters.
pub(super) enum Ungiven {
    Unready(Unready),
    Failed(NodeFailure),
}

impl From<NodeFailure> for Ungiven {
    fn from(failure: NodeFailure) -> Self {
        Self::Failed(failure)
    }
}

/// Builds the parameters that the strategy declares; others are not sent.
pub(super) async fn parameters(
    found: &FoundStrategy,
    data: &AgentData,
    values: &JsonMap,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> Result<JsonMap, Ungiven> {
    let strategy = &found.strategy;
    let mut given = JsonMap::new();
    for parameter in &strategy.parameters {
        let value = values.get(&parameter.name).filter(|value| !value.is_null()).cloned();
        let Some(value) = value.or_else(|| parameter.default.clone()) else { continue };
        let value = if parameter.kind == Kind::Model {
            let takes_history = strategy.features.iter().any(|feature| feature == HISTORY);
            let history = if takes_history { history(data, variables)? } else { Vec::new() };
            model(value, &history, means).await?
        } else if parameter.kind == Kind::Tools {
            Json::Array(tools(&value, variables, means).await?)
        } else {
            value
        };
        given.insert(parameter.name.clone(), value);
    }
    Ok(given)
}

async fn model(value: Json, history: &[Message], means: Means<'_>) -> Result<Json, Ungiven> {
    let config = parameters::selected_model(&value)?;
    let found = means
        .providers
        .resolve_for(&config, ModelKind::Llm, Some(*means.run))
        .await
        .map_err(|error| Ungiven::Unready(error.into()))?;
    let features = found.facts().features.unwrap_or_default();
    let features: Vec<String> =
        features.into_iter().filter(|feature| FEATURES.contains(&feature.as_str())).collect();
    let mut model = map(&value);
    for (key, default) in [("model_type", json!("llm")), ("mode", json!("chat"))] {
        model.entry(key).or_insert(default);
    }
    model.insert("completion_params".into(), Json::Object(config.completion_params));
    model.insert("history_prompt_messages".into(), history.iter().map(said).collect());
    // Without the size of its context, because with it the SDK counts tokens with a table that it loads from the network.
    let entity = json!({
        "model": config.name, "label": {"en_US": config.name}, "model_type": "llm", "features": features,
        "fetch_from": "predefined-model", "model_properties": {"mode": "chat"}, "deprecated": false,
        "parameter_rules": [], "pricing": null,
    });
    model.insert("entity".into(), entity);
    Ok(Json::Object(model))
}

/// A message of the conversation as the SDK reads it. Its files are left out.
fn said(message: &Message) -> Json {
    let texts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Text(text) => Some(text.as_str()),
        MessagePart::File(_) => None,
    });
    json!({"role": message.role.name(), "content": texts.collect::<String>(), "name": null})
}

async fn tools(
    value: &Json,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> Result<Vec<Json>, Ungiven> {
    let given = parameters::tools(Some(value), variables)?;
    if means.auto_approved.is_some() && !given.is_empty() {
        let message =
            "calls of tools must be approved in this run, and a plugin's strategy cannot ask for approval";
        return Err(Ungiven::Unready(Unready::lasting(message)));
    }
    let mut tools = Vec::with_capacity(given.len());
    for one in given {
        let name = ToolName {
            kind: one.kind,
            provider_id: &one.provider,
            provider_name: &one.provider,
            tool: &one.name,
            plugin: None,
        };
        let found = means.tools.find(name).await.map_err(|error| Ungiven::Unready(error.into()))?;
        tools.push(tool(&one, found.declaration.as_ref()));
    }
    Ok(tools)
}

/// A tool as the SDK reads it.
fn tool(given: &AgentTool, declared: Option<&Declaration>) -> Json {
    let description = prompt::spec(given, declared).description;
    let parameters = declared.map(|declared| declared.parameters.as_slice()).unwrap_or_default();
    let kind = match given.kind {
        ProviderKind::Plugin | ProviderKind::Any => ProviderKind::Builtin,
        kind => kind,
    };
    json!({
        "identity": {
            "author": "", "name": given.name, "label": {"en_US": given.name}, "provider": given.provider,
        },
        "parameters": parameters.iter().map(|one| parameter(one, &given.fixed)).collect::<Vec<_>>(),
        "description": {"human": {"en_US": description}, "llm": description},
        "output_schema": null, "has_runtime_parameters": false, "provider_type": kind.name(),
        "runtime_parameters": given.fixed, "credential_id": null,
    })
}

fn parameter(parameter: &Parameter, fixed: &JsonMap) -> Json {
    let form = match parameter.form {
        // The author has set it.
        _ if fixed.contains_key(&parameter.name) => "form",
        Form::Llm => "llm",
        Form::Form => "form",
        Form::Schema => "schema",
    };
    let option = |option: &String| json!({"value": option, "label": {"en_US": option}});
    // The SDK takes no other defaults.
    let default = parameter.default.clone().filter(|value| value.is_string() || value.is_number());
    json!({
        "name": parameter.name, "label": {"en_US": parameter.name}, "type": parameter.ty.name(),
        "human_description": {"en_US": parameter.description}, "llm_description": parameter.description,
        "form": form, "required": parameter.required, "default": default,
        "options": parameter.options.iter().map(option).collect::<Vec<_>>(), "input_schema": parameter.schema,
    })
}
