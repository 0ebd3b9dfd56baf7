//! Finds and calls tools. Tool nodes and agents look up a tool's name and get a [`Tool`]. Each source of tools has its
//! own module.
//!
//! The lookup order: [`openapi`] and [`mcp`] for the providers in the settings, [`workflow`] for apps of this
//! namespace, [`builtin`] for built-in tools, installed [`plugins`](crate::outside::plugins), [`bridge`] for all others, if a
//! service is set. [`operator_client`] calls servers
//! that the operator has named. [`by_tool`] finds the provider of a tool that names none.

pub mod bridge;
pub mod builtin;
mod by_tool;
pub(crate) mod called_run;
mod error;
pub mod mcp;
pub mod openapi;
pub(crate) mod operator_client;
pub mod workflow;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tidemill_common::config::{HttpConfig, ToolsConfig};
use tidemill_common::files::Files;
use tidemill_common::ids::RunId;
use tidemill_common::limits::RUN_TIME_PARAMETERS_SECONDS;
use tidemill_common::need::Need;
use tidemill_common::nodes::agent::servers::NamedServer;
use tidemill_common::nodes::tool::cast::cast;
use tidemill_common::nodes::tool::{Declaration, KnownParameters, Message, ProviderKind};
use tidemill_common::store::Jobs;
use tidemill_common::value::JsonMap;
use tidemill_common::warning::{TOOL_PARAMETERS_UNKNOWN, Warning};

use crate::attempt::journal::Journal;
use crate::outside::http::{Http, HttpSettingError};
use crate::outside::plugins::{FoundTool, PluginHost, is_question};
use crate::outside::tools::bridge::Bridge;
use crate::outside::tools::builtin::Builtin;
use crate::outside::tools::mcp::McpServer;
use crate::outside::tools::openapi::OpenApi;
use crate::outside::tools::operator_client::OperatorClient;
use crate::outside::tools::workflow::Workflows;

pub use crate::outside::tools::error::{Stage, ToolError, ToolSettingError};

/// A tool's name in a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolName<'a> {
    pub kind: ProviderKind,
    pub provider_id: &'a str,
    pub provider_name: &'a str,
    pub tool: &'a str,
    /// The plugin that the workflow names: `author/name:version`, with or without version and hash.
    pub plugin: Option<&'a str>,
}

/// The input of a call.
#[derive(Clone, Copy)]
pub struct ToolCall<'a> {
    /// The arguments by name, converted to their declared types.
    pub arguments: &'a JsonMap,
    /// The run that owns the call's files.
    pub run: &'a RunId,
    /// The guarded client, for addresses that a document chose.
    pub http: &'a Http,
    pub files: &'a dyn Files,
    /// The same for every try of this call.
    pub idempotency_key: &'a str,
    /// True if unknown servers get the key too (`tidemill.idempotency_key` of the node).
    pub sends_key: bool,
    /// The journal entry of the call and its try; `None` without a journal.
    pub step: Option<(&'a Journal, &'a str, u32)>,
    /// The tool's known parameters.
    pub known: KnownParameters<'a>,
    /// How many plugins have called one another until this call.
    pub nested: u32,
    /// Tools that a plugin may call back without approval; `None` if no tool needs one.
    pub auto_approved: Option<&'a [Arc<str>]>,
}

/// Receives messages as they arrive.
pub type MessageSink<'a> = &'a mut (dyn FnMut(Message) + Send);

