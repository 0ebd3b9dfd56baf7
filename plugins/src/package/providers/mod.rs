//! The providers of a package: of tools, models, agent strategies, datasources, triggers and endpoints.

mod datasources;
mod models;
mod parts;
mod strategies;

use serde_json::Value as Json;

use super::manifest::Extensions;
use super::parameter::{self, Parameter};
use super::spot::{Reader, Spot};

pub use models::{Facts, ModelKind, ModelProvider, PackagedModel, Price, Rule};
pub use strategies::{HISTORY, Strategy, StrategyProvider};

/// A provider of tools.
#[derive(Debug, Clone)]
pub struct ToolProvider {
    pub file: String,
    pub name: String,
    pub label: String,
    /// The fields of its credentials.
    pub credentials: Vec<Parameter>,
    /// Credentials can also come from a login at a server (OAuth).
    pub has_oauth: bool,
    pub tools: Vec<Tool>,
}

/// A tool.
#[derive(Debug, Clone)]
pub struct Tool {
    pub file: String,
    pub name: String,
    pub label: String,
    pub description: String,
    pub parameters: Vec<Parameter>,
    /// The JSON schema of its variables.
    pub output_schema: Option<Json>,
    /// It changes its parameters when it is asked.
    pub has_runtime_parameters: bool,
}

/// A provider of another kind.
#[derive(Debug, Clone)]
pub struct Provider {
    pub file: String,
    pub name: String,
    pub label: String,
    pub credentials: Vec<Parameter>,
    /// Credentials can also come from a login at a server (OAuth).
    pub has_oauth: bool,
    /// What a provider of datasources reads: `website_crawl`, `online_document` or `online_drive`.
    pub source_kind: Option<String>,
    /// Datasources, events or endpoints.
    pub items: Vec<Item>,
}

impl Provider {
    /// The provider as one of tools, for its name and its credentials.
    pub fn as_tools(&self) -> ToolProvider {
        ToolProvider {
            file: self.file.clone(),
            name: self.name.clone(),
            label: self.label.clone(),
            credentials: self.credentials.clone(),
            has_oauth: self.has_oauth,
            tools: Vec::new(),
        }
    }
}

/// Something that a provider offers.
#[derive(Debug, Clone)]
pub struct Item {
    pub file: String,
    pub name: String,
    pub label: String,
    pub parameters: Vec<Parameter>,
}

/// All providers.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    pub tools: Vec<ToolProvider>,
    pub models: Vec<ModelProvider>,
    pub agent_strategies: Vec<StrategyProvider>,
    pub datasources: Vec<Provider>,
    pub triggers: Vec<Provider>,
    pub endpoints: Vec<Provider>,
}

/// Reads all providers that a manifest names.
pub(super) fn read(reader: &Reader<'_>, extensions: &Extensions) -> Providers {
    let each = |files: &[String], items: fn(&Reader<'_>, &Spot<'_>) -> Vec<Item>| {
        files.iter().filter_map(|file| provider(reader, file, items)).collect()
    };
    Providers {
        tools: extensions.tools.iter().filter_map(|file| tool_provider(reader, file)).collect(),
        models: extensions.models.iter().filter_map(|file| models::provider(reader, file)).collect(),
        agent_strategies: extensions
            .agent_strategies
            .iter()
            .filter_map(|file| strategies::provider(reader, file))
            .collect(),
        datasources: extensions
            .datasources
            .iter()
            .filter_map(|file| datasources::provider(reader, file))
            .collect(),
        triggers: each(&extensions.triggers, |reader, root| in_files(reader, root, "events")),
        endpoints: each(&extensions.endpoints, endpoints),
    }
}

fn tool_provider(reader: &Reader<'_>, file: &str) -> Option<ToolProvider> {
    let yaml = reader.read(file)?;
    let root = reader.root(&yaml);
    let identity = root.need("identity")?;
    if root.python_source().is_none() {
        root.error("extra.python.source is missing: the Python file of the provider".into());
    }
    let listed = reader.named(&root.list("tools"));
    let mut tools: Vec<Tool> = Vec::new();
    for tool in listed.iter().filter_map(|file| tool(reader, file)) {
        if tools.iter().any(|known| known.name == tool.name) {
            root.error(format!("the tool {:?} occurs twice", tool.name));
        } else {
            tools.push(tool);
        }
    }
    Some(ToolProvider {
        file: file.to_owned(),
        name: identity.need_text("name"),
        label: identity.label("label"),
        credentials: credentials(&root),
        has_oauth: root.get("oauth_schema").is_some(),
        tools,
    })
}

fn credentials(root: &Spot<'_>) -> Vec<Parameter> {
    let keys = ["credentials_for_provider", "credentials_schema", "subscription_schema", "settings"];
    keys.iter().flat_map(|key| parameter::credentials(root, key)).collect()
}

fn tool(reader: &Reader<'_>, file: &str) -> Option<Tool> {
    let yaml = reader.read(file)?;
    let root = reader.root(&yaml);
    let identity = root.need("identity")?;
    if root.python_source().is_none() {
        root.error("extra.python.source is missing: the Python file of the tool".into());
    }
    let description = root.get("description");
    let human = description.as_ref().map(|spot| spot.label("human")).filter(|text| !text.is_empty());
    Some(Tool {
        file: file.to_owned(),
        name: identity.need_text("name"),
        label: identity.label("label"),
        description: human.unwrap_or_else(|| description.map(|spot| spot.label("llm")).unwrap_or_default()),
        parameters: parameter::list(&root),
        output_schema: root.get("output_schema").map(|spot| spot.value.clone()),
        has_runtime_parameters: root.flag("has_runtime_parameters"),
    })
}

pub(super) fn provider(
    reader: &Reader<'_>,
    file: &str,
    items: fn(&Reader<'_>, &Spot<'_>) -> Vec<Item>,
) -> Option<Provider> {
    let yaml = reader.read(file)?;
    let root = reader.root(&yaml);
    // Groups of endpoints have no name.
    let identity = root.get("identity").unwrap_or_else(|| root.clone());
    let name = identity.maybe_text("name").or_else(|| root.maybe_text("provider"));
    root.python_source();
    Some(Provider {
        file: file.to_owned(),
        name: name.unwrap_or_default(),
        label: identity.label("label"),
        credentials: credentials(&root),
        has_oauth: root.get("oauth_schema").is_some(),
        source_kind: root.maybe_text("provider_type"),
        items: items(reader, &root),
    })
}

/// Items that are in files of their own.
pub(super) fn in_files(reader: &Reader<'_>, root: &Spot<'_>, key: &str) -> Vec<Item> {
    let files = reader.named(&root.list(key));
    let item = |file: &String| {
        let yaml = reader.read(file)?;
        let root = reader.root(&yaml);
        let identity = root.need("identity")?;
        root.python_source();
        Some(Item {
            file: file.clone(),
            name: identity.need_text("name"),
            label: identity.label("label"),
            parameters: parameter::list(&root),
        })
    };
    files.iter().filter_map(item).collect()
}

fn endpoints(reader: &Reader<'_>, root: &Spot<'_>) -> Vec<Item> {
    let files = reader.named(&root.list("endpoints"));
    let item = |file: &String| {
        let yaml = reader.read(file)?;
        let root = reader.root(&yaml);
        root.python_source();
        Some(Item {
            file: file.clone(),
            name: format!("{} {}", root.need_text("method"), root.need_text("path")),
            label: String::new(),
            parameters: Vec::new(),
        })
    };
    files.iter().filter_map(item).collect()
}
