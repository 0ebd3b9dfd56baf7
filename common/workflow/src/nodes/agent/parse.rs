//! Parses `data` of an `agent` node into [`AgentData`], or reports all its problems.

use serde_json::Value as Json;

use super::{AgentData, AgentInput, Strategy};
use crate::dsl::Problems;
use crate::nodes::llm::ReasoningFormat;
use crate::nodes::llm::blocks::{self, INVALID};
use tidemill_base::value::template::Template;
use tidemill_base::value::{JsonMap, Selector};

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
    let parameters = problems.within("agent_parameters", |p| parameters(data.get("agent_parameters"), p));
    let memory = problems.within("memory", |p| blocks::memory(blocks::present(data, "memory"), p));
    let reasoning = match data.get("reasoning_format").and_then(Json::as_str) {
        Some("separated") => ReasoningFormat::Separated,
        Some(_) | None => ReasoningFormat::Tagged,
    };
    Some(AgentData {
        provider_name: text(data, "agent_strategy_provider_name"),
        strategy: strategy?,
        parameters: parameters?,
        memory: memory?,
        reasoning,
    })
}

fn text(data: &JsonMap, key: &str) -> String {
    data.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn strategy(data: &JsonMap, problems: &mut Problems) -> Option<Strategy> {
    let name = text(data, "agent_strategy_name");
    let known = Strategy::from_name(&name);
    if known.is_none() {
        problems.error_with_hint(
            INVALID,
            format!("the agent strategy {name:?} is not known"),
            "use function_calling or ReAct; strategies of other plugins do not run here",
        );
    }
    known
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
