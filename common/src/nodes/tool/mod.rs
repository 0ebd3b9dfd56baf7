//! A call of a named tool: its configuration and everything about it that needs no network.
//!
//! In the order of a call: `parse` reads the node's `data`; [`declared`] is what a tool says of its parameters, and [`form`] what a workflow does;
//! [`parameters`] fills in the run's variables, and [`mod@cast`] makes each the type that is declared; [`message`] is what
//! tools answer, and [`outputs`] makes the node's outputs of it. [`config`] is the section of the settings. The ways to
//! tools are in the worker.

pub mod cast;
pub mod config;
pub mod declared;
pub mod form;
pub mod message;
pub mod outputs;
pub mod parameters;
mod parse;

use serde_json::{Value as Json, json};

use crate::dsl::Problems;
use crate::failure::NodeFailure;
use crate::value::template::{Template, mention};
use crate::value::{JsonMap, Selector};

pub use config::ToolsConfig;
pub use declared::{Declaration, Form, Known, Parameter, ParameterType};
pub use message::Message;

/// Configuration of `tool`.
#[derive(Debug, Clone)]
pub struct ToolData {
    /// Which kind of provider has the tool.
    pub provider_type: ProviderKind,
    /// Its id: a name such as `time` or `org/plugin/provider`, or an id of Dify's.
    pub provider_id: String,
    /// Its name, for messages.
    pub provider_name: String,
    /// The tool.
    pub tool_name: String,
    /// What the author fills in once, by name.
    pub configurations: Vec<(String, Configured)>,
    /// What the workflow fills in, by name.
    pub parameters: Vec<(String, Input)>,
    /// The version of the plugin that the author had, for the record.
    pub plugin_unique_identifier: Option<String>,
    /// Whether configurations are inputs with a type (`tool_node_version`, or a `version` other than 1), and not plain
    /// values.
    pub is_typed: bool,
    /// What Dify's editor noted of the tool's parameters (`paramSchemas`), for tools that do not tell.
    pub declared: Option<Vec<Parameter>>,
}

/// The kinds of providers, under Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderKind {
    /// A plugin of the marketplace.
    Plugin,
    /// A part of Dify, or of this program.
    Builtin,
    /// A workflow that was made a tool.
    Workflow,
    /// An OpenAPI document.
    Api,
    /// An app.
    App,
    /// A knowledge base.
    DatasetRetrieval,
    /// An MCP server.
    Mcp,
}

impl ProviderKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Plugin,
        Self::Builtin,
        Self::Workflow,
        Self::Api,
        Self::App,
        Self::DatasetRetrieval,
        Self::Mcp,
    ];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Builtin => "builtin",
            Self::Workflow => "workflow",
            Self::Api => "api",
            Self::App => "app",
            Self::DatasetRetrieval => "dataset-retrieval",
            Self::Mcp => "mcp",
        }
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Where the value of a parameter comes from.
#[derive(Debug, Clone)]
pub enum Input {
    /// A text with references.
    Mixed(Template),
    /// A variable, with its type.
    Variable(Selector),
    /// A value as it is; as a parameter it is a text in which references are looked for, as on Dify.
    Constant(Json, Template),
}

/// A value that the author fills in once.
#[derive(Debug, Clone)]
pub struct Configured {
    /// It as it is written.
    pub raw: Json,
    /// It as an input, if it has that form.
    pub input: Option<Input>,
}

/// The classes of failure that Dify gives this node's own errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
    /// There is no way to the tool.
    Resolution,
    /// The call failed.
    Invocation,
    /// A parameter is missing.
    Parameter,
    /// A file of the answer is none.
    File,
    /// The answer makes no sense.
    Node,
}

impl ErrorType {
    /// Dify's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolution => "ToolRuntimeResolutionError",
            Self::Invocation => "ToolRuntimeInvocationError",
            Self::Parameter => "ToolParameterError",
            Self::File => "ToolFileError",
            Self::Node => "ToolNodeError",
        }
    }

    /// A failure of this class.
    pub fn failure(self, message: impl Into<String>) -> NodeFailure {
        NodeFailure::new(self.name(), message)
    }
}

impl ToolData {
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        let configured = self.configurations.iter().filter(|_| self.is_typed);
        let configured = configured.filter_map(|(_, value)| value.input.as_ref());
        for input in self.parameters.iter().map(|(_, input)| input).chain(configured) {
            match input {
                Input::Mixed(template) | Input::Constant(_, template) => template.mentions(into),
                Input::Variable(selector) => mention(selector, into),
            }
        }
    }

    /// What every result says of the tool, as `metadata.tool_info`.
    pub fn metadata(&self) -> JsonMap {
        let info = json!({
            "provider_type": self.provider_type.name(),
            "provider_id": self.provider_id,
            "plugin_unique_identifier": self.plugin_unique_identifier,
        });
        JsonMap::from_iter([("tool_info".to_owned(), info)])
    }
}

#[cfg(test)]
mod tests;
