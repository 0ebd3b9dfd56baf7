//! Fills the run's variables into the parameters of a strategy (Dify's rules for agents).

use serde_json::Value as Json;

use super::server_mask;
use super::servers::{self, NamedServer};
use super::{AgentData, AgentInput};
use crate::nodes::llm::{ModelConfig, ModelMode};
use crate::nodes::tool::ProviderKind;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::pyrepr::repr;
use tidemill_base::value::{JsonMap, Selector, Variables};

/// Default number of rounds, as in Dify's strategies.
const ITERATIONS: u64 = 3;
/// Most rounds, as in Dify's strategies.
const ITERATIONS_MAX: u64 = 30;
/// The class of exceptions that leave a node on Dify.
const ESCAPED: &str = "WorkflowNodeError";

/// The parameters of both strategies.
#[derive(Debug, Clone)]
pub struct AgentParameters {
    pub model: ModelConfig,
    /// The author's instruction to the model.
    pub instruction: String,
    /// The user's question.
    pub query: String,
    /// Most rounds.
    pub iterations_max: u64,
    /// The enabled tools.
    pub tools: Vec<AgentTool>,
    /// Passages sent as sources; empty when there are none.
    pub context: Vec<Json>,
    /// MCP servers whose tools the agent may call as well.
    pub servers: Vec<NamedServer>,
    /// All parameters by name, for the record.
    pub shown: JsonMap,
}

/// A tool that the agent may call.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentTool {
    /// The kind of the tool's provider.
    pub kind: ProviderKind,
    pub provider: String,
    pub name: String,
    /// The author's description. `None`: the tool's own description is used.
    pub description: Option<String>,
    /// Arguments that the model does not choose.
    pub fixed: JsonMap,
}

/// The parameters with the run's variables filled in, by name, whatever the strategy makes of them.
///
/// # Errors
/// As [`resolve`], for a missing variable.
pub fn values(data: &AgentData, variables: &dyn Variables) -> Result<JsonMap, NodeFailure> {
    let mut values = JsonMap::new();
    for (name, input) in &data.parameters {
        values.insert(name.clone(), value(input, variables)?);
    }
    Ok(values)
}

/// The parameters for the record: without what a server's address or headers have of secrets.
pub fn shown(values: &JsonMap) -> JsonMap {
    let mut shown = values.clone();
    if let Ok(servers) = servers::read(&shown) {
        server_mask::mask(&mut shown, &servers);
    }
    shown
}

/// The enabled tools of a list.
///
/// # Errors
/// As [`resolve`].
pub fn tools(given: Option<&Json>, variables: &dyn Variables) -> Result<Vec<AgentTool>, NodeFailure> {
    match given {
        Some(Json::Array(tools)) => {
            tools.iter().filter_map(|tool| tool_of(tool, variables).transpose()).collect()
        }
        _ => Ok(Vec::new()),
    }
}

/// The model that a value selects.
///
/// # Errors
/// As [`resolve`].
pub fn selected_model(value: &Json) -> Result<ModelConfig, NodeFailure> {
    model(Some(value))
}

/// Fills in the parameters.
///
/// # Errors
/// `WorkflowNodeError` for a missing variable, and for parameters that no strategy accepts. On Dify this is an
/// exception that leaves the node.
pub fn resolve(data: &AgentData, variables: &dyn Variables) -> Result<AgentParameters, NodeFailure> {
    let mut shown = values(data, variables)?;
    let text = |name: &str| match shown.get(name) {
        Some(Json::String(text)) => text.clone(),
        None | Some(Json::Null) => String::new(),
        Some(other) => other.to_string(),
    };
    let model = model(shown.get("model"))?;
    let query = text("query");
    if query.is_empty() {
        return Err(escaped("the agent has no query"));
    }
    let iterations = shown.get("maximum_iterations").and_then(number).unwrap_or(ITERATIONS);
    let tools = tools(shown.get("tools"), variables)?;
    let context = match shown.get("context") {
        Some(Json::Array(items)) => items.clone(),
        _ => Vec::new(),
    };
    let instruction = text("instruction");
    let servers = servers::read(&shown).map_err(|problem| escaped(&problem))?;
    server_mask::mask(&mut shown, &servers);
    Ok(AgentParameters {
        model,
        instruction,
        query,
        iterations_max: iterations.clamp(1, ITERATIONS_MAX),
        tools,
        context,
        servers,
        shown,
    })
}

