//! The `agent` node: a model that can call tools, round after round, until it has an answer.
//!
//! `parse` reads the node's `data` and [`parameters`] fills in the run's variables. [`prompt`] and [`react`] are the
//! two strategies of Dify's own plugin (`function_calling`, `ReAct`); [`servers`] reads the MCP servers that other plugins
//! take beside them; [`thinking`] decides which part of a `ReAct`
//! reply is streamed at once. [`log`] builds the log of the rounds. The worker runs the rounds.

pub mod log;
pub mod parameters;
mod parse;
pub mod prompt;
pub mod react;
pub mod server_mask;
pub mod servers;
pub mod thinking;

use serde_json::Value as Json;

use crate::dsl::Problems;
use crate::nodes::llm::{Memory, ReasoningFormat, history};
use tidemill_base::value::template::{Template, mention};
use tidemill_base::value::{JsonMap, Selector};

/// Configuration of `agent`.
#[derive(Debug, Clone)]
pub struct AgentData {
    /// The strategy's provider, for the record: `langgenius/agent/agent`.
    pub provider_name: String,
    /// One of ours. `None`: only a plugin has it.
    pub strategy: Option<Strategy>,
    /// The strategy's name in the file.
    pub named: String,
    /// The plugin that the file names: `author/name:version@hash`.
    pub plugin: Option<String>,
    /// The parameters of the strategy, by name.
    pub parameters: Vec<(String, AgentInput)>,
    /// Settings for including the conversation so far.
    pub memory: Option<Memory>,
    /// Treatment of `<think>` blocks.
    pub reasoning: ReasoningFormat,
}

/// How names of strategies begin in plugins with MCP servers; the longest first.
const MCP_PREFIXES: [&str; 2] = ["mcp_sse_", "mcp_"];

/// The way an agent works with its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The model uses its API's tool calls.
    FunctionCalling,
    /// The model writes its tool calls as text, which we parse.
    ReAct,
}

impl Strategy {
    /// Dify's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FunctionCalling => "function_calling",
            Self::ReAct => "ReAct",
        }
    }

    /// Finds a strategy by its name, in any case of letters, and by its name in plugins with MCP servers
    /// (`mcp_sse_ReAct`).
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let own = MCP_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
        [Self::FunctionCalling, Self::ReAct].into_iter().find(|known| known.name().eq_ignore_ascii_case(own))
    }

    /// True for a name that only plugins with MCP servers use.
    pub(crate) fn is_for_mcp(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        MCP_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// The source of a parameter's value.
#[derive(Debug, Clone)]
pub enum AgentInput {
    /// A template.
    Text(Template),
    /// Another value, and its JSON text as a template.
    Value(Json, Template),
    /// A variable; keeps its type.
    Variable(Selector),
}

impl AgentData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// The strategy's name: Dify's for ours, else as in the file.
    pub fn strategy_name(&self) -> &str {
        match self.strategy {
            Some(strategy) => strategy.name(),
            None => &self.named,
        }
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for (_, input) in &self.parameters {
            match input {
                AgentInput::Text(template) | AgentInput::Value(_, template) => template.mentions(into),
                AgentInput::Variable(selector) => mention(selector, into),
            }
        }
        // Fixed values of tools can be variables. They are found here, where the list of tools is known.
        for selector in self.selectors_of_tools() {
            mention(&selector, into);
        }
        if self.memory.is_some() {
            into.push((history::NODE.into(), history::NAME.into()));
            into.push(("sys".into(), "conversation_id".into()));
        }
    }

    fn selectors_of_tools(&self) -> Vec<Selector> {
        let tools = self.parameters.iter().find(|(name, _)| name == "tools");
        let Some((_, AgentInput::Value(Json::Array(tools), _))) = tools else { return Vec::new() };
        let of = |key: &'static str| {
            tools.iter().filter_map(move |tool| tool.get(key)?.as_object()).flat_map(JsonMap::values)
        };
        let values = of("parameters").filter_map(|parameter| parameter.get("value"));
        let values = values.chain(of("settings").filter_map(parameters::typed));
        let variables = values.filter(|value| value.get("type").and_then(Json::as_str) == Some("variable"));
        let selector = |value: &Json| {
            let parts = value.get("value")?.as_array()?.iter();
            parts.map(|part| part.as_str().map(str::to_owned)).collect::<Option<Selector>>()
        };
        variables.filter_map(selector).filter(|selector| selector.len() > 1).collect()
    }
}

#[cfg(test)]
mod tests;
