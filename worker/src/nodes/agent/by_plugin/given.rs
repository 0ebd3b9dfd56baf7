//! The parameters of a strategy, as Dify's agent node builds them: the model with its facts and the conversation so far, the tools
//! with their parameters.

use std::sync::Arc;

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
use crate::outside::plugins::{FoundStrategy, GivenTool};
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

/// Builds the parameters that the strategy declares, and lists the tools among them; other parameters are not sent.
pub(super) async fn parameters(
    found: &FoundStrategy,
    data: &AgentData,
    values: &JsonMap,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> Result<(JsonMap, Vec<GivenTool>), Ungiven> {
    let strategy = &found.strategy;
    let (mut given, mut known) = (JsonMap::new(), Vec::new());
    for parameter in &strategy.parameters {
        let value = values.get(&parameter.name).filter(|value| !value.is_null()).cloned();
        let Some(value) = value.or_else(|| parameter.default.clone()) else { continue };
        let value = if parameter.kind == Kind::Model {
            let takes_history = strategy.features.iter().any(|feature| feature == HISTORY);
            let history = if takes_history { history(data, variables)? } else { Vec::new() };
            model(value, &history, means).await?
        } else if parameter.kind == Kind::Tools {
            Json::Array(tools(&value, variables, means, &mut known).await?)
        } else {
            value
        };
        given.insert(parameter.name.clone(), value);
    }
    Ok((given, known))
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
    known: &mut Vec<GivenTool>,
) -> Result<Vec<Json>, Ungiven> {
    let given = parameters::tools(Some(value), variables)?;
    for one in &given {
        check(one, means.auto_approved).map_err(|message| Ungiven::Unready(Unready::lasting(message)))?;
    }
    let mut found = Vec::with_capacity(given.len());
    for one in &given {
        let name = ToolName {
            kind: one.kind,
            provider_id: &one.provider,
            provider_name: &one.provider,
            tool: &one.name,
            plugin: one.plugin.as_deref(),
        };
        let tool = means.tools.find_for_model(name).await;
        found.push(tool.map_err(|error| Ungiven::Unready(error.into()))?);
    }
    let warnings = means.tools.at_run_time(&mut found, means.run).await;
    warnings.into_iter().for_each(|warning| means.journal.warn(warning));
    let mut tools = Vec::with_capacity(given.len());
    for (one, found) in given.iter().zip(found) {
        // The one that was found, if the file names none.
        let ToolName { kind, provider_id, .. } = found.name;
        tools.push(tool(one, (kind, provider_id), found.declaration.as_ref()));
        let (provider, plugin) = (provider_id.to_owned(), found.plugin.clone());
        known.push(GivenTool { kind, provider, tool: one.name.clone(), plugin });
    }
    Ok(tools)
}

/// Refuses a tool that the strategy could not call.
fn check(tool: &AgentTool, approved: Option<&[Arc<str>]>) -> Result<(), String> {
    let id = format!("{}/{}", tool.provider, tool.name);
    if tool.kind == ProviderKind::Workflow {
        return Err(format!(
            "the tool {} is a workflow, which a plugin's strategy cannot call: take it from the agent's tools, or use a strategy \
             of Tidemill (plugins.prefer = \"own\")",
            tool.name
        ));
    }
    let is_free = |all: &[Arc<str>]| all.iter().any(|name| **name == *tool.name || **name == *id);
    if approved.is_none_or(is_free) {
        return Ok(());
    }
    Err(format!(
        "calls of the tool {id} must be approved in this run, and a plugin's strategy cannot ask for approval"
    ))
}

/// A tool as the SDK reads it.
fn tool(given: &AgentTool, (kind, provider): (ProviderKind, &str), declared: Option<&Declaration>) -> Json {
    let description = prompt::spec(given, declared).description;
    let parameters = declared.map(|declared| declared.parameters.as_slice()).unwrap_or_default();
    let kind = match kind {
        ProviderKind::Plugin | ProviderKind::Any => ProviderKind::Builtin,
        kind => kind,
    };
    json!({
        "identity": {
            "author": "", "name": given.name, "label": {"en_US": given.name}, "provider": provider,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn given(kind: ProviderKind) -> AgentTool {
        let (provider, name) = ("a/p/web".into(), "find".into());
        AgentTool { kind, provider, name, plugin: None, description: None, fixed: JsonMap::new() }
    }

    #[test]
    fn a_tool_that_a_strategy_could_not_call_is_refused_by_its_name() {
        let approved: [Arc<str>; 1] = ["a/p/web/find".into()];
        assert_eq!(check(&given(ProviderKind::Builtin), None), Ok(()));
        assert_eq!(check(&given(ProviderKind::Builtin), Some(&approved)), Ok(()));
        let refused = check(&given(ProviderKind::Builtin), Some(&[])).unwrap_err();
        assert!(refused.contains("a/p/web/find must be approved"), "{refused}");
        let workflow = check(&given(ProviderKind::Workflow), None).unwrap_err();
        assert!(workflow.contains("the tool find is a workflow"), "{workflow}");
    }

    #[test]
    fn a_tool_has_the_provider_that_was_found() {
        let any = tool(&given(ProviderKind::Any), (ProviderKind::Api, "search"), None);
        assert_eq!((&any["provider_type"], &any["identity"]["provider"]), (&json!("api"), &json!("search")));
        let of_plugin = tool(&given(ProviderKind::Plugin), (ProviderKind::Plugin, "a/p/web"), None);
        assert_eq!(of_plugin["provider_type"], "builtin");
    }
}