fn value(input: &AgentInput, variables: &dyn Variables) -> Result<Json, NodeFailure> {
    match input {
        AgentInput::Text(template) => Ok(template.render_text(variables).into()),
        AgentInput::Value(_, template) => {
            let text = template.render_text(variables);
            // References can break the JSON; then the value is a text.
            Ok(serde_json::from_str(&text).unwrap_or(Json::String(text)))
        }
        AgentInput::Variable(selector) => of_variable(selector, variables),
    }
}

fn of_variable(selector: &Selector, variables: &dyn Variables) -> Result<Json, NodeFailure> {
    let missing = || {
        let list = Json::from(selector.clone());
        escaped(&format!("Variable '{}' does not exist", repr(&list)))
    };
    variables.found(selector).map(|segment| segment.value.clone()).ok_or_else(missing)
}

fn escaped(message: &str) -> NodeFailure {
    NodeFailure::new(ESCAPED, message)
}

fn number(value: &Json) -> Option<u64> {
    let decimal = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    (decimal >= 0.0).then_some(decimal as u64)
}

fn model(value: Option<&Json>) -> Result<ModelConfig, NodeFailure> {
    let text =
        |key: &str| value.and_then(|v| v.get(key)).and_then(Json::as_str).unwrap_or_default().to_owned();
    let (provider, name) = (text("provider"), text("model"));
    if provider.is_empty() || name.is_empty() {
        return Err(escaped("the agent's model must name a provider and a model"));
    }
    let params = value.and_then(|v| v.get("completion_params")).and_then(Json::as_object);
    let mode = if text("mode") == "completion" { ModelMode::Completion } else { ModelMode::Chat };
    Ok(ModelConfig { provider, name, mode, completion_params: params.cloned().unwrap_or_default() })
}

/// A tool of the list. `None` when it is disabled.
fn tool_of(tool: &Json, variables: &dyn Variables) -> Result<Option<AgentTool>, NodeFailure> {
    if tool.get("enabled").and_then(Json::as_bool) != Some(true) {
        return Ok(None);
    }
    let text = |key: &str| tool.get(key).and_then(Json::as_str).unwrap_or_default();
    let kind = match text("type") {
        "" => ProviderKind::Builtin,
        name => ProviderKind::from_name(name).ok_or_else(|| {
            escaped(&format!("{name:?} is not a type of tool (tool {:?})", text("tool_name")))
        })?,
    };
    let mut fixed = JsonMap::new();
    for (name, setting) in tool.get("settings").and_then(Json::as_object).into_iter().flatten() {
        let value = match typed(setting) {
            Some(value) => fixed_value(value, variables)?,
            None => setting.get("value").unwrap_or(setting).clone(),
        };
        if !value.is_null() {
            fixed.insert(name.clone(), value);
        }
    }
    for (name, parameter) in tool.get("parameters").and_then(Json::as_object).into_iter().flatten() {
        if parameter.get("auto").and_then(Json::as_i64) == Some(1) {
            continue;
        }
        if let Some(value) = parameter.get("value").filter(|value| !value.is_null()) {
            fixed.insert(name.clone(), fixed_value(value, variables)?);
        }
    }
    let description = tool.get("extra").and_then(|extra| extra.get("description")).and_then(Json::as_str);
    Ok(Some(AgentTool {
        kind,
        provider: text("provider_name").to_owned(),
        name: text("tool_name").to_owned(),
        description: description.filter(|text| !text.is_empty()).map(str::to_owned),
        fixed,
    }))
}

/// The typed input of a setting. Newer editors write it where older ones write the plain value.
pub(super) fn typed(setting: &Json) -> Option<&Json> {
    let is_typed =
        |value: &&Json| value.get("type").is_some_and(Json::is_string) && value.get("value").is_some();
    [Some(setting), setting.get("value")].into_iter().flatten().find(is_typed)
}

fn fixed_value(value: &Json, variables: &dyn Variables) -> Result<Json, NodeFailure> {
    let inner = value.get("value").unwrap_or(&Json::Null);
    match value.get("type").and_then(Json::as_str) {
        Some("variable") => {
            let parts = inner.as_array().map(Vec::as_slice).unwrap_or_default();
            let selector: Option<Selector> =
                parts.iter().map(|part| part.as_str().map(str::to_owned)).collect();
            of_variable(&selector.unwrap_or_default(), variables)
        }
        // References in it were filled in together with the whole list.
        Some(_) => Ok(inner.clone()),
        None => Ok(value.clone()),
    }
}