/// A source of tools.
#[async_trait::async_trait]
pub trait ToolRuntime: Send + Sync {
    /// Returns the tool's declaration, or `None` if the source has none; then every argument is a parameter.
    ///
    /// # Errors
    /// The tool does not exist, or its source does not answer.
    async fn parameters(&self, tool: &ToolName<'_>) -> Result<Option<Declaration>, ToolError>;

    /// Lists all tools of the provider, for agents. Empty if the source cannot list them.
    ///
    /// # Errors
    /// As [`ToolRuntime::parameters`].
    async fn list(&self, provider_id: &str) -> Result<Vec<Declaration>, ToolError>;

    /// Calls the tool. Messages go to `sink` as they arrive. Dropping the future ends the call.
    ///
    /// # Errors
    /// The failure and its stage.
    async fn invoke(
        &self,
        tool: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError>;
}

/// The message for a secret in the arguments.
pub(crate) const NO_SECRETS: &str =
    "a secret cannot be passed to another workflow; define it as an environment variable of that workflow";

/// A tool that can be called.
pub struct Tool<'a> {
    pub name: ToolName<'a>,
    pub declaration: Option<Declaration>,
    /// The installed plugin that runs it: `author/name:version`.
    pub plugin: Option<String>,
    runtime: &'a dyn ToolRuntime,
}

impl Tool<'_> {
    /// Its parameters, if it declares them.
    pub fn known(&self) -> Option<KnownParameters<'_>> {
        self.declaration.as_ref().map(Declaration::known)
    }

    /// Converts arguments to their declared types, for callers whose arguments come from a model.
    ///
    /// # Errors
    /// Dify's message for a value that cannot be converted.
    pub fn cast(&self, mut arguments: JsonMap) -> Result<JsonMap, String> {
        let known = self.known().unwrap_or(KnownParameters::NOTHING);
        for (name, value) in &mut arguments {
            if let Some(parameter) = known.find(name) {
                *value = cast(parameter.ty, value)?;
            }
        }
        Ok(arguments)
    }

    /// Calls the tool; see [`ToolRuntime::invoke`].
    ///
    /// # Errors
    /// As there, and for a secret among the arguments of a workflow, because it would be stored unmasked as another
    /// run's input.
    pub async fn invoke(&self, call: ToolCall<'_>, sink: MessageSink<'_>) -> Result<(), ToolError> {
        let secrets = call.step.map(|(journal, ..)| journal.secrets());
        if self.name.kind == ProviderKind::Workflow && secrets.is_some_and(|all| all.are_in(call.arguments)) {
            return Err(ToolError::new(Stage::Invoke, NO_SECRETS));
        }
        let name = ToolName { plugin: self.plugin.as_deref().or(self.name.plugin), ..self.name };
        self.runtime.invoke(&name, call, sink).await
    }
}

/// All sources of tools.
pub struct Tools {
    bridge: Option<Bridge>,
    builtin: Option<Builtin>,
    workflows: Option<Workflows>,
    api: BTreeMap<String, OpenApi>,
    mcp: BTreeMap<String, McpServer>,
    plugins: Option<Arc<PluginHost>>,
    /// The client for servers that workflows name.
    guarded: OperatorClient,
    answer_bytes_max: u64,
}

/// An MCP server for an agent.
pub(crate) enum AgentServer<'a> {
    /// One of the settings, which has the name that the agent uses.
    OfSettings(&'a McpServer),
    /// One that the agent names. It lives as long as the execution.
    Named(Box<McpServer>),
}

impl AgentServer<'_> {
    fn runtime(&self) -> &McpServer {
        match self {
            Self::OfSettings(server) => server,
            Self::Named(server) => server,
        }
    }

    /// Asks the server for its tools.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn list(&self) -> Result<Vec<Declaration>, ToolError> {
        self.runtime().list("").await
    }

    /// One of its tools, with the declaration that [`AgentServer::list`] returned.
    pub(crate) fn tool<'t>(&'t self, name: ToolName<'t>, declaration: Declaration) -> Tool<'t> {
        Tool { name, declaration: Some(declaration), plugin: None, runtime: self.runtime() }
    }
}

