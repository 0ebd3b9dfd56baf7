//! Parses `data` of an `agent` node into [`AgentData`], or reports all its problems.

use serde_json::Value as Json;

use super::{AgentData, AgentInput, Strategy, servers};
use crate::dsl::Problems;
use crate::nodes::llm::ReasoningFormat;
use crate::nodes::llm::blocks::{self, INVALID};
use tidemill_base::value::template::Template;
use tidemill_base::value::{JsonMap, Selector};

/// The providers of the strategies that are built in: Dify's own plugin, also by its short names.
const OWN_PROVIDERS: [&str; 4] = ["", "langgenius/agent/agent", "langgenius/agent", "agent"];
/// The parameters of both strategies.
const KNOWN_PARAMETERS: [&str; 6] =
    ["model", "tools", "instruction", "query", "maximum_iterations", "context"];

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<AgentData> {
    if data.get("version").and_then(Json::as_str) == Some("2") {
        problems.within("version", |p| {
            p.error_with_hint(
                INVALID,
                "this form of the agent node (version 2) exists on no released Dify",
                "use an agent node with a strategy (agent_strategy_name)",
            );
        });
        return None;
    }
    let strategy = problems.within("agent_strategy_name", |p| strategy(data, p));
    let parameters = problems.within("agent_parameters", |p| {
        let given = data.get("agent_parameters");
        let parameters = parameters(given, p)?;
        // Others are a matter of the plugin.
        if let Some(Some(_)) = strategy {
            report_unknown(given, p);
        }
        Some(parameters)
    });
    let memory = problems.within("memory", |p| blocks::memory(blocks::present(data, "memory"), p));
    let reasoning = match data.get("reasoning_format").and_then(Json::as_str) {
        Some("separated") => ReasoningFormat::Separated,
        Some(_) | None => ReasoningFormat::Tagged,
    };
    Some(AgentData {
        provider_name: text(data, "agent_strategy_provider_name"),
        strategy: strategy?,
        named: text(data, "agent_strategy_name"),
        plugin: Some(text(data, "plugin_unique_identifier")).filter(|text| !text.is_empty()),
        parameters: parameters?,
        memory: memory?,
        reasoning,
    })
}

fn text(data: &JsonMap, key: &str) -> String {
    data.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
}

/// The strategy if it is one of ours, or `None` within if only a plugin has it. A strategy that only has the name of one of ours is
/// another one: its plugin may work in another way, and with tools of its own. Of other plugins only those are ours whose parameters
/// are ours and MCP servers: they have such a parameter, or a strategy whose name says so, because an export leaves out a
/// parameter that was not filled in.
fn strategy(data: &JsonMap, problems: &mut Problems) -> Option<Option<Strategy>> {
    let (name, provider) = (text(data, "agent_strategy_name"), text(data, "agent_strategy_provider_name"));
    let takes_servers = || {
        let parameters = data.get("agent_parameters").and_then(Json::as_object);
        parameters.is_some_and(|given| servers::PARAMETERS.iter().any(|name| given.contains_key(*name)))
    };
    let is_own = OWN_PROVIDERS.contains(&provider.as_str());
    if let Some(known) = Strategy::from_name(&name)
        && (is_own || takes_servers() || Strategy::is_for_mcp(&name))
    {
        return Some(Some(known));
    }
    if !is_own && provider.contains('/') && !name.is_empty() {
        return Some(None);
    }
    problems.error_with_hint(
        INVALID,
        format!("the agent strategy {name:?} is not known"),
        "use function_calling or ReAct of langgenius/agent/agent, or a strategy of a plugin, which \
         agent_strategy_provider_name names (author/plugin/provider)",
    );
    None
}

/// Warns once about parameters that neither strategy has.
fn report_unknown(value: Option<&Json>, problems: &mut Problems) {
    let is_set = |input: &Json| match input.get("value") {
        None | Some(Json::Null | Json::Bool(false)) => false,
        Some(Json::String(text)) => !text.is_empty(),
        Some(_) => true,
    };
    let given = value.and_then(Json::as_object).into_iter().flatten().filter(|(_, input)| is_set(input));
    let unknown: Vec<&str> = given
        .map(|(name, _)| name.as_str())
        .filter(|name| !KNOWN_PARAMETERS.contains(name) && !servers::PARAMETERS.contains(name))
        .collect();
    if !unknown.is_empty() {
        let message =
            format!("parameters of the agent that only a plugin's strategy knows: {}", unknown.join(", "));
        let hint = "where Tidemill's own strategy runs, they have no effect; install the plugin and set plugins.prefer, \
                    see whether the agent can do without, or remove them";
        problems.warning_with_hint("agent.unknown_parameters", message, hint);
    }
}

fn parameters(value: Option<&Json>, problems: &mut Problems) -> Option<Vec<(String, AgentInput)>> {
    let Some(map) = value.and_then(Json::as_object) else {
        problems.error(INVALID, "agent_parameters must be a mapping of inputs by name");
        return None;
    };
    let read: Vec<_> = map
        .iter()
        .map(|(name, input)| {
            problems.within(name.clone(), |p| input_of(input, p)).map(|input| (name.clone(), input))
        })
        .collect();
    read.into_iter().collect::<Option<Vec<_>>>()
}

fn input_of(input: &Json, problems: &mut Problems) -> Option<AgentInput> {
    let value = input.get("value").unwrap_or(&Json::Null);
    match input.get("type").and_then(Json::as_str) {
        Some("variable") => {
            let parts = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let selector: Option<Selector> =
                parts.iter().map(|part| part.as_str().map(str::to_owned)).collect();
            let selector = selector.filter(|selector| selector.len() > 1);
            if selector.is_none() {
                problems.error(INVALID, "value must name a variable: a list of node and name");
            }
            selector.map(AgentInput::Variable)
        }
        Some("mixed" | "constant") => Some(match value {
            Json::String(text) => AgentInput::Text(Template::parse(text)),
            other => AgentInput::Value(other.clone(), Template::parse(&other.to_string())),
        }),
        other => {
            let other = other.unwrap_or_default();
            problems.error(INVALID, format!("Unknown agent input type '{other}'"));
            None
        }
    }
}
