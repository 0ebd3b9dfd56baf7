//! The `tool` node: its configuration and all parts of a tool call that need no network.
//!
//! In the order of a call: `parse` reads the node's `data`; [`declared`] holds a tool's own declaration of its
//! parameters, [`form`] the workflow's; [`parameters`] fills in the run's variables, and [`mod@cast`] converts each to
//! the declared type; [`message`] parses a tool's answer, and [`outputs`] builds the node's outputs from it. [`config`]
//! is the section of the settings. The worker calls the tools.

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
use crate::kinds::PROVIDER_BY_TOOL;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::{Template, mention};
use tidemill_base::value::{JsonMap, Selector};

pub use config::ToolsConfig;
pub use declared::{Declaration, Form, KnownParameters, Parameter, ParameterType};
pub use message::Message;

/// How the reason begins when a workflow that is called as a tool has no app here. The words are Dify's.
pub const APP_NOT_FOUND: &str = "app not found";
/// The reason when the app of a workflow that is called as a tool has no published version. The words are Dify's.
pub const APP_NOT_PUBLISHED: &str = "workflow not found or not published";

/// Configuration of `tool`.
#[derive(Debug, Clone)]
pub struct ToolData {
    /// The kind of the tool's provider.
    pub provider_type: ProviderKind,
    /// The provider's id: a name such as `time` or `org/plugin/provider`, or an id of Dify's.
    pub provider_id: String,
    /// The provider's name, for messages.
    pub provider_name: String,
    pub tool_name: String,
    /// Values that the author fills in once, by name.
    pub configurations: Vec<(String, Configured)>,
    /// Values that the workflow fills in, by name.
    pub parameters: Vec<(String, Input)>,
    /// The author's version of the plugin, for the record.
    pub plugin_unique_identifier: Option<String>,
    /// True when configurations are typed inputs (`tool_node_version`, or a `version` other than 1) instead of plain
    /// values.
    pub is_typed: bool,
    /// The tool's parameters as Dify's editor stored them (`paramSchemas`), for tools without a declaration.
    pub declared: Option<Vec<Parameter>>,
}

/// The kinds of providers, with Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderKind {
    /// A plugin of the marketplace.
    Plugin,
    /// A part of Dify, or of this program.
    Builtin,
    /// A workflow published as a tool.
    Workflow,
    /// An OpenAPI document.
    Api,
    App,
    /// A knowledge base.
    DatasetRetrieval,
    /// An MCP server.
    Mcp,
    /// Not named: the provider that has a tool of this name, among those that a worker can list.
    Any,
}

impl ProviderKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Plugin,
        Self::Builtin,
        Self::Workflow,
        Self::Api,
        Self::App,
        Self::DatasetRetrieval,
        Self::Mcp,
        Self::Any,
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
            Self::Any => PROVIDER_BY_TOOL,
        }
    }

    /// Finds a kind by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The source of a parameter's value.
#[derive(Debug, Clone)]
pub enum Input {
    /// A template.
    Mixed(Template),
    /// A variable; keeps its type.
    Variable(Selector),
    /// A fixed value. As a parameter it is a text in which references are filled in, as on Dify.
    Constant(Json, Template),
}

/// A value that the author fills in once.
#[derive(Debug, Clone)]
pub struct Configured {
    /// The value as written.
    pub raw: Json,
    /// The value as an input, if it has that form.
    pub input: Option<Input>,
}

/// Dify's error types of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
    /// The tool cannot be reached.
    Resolution,
    /// The call failed.
    Invocation,
    /// A parameter is missing.
    Parameter,
    /// A file in the answer is invalid.
    File,
    /// The answer is invalid.
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

    /// A failure of this type.
    pub fn failure(self, message: impl Into<String>) -> NodeFailure {
        NodeFailure::new(self.name(), message)
    }
}

impl ToolData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
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

    /// `metadata.tool_info`, which all results have.
    pub fn metadata(&self) -> JsonMap {
        self.metadata_of(self.provider_type, &self.provider_id)
    }

    /// As [`ToolData::metadata`], of the provider that was found.
    pub fn metadata_of(&self, kind: ProviderKind, provider_id: &str) -> JsonMap {
        let info = json!({
            "provider_type": kind.name(),
            "provider_id": provider_id,
            "plugin_unique_identifier": self.plugin_unique_identifier,
        });
        JsonMap::from_iter([("tool_info".to_owned(), info)])
    }
}

#[cfg(test)]
mod tests;