impl Tools {
    /// Creates the sources from the settings. Documents are read now. Servers, and documents that a manifest names, are
    /// first contacted when needed.
    ///
    /// # Errors
    /// A setting that cannot be used.
    pub fn new(config: &ToolsConfig, http: &HttpConfig) -> Result<Self, ToolSettingError> {
        let variable = |name: &str| tidemill_common::config::variable(name);
        let own = |error: HttpSettingError| ToolSettingError::new("http", error.to_string());
        let api = config.api.iter().map(|(id, one)| {
            let way = OpenApi::new(id, one, &variable, (http, config.answer_bytes_max))?;
            Ok((id.clone(), way))
        });
        let mcp = config.mcp.iter().map(|(id, one)| {
            let server = McpServer::new(id, one, http, config.answer_bytes_max, &variable)?;
            Ok((id.clone(), server))
        });
        Ok(Self {
            bridge: match config.endpoint.as_str() {
                "" => None,
                _ => Some(Bridge::new(config, OperatorClient::new(http).map_err(own)?)?),
            },
            builtin: config.builtin.then_some(Builtin),
            workflows: config.workflows.then(|| Workflows::new(Duration::from_secs(config.describe_seconds))),
            api: api.collect::<Result<_, ToolSettingError>>()?,
            mcp: mcp.collect::<Result<_, ToolSettingError>>()?,
            plugins: None,
            guarded: OperatorClient::guarded(http).map_err(own)?,
            answer_bytes_max: config.answer_bytes_max,
        })
    }

    /// Adds the store with the declarations of apps.
    #[must_use]
    pub fn with_apps_in(self, jobs: Arc<dyn Jobs>) -> Self {
        Self { workflows: self.workflows.map(|workflows| workflows.kept_in(jobs)), ..self }
    }

    /// Adds the installed plugins.
    #[must_use]
    pub(crate) fn with_plugins(self, plugins: Arc<PluginHost>) -> Self {
        Self { plugins: Some(plugins), ..self }
    }

    /// Finds a tool with its declaration.
    ///
    /// # Errors
    /// No source has the tool, or its source does not answer.
    pub async fn find<'a>(&'a self, name: ToolName<'a>) -> Result<Tool<'a>, ToolError> {
        let name = match name.kind {
            ProviderKind::Any => self.by_tool(name).await?,
            _ => name,
        };
        if let Some(plugins) = self.plugins.as_ref().filter(|_| self.may_be_plugin(&name))
            && let Some(FoundTool { plugin, declaration }) =
                plugins.find(&name, self.bridge.is_some()).await?
        {
            let runtime: &dyn ToolRuntime = &**plugins;
            return Ok(Tool { name, declaration: Some(declaration), plugin: Some(plugin), runtime });
        }
        let runtime = self.runtime(&name)?;
        let declaration = runtime.parameters(&name).await?;
        Ok(Tool { name, declaration, plugin: None, runtime })
    }

    /// Finds a tool, or a question, of an installed plugin; `None` if the plugin is not installed.
    ///
    /// # Errors
    /// The plugin is not ready on this worker, or has no such tool.
    pub(crate) async fn of_plugin<'a>(&'a self, name: ToolName<'a>) -> Result<Option<Tool<'a>>, ToolError> {
        let Some(plugins) = &self.plugins else { return Ok(None) };
        let found = plugins.find(&name, false).await?;
        Ok(found.map(|FoundTool { plugin, declaration }| {
            let runtime: &dyn ToolRuntime = &**plugins;
            Tool { name, declaration: Some(declaration), plugin: Some(plugin), runtime }
        }))
    }

    /// Finds a tool for a model. [`Tools::at_run_time`] then asks for the parameters that it has at run time.
    ///
    /// # Errors
    /// As [`Tools::find`], or the name is that of a question to a plugin.
    pub(crate) async fn find_for_model<'a>(&'a self, name: ToolName<'a>) -> Result<Tool<'a>, ToolError> {
        if is_question(name.tool) {
            return Err(ToolError::unavailable(format!("{} is no tool that a model can call", name.tool)));
        }
        self.find(name).await
    }

