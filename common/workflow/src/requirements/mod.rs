//! The requirements of a workflow: everything outside its file that a run of it uses, such as models, tools, datasets and
//! secrets. `tidemill migrate` compares them with an installation.
//!
//! [`requirements_of`] is a pure function of a document. It also works for a workflow that cannot run: it reads the
//! fields that it knows and passes over all others. Each kind of requirement has its own file, and [`FINDERS`] lists
//! them.

mod agents;
mod code;
mod datasets;
mod features;
mod form;
mod hosts;
mod models;
mod secrets;
#[cfg(test)]
mod tests;
mod tools;
mod triggers;

use serde_json::Value as Json;

use crate::dsl::Document;
use crate::kinds::NodeKind;
use crate::nodes::tool::ProviderKind;
use tidemill_base::value::JsonMap;

/// Something outside the file that a run uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Requirement {
    /// A model of a provider.
    Model {
        /// As in the file, such as `langgenius/openai/openai`.
        provider: String,
        model: String,
        role: ModelRole,
    },
    /// A profile of the settings or of Redis, for llm nodes that name one.
    Profile { id: String },
    /// A tool, of a tool node or of an agent.
    Tool {
        kind: ProviderKind,
        /// The provider's id: a name, or a UUID of Dify's.
        provider: String,
        /// The provider's name; may be empty.
        name: String,
        tool: String,
        /// The plugin that has it, as far as the file names it: `author/name:version`, or `author/name`.
        plugin: Option<String>,
    },
    /// An agent strategy that only its plugin has.
    Strategy {
        provider: String,
        strategy: String,
        /// The plugin, as far as the file names it: `author/name:version`, or `author/name`.
        plugin: Option<String>,
    },
    /// An MCP server that the parameters of an agent name. It is called at its address, unless `[tools.mcp]` has its
    /// name.
    McpServer {
        name: String,
        /// Scheme, host and port of the address, and `/…` if there is more; may be empty.
        url: String,
    },
    /// A knowledge base, by its id on Dify.
    Dataset { id: String },
    /// A secret environment variable without a value: Dify's export leaves the values out.
    Secret { name: String },
    /// A module of code that its language does not have.
    Module {
        name: String,
        /// The Python package with it; `None` for JavaScript, where no package can be added.
        package: Option<String>,
    },
    /// Code that calls servers with this module.
    CodeNetwork { module: String },
    /// A host that an http-request node or an agent calls, as far as the file names it.
    Host { host: String },
    /// A field of the form that takes files, or the files of a message.
    Upload {
        /// The name of the field; empty for the files of a message.
        field: String,
        /// True when a run cannot begin without it.
        required: bool,
        /// True when a file may be given by its URL.
        by_url: bool,
    },
    /// A trigger that begins runs.
    Trigger {
        kind: NodeKind,
        /// The id of its node.
        node: String,
        /// The last part of the URL of a webhook, or the event of a plugin; may be empty.
        id: String,
    },
    /// A feature of the app that is switched on and that Tidemill does not serve.
    Feature { name: &'static str },
}

/// The purpose of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelRole {
    /// Answers messages.
    Chat,
    /// Makes vectors.
    Embedding,
    /// Ranks passages.
    Rerank,
}

impl ModelRole {
    /// The name of the role for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Embedding => "embedding",
            Self::Rerank => "rerank",
        }
    }
}

/// A feature of a model, with the name in `features` of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelFeature {
    /// Takes pictures.
    Vision,
    /// Calls tools.
    ToolCall,
    /// Answers in a JSON schema.
    StructuredOutput,
}

impl ModelFeature {
    /// The name in the settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vision => "vision",
            Self::ToolCall => "tool-call",
            Self::StructuredOutput => "structured-output",
        }
    }
}

/// A requirement, and the parts of the workflow that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Required {
    pub what: Requirement,
    /// The titles of the nodes (their ids if they have none), without duplicates; empty for the whole workflow.
    pub nodes: Vec<String>,
    /// The features that a model needs, in order.
    pub features: Vec<ModelFeature>,
}