    /// Asks the plugins of tools, all at once, for the parameters that the tools have at run time, for a model. A tool whose plugin
    /// does not answer keeps those that it declares, and there is a warning about it.
    pub(crate) async fn at_run_time(&self, tools: &mut [Tool<'_>], run: &RunId) -> Vec<Warning> {
        let Some(plugins) = &self.plugins else { return Vec::new() };
        let asked = join_all(tools.iter_mut().map(|tool| at_run_time(plugins, tool, run))).await;
        asked.into_iter().flatten().collect()
    }

    /// Tests whether an installed plugin can have the tool: those of this program come first.
    fn may_be_plugin(&self, name: &ToolName<'_>) -> bool {
        let is_builtin = self.builtin.as_ref().is_some_and(|builtin| builtin.has(name.provider_id));
        matches!(name.kind, ProviderKind::Builtin | ProviderKind::Plugin) && !is_builtin
    }

    /// Lists all tools of a provider, for agents.
    ///
    /// # Errors
    /// No source has the provider, or its source does not answer.
    pub async fn list(&self, provider: &ToolName<'_>) -> Result<Vec<Declaration>, ToolError> {
        self.runtime(provider)?.list(provider.provider_id).await
    }

    /// The installed plugins.
    pub(crate) fn plugins(&self) -> Option<&PluginHost> {
        self.plugins.as_deref()
    }

    /// Finds an MCP server that an agent names: one of the settings with this name (keys and private addresses belong
    /// there), else the one at its URL, through the guard.
    ///
    /// # Errors
    /// The settings have no such server, and its URL cannot be used.
    pub(crate) fn server(&self, named: &NamedServer) -> Result<AgentServer<'_>, ToolError> {
        if let Some(known) = self.mcp.get(&named.name) {
            return Ok(AgentServer::OfSettings(known));
        }
        if named.url.is_empty() {
            let name = &named.name;
            return Err(ToolError::unavailable(format!(
                "the agent's MCP server {name} has no url: add [tools.mcp.\"{name}\"] to the worker's settings, with its \
                 url or its command"
            )));
        }
        let server = McpServer::named(named, self.guarded.clone(), self.answer_bytes_max)?;
        Ok(AgentServer::Named(Box::new(server)))
    }

    /// Lists the sources, for the record of this worker.
    pub(crate) fn sources(&self) -> Vec<String> {
        let named = (self.api.keys(), self.mcp.keys());
        list_sources(named, self.builtin.is_some(), self.workflows.is_some(), self.bridge.is_some())
    }

    fn runtime(&self, name: &ToolName<'_>) -> Result<&dyn ToolRuntime, ToolError> {
        let own: Option<&dyn ToolRuntime> = match name.kind {
            ProviderKind::Api => named(&self.api, name).map(|way| way as &dyn ToolRuntime),
            ProviderKind::Mcp => named(&self.mcp, name).map(|way| way as &dyn ToolRuntime),
            ProviderKind::Builtin | ProviderKind::Plugin => {
                let builtin = self.builtin.as_ref().filter(|builtin| builtin.has(name.provider_id));
                builtin.map(|way| way as &dyn ToolRuntime)
            }
            ProviderKind::Workflow => self.workflows.as_ref().map(|way| way as &dyn ToolRuntime),
            ProviderKind::App | ProviderKind::DatasetRetrieval | ProviderKind::Any => None,
        };
        let bridge = self.bridge.as_ref().map(|way| way as &dyn ToolRuntime);
        own.or(bridge).ok_or_else(|| {
            let (kind, provider, also) = (name.kind.name(), name.provider_id, name.provider_name);
            let need = Need::Tool { kind: kind.into(), provider: provider.into(), also: also.into() };
            ToolError::unavailable(nobody_has(name)).lacking(need)
        })
    }
}

/// Gives a tool the parameters that it has at run time. Returns a warning if they are not known.
async fn at_run_time(plugins: &PluginHost, tool: &mut Tool<'_>, run: &RunId) -> Option<Warning> {
    let changes = tool.declaration.as_ref().is_some_and(|declaration| declaration.takes_more);
    let plugin = tool.plugin.clone().filter(|_| changes)?;
    let exact = ToolName { plugin: Some(&plugin), ..tool.name };
    let most = Duration::from_secs(RUN_TIME_PARAMETERS_SECONDS);
    let reason = match tokio::time::timeout(most, plugins.at_run_time(&exact, run)).await {
        Ok(Ok(declaration)) => {
            tool.declaration = declaration.or(tool.declaration.take());
            return None;
        }
        Ok(Err(error)) => error.message,
        Err(_) => format!("the plugin has not answered within {} s", most.as_secs()),
    };
    let name = tool.name.tool;
    let message = format!(
        "the model gets only the parameters that the tool {name} declares, and not those that it has at run time: {reason}"
    );
    Some(Warning::new(TOOL_PARAMETERS_UNKNOWN, message).about("tool", name))
}

/// Lists the sources that settings name, as [`Tools::sources`] lists those of a worker.
pub(crate) fn sources_set(config: &ToolsConfig) -> Vec<String> {
    let named = (config.api.keys(), config.mcp.keys());
    list_sources(named, config.builtin, config.workflows, !config.endpoint.is_empty())
}

fn list_sources<'a>(
    (api, mcp): (impl Iterator<Item = &'a String>, impl Iterator<Item = &'a String>),
    has_builtin: bool,
    has_workflows: bool,
    has_service: bool,
) -> Vec<String> {
    let api = api.map(|id| source_of(ProviderKind::Api.name(), id));
    let mcp = mcp.map(|id| source_of(ProviderKind::Mcp.name(), id));
    let mut sources: Vec<String> = api.chain(mcp).collect();
    if has_builtin {
        sources.extend(builtin::names().map(|id| source_of(ProviderKind::Builtin.name(), id)));
    }
    sources.extend(has_workflows.then(|| source_of(ProviderKind::Workflow.name(), "")));
    sources.extend(has_service.then(|| SERVICE.to_owned()));
    sources
}

/// A source that runs all tools that no other one has.
const SERVICE: &str = "service";

/// The name of a source of tools in records of workers. Apps of the namespace are one source.
pub(crate) fn source_of(kind: &str, provider: &str) -> String {
    match ProviderKind::from_name(kind) {
        Some(ProviderKind::Workflow) => "workflow".into(),
        Some(ProviderKind::Plugin | ProviderKind::Builtin) => {
            format!("{}:{}", ProviderKind::Builtin.name(), builtin::short_name(provider))
        }
        Some(_) | None => format!("{kind}:{provider}"),
    }
}

fn named<'a, T>(all: &'a BTreeMap<String, T>, name: &ToolName<'_>) -> Option<&'a T> {
    all.get(name.provider_id).or_else(|| all.get(name.provider_name))
}

fn nobody_has(name: &ToolName<'_>) -> String {
    let id = name.provider_id;
    let service = "name a service that runs tools in tools.endpoint";
    match name.kind {
        ProviderKind::Api => {
            format!("no OpenAPI document is set for provider {id}: add [tools.api.\"{id}\"], or {service}")
        }
        ProviderKind::Mcp => {
            format!("no MCP server is set for provider {id}: add [tools.mcp.\"{id}\"], or {service}")
        }
        ProviderKind::Workflow => {
            format!(
                "workflow {id} cannot be called as a tool by this worker: set tools.workflows, or {service}"
            )
        }
        ProviderKind::Plugin
        | ProviderKind::Builtin
        | ProviderKind::App
        | ProviderKind::DatasetRetrieval
        | ProviderKind::Any => {
            format!(
                "provider {id} is not part of this program: install its plugin (`tidemill plugins add`), or {service}"
            )
        }
    }
}