/// A node of the file, or one inside it.
struct NodeView<'a> {
    id: &'a str,
    kind: NodeKind,
    data: &'a JsonMap,
    document: &'a Document,
}

impl NodeView<'_> {
    fn text(&self, key: &str) -> &str {
        text(self.data, key)
    }
    fn title(&self) -> &str {
        if self.text("title").is_empty() { self.id } else { self.text("title") }
    }
}

/// Finds the requirements of one kind.
enum Finder {
    OfNode(fn(&NodeView<'_>, &mut Found)),
    OfDocument(fn(&Document, &mut Found)),
}

/// All finders, in the order in which their requirements are listed.
const FINDERS: &[Finder] = &[
    Finder::OfNode(models::find),
    Finder::OfNode(tools::find),
    Finder::OfNode(agents::find),
    Finder::OfNode(datasets::find),
    Finder::OfNode(code::find),
    Finder::OfNode(hosts::find),
    Finder::OfNode(form::find),
    Finder::OfNode(triggers::find),
    Finder::OfDocument(form::of_messages),
    Finder::OfDocument(secrets::find),
    Finder::OfDocument(features::find),
];

/// Lists the requirements of a workflow, each once.
pub fn requirements_of(document: &Document) -> Vec<Required> {
    let mut found = Found::default();
    for finder in FINDERS {
        match finder {
            Finder::OfDocument(find) => find(document, &mut found),
            Finder::OfNode(find) => {
                for node in &document.nodes {
                    each_data(&node.data, node.type_name(), &mut |kind, data| {
                        let view = NodeView { id: &node.id, kind, data, document };
                        found.node = view.title().to_owned();
                        find(&view, &mut found);
                        found.node.clear();
                    });
                }
            }
        }
    }
    found.all
}

/// Calls `see` for the data of a node and of the nodes inside it.
fn each_data<'a>(data: &'a JsonMap, kind: &str, see: &mut dyn FnMut(NodeKind, &'a JsonMap)) {
    if let Some(kind) = NodeKind::from_wire(kind) {
        see(kind, data);
    }
    for child in list(data, "virtual_nodes").iter().filter_map(Json::as_object) {
        let Some(inner) = child.get("data").and_then(Json::as_object) else { continue };
        let kind = if inner.contains_key("type") { text(inner, "type") } else { text(child, "type") };
        each_data(inner, kind, see);
    }
}

/// The requirements so far.
#[derive(Default)]
struct Found {
    all: Vec<Required>,
    /// The title of the node that is being read; empty for the whole workflow.
    node: String,
}

impl Found {
    fn add(&mut self, what: Requirement) {
        self.add_model(what, &[]);
    }

    /// Adds a requirement, or the node and the features to the same one.
    fn add_model(&mut self, what: Requirement, features: &[ModelFeature]) {
        let at = match self.all.iter().position(|known| known.what == what) {
            Some(at) => at,
            None => {
                self.all.push(Required { what, nodes: Vec::new(), features: Vec::new() });
                self.all.len() - 1
            }
        };
        let required = &mut self.all[at];
        if !self.node.is_empty() && !required.nodes.contains(&self.node) {
            required.nodes.push(self.node.clone());
        }
        required.features.extend(features);
        required.features.sort_unstable();
        required.features.dedup();
    }
}

fn text<'a>(map: &'a JsonMap, key: &str) -> &'a str {
    map.get(key).and_then(Json::as_str).unwrap_or_default()
}

fn list<'a>(map: &'a JsonMap, key: &str) -> &'a [Json] {
    map.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn map_of<'a>(map: &'a JsonMap, key: &str) -> Option<&'a JsonMap> {
    map.get(key).and_then(Json::as_object)
}

/// True for `{enabled: true}` under the key.
fn is_enabled(map: &JsonMap, key: &str) -> bool {
    map_of(map, key).and_then(|inner| inner.get("enabled")).and_then(Json::as_bool) == Some(true)
}
