//! The ways to tools: who has a tool, what it says of itself, and how it is called. Tool nodes and agents come here with a
//! tool's name and get [`Tool`]; what a way is (this program, a service, an OpenAPI document, an MCP server) only its file
//! knows.
//!
//! In the order in which a name is looked up: [`openapi`] and [`mcp`] for the providers that the settings name, [`workflow`]
//! for apps of this namespace, [`builtin`] for what is part of this program, [`bridge`] for all else, if there is one. [`door`] is the way out to
//! servers that the operator has named.

pub mod bridge;
pub mod builtin;
pub(crate) mod door;
mod error;
pub mod mcp;
pub mod openapi;
pub mod workflow;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::config::{HttpConfig, ToolsConfig};
use tidemill_common::files::Files;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::tool::cast::cast;
use tidemill_common::nodes::tool::{Declaration, Known, Message, ProviderKind};
use tidemill_common::store::Jobs;
use tidemill_common::value::JsonMap;

use crate::http::{Http, HttpSettingError};
use crate::steps::Steps;
use bridge::Bridge;
use builtin::Builtin;
use mcp::McpServer;
use openapi::OpenApi;
use workflow::Workflows;

pub use error::{Stage, ToolError, ToolSettingError};

/// A tool, as workflows name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolName<'a> {
    /// The kind of its provider.
    pub kind: ProviderKind,
    /// The provider's id.
    pub provider_id: &'a str,
    /// The provider's name.
    pub provider_name: &'a str,
    /// The tool's name.
    pub tool: &'a str,
}

/// What a call is given.
#[derive(Clone, Copy)]
pub struct ToolCall<'a> {
    /// The arguments by name, under the declared types.
    pub arguments: &'a JsonMap,
    /// Whose files its files are.
    pub run: &'a RunId,
    /// The guarded way out, for addresses that a document chose.
    pub http: &'a Http,
    /// Where files lie.
    pub files: &'a dyn Files,
    /// The same for every try of this call.
    pub idempotency_key: &'a str,
    /// Whether servers that nobody knows get the key too (`tidemill.idempotency_key` of the node).
    pub sends_key: bool,
    /// The step of the job that the call is, and its try; none where nothing is remembered.
    pub step: Option<(&'a Steps, &'a str, u32)>,
    /// The parameters that the tool is known to have.
    pub known: Known<'a>,
}

/// Takes messages as they come.
pub type MessageSink<'a> = &'a mut (dyn FnMut(Message) + Send);

/// One way to tools.
#[async_trait::async_trait]
pub trait ToolRuntime: Send + Sync {
    /// What the tool says of itself; none when it does not tell, and then everything that it is given is a parameter.
    ///
    /// # Errors
    /// There is no such tool, or nobody who could say so.
    async fn parameters(&self, tool: &ToolName<'_>) -> Result<Option<Declaration>, ToolError>;

    /// All tools of the provider, for agents; empty where they cannot be told.
    ///
    /// # Errors
    /// As [`ToolRuntime::parameters`].
    async fn list(&self, provider_id: &str) -> Result<Vec<Declaration>, ToolError>;

    /// Calls the tool. Messages go to `sink` as they come. Dropping the future ends the call.
    ///
    /// # Errors
    /// What went wrong, and at which stage.
    async fn invoke(
        &self,
        tool: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError>;
}

/// Why a secret is no argument.
const NO_SECRETS: &str =
    "a secret cannot be handed to another workflow; give that one an environment variable of its own";

/// A tool that can be called.
pub struct Tool<'a> {
    /// What it is called.
    pub name: ToolName<'a>,
    /// What it says of itself.
    pub declaration: Option<Declaration>,
    runtime: &'a dyn ToolRuntime,
}

impl Tool<'_> {
    /// Its parameters, if it tells them.
    pub fn known(&self) -> Option<Known<'_>> {
        self.declaration.as_ref().map(Declaration::known)
    }

    /// The arguments under the declared types, for callers whose arguments come from a model.
    ///
    /// # Errors
    /// What Dify says of a value that cannot have the type.
    pub fn cast(&self, mut arguments: JsonMap) -> Result<JsonMap, String> {
        let known = self.known().unwrap_or(Known::NOTHING);
        for (name, value) in &mut arguments {
            if let Some(parameter) = known.find(name) {
                *value = cast(parameter.ty, value)?;
            }
        }
        Ok(arguments)
    }

    /// Calls it; see [`ToolRuntime::invoke`].
    ///
    /// # Errors
    /// As there, and for a secret among the arguments of a workflow: they would lie in the open as another run's inputs.
    pub async fn invoke(&self, call: ToolCall<'_>, sink: MessageSink<'_>) -> Result<(), ToolError> {
        let secrets = call.step.map(|(steps, ..)| steps.secrets());
        if self.name.kind == ProviderKind::Workflow && secrets.is_some_and(|all| all.are_in(call.arguments)) {
            return Err(ToolError::new(Stage::Invoke, NO_SECRETS));
        }
        self.runtime.invoke(&self.name, call, sink).await
    }
}

/// All ways to tools.
pub struct Tools {
    bridge: Option<Bridge>,
    builtin: Option<Builtin>,
    workflows: Option<Workflows>,
    api: BTreeMap<String, OpenApi>,
    mcp: BTreeMap<String, McpServer>,
}

impl Tools {
    /// The ways that the settings describe. Documents are read now; servers, and documents that a manifest names, are asked when they are needed.
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
                _ => Some(Bridge::new(config, door::Door::new(http).map_err(own)?)?),
            },
            builtin: config.builtin.then_some(Builtin),
            workflows: config.workflows.then(|| Workflows::new(Duration::from_secs(config.describe_seconds))),
            api: api.collect::<Result<_, ToolSettingError>>()?,
            mcp: mcp.collect::<Result<_, ToolSettingError>>()?,
        })
    }

    /// With apps that say of themselves what is kept there.
    #[must_use]
    pub fn with_apps_in(self, jobs: Arc<dyn Jobs>) -> Self {
        Self { workflows: self.workflows.map(|workflows| workflows.kept_in(jobs)), ..self }
    }

    /// The tool of a name, with what it says of itself.
    ///
    /// # Errors
    /// Nobody has it, or nobody answers.
    pub async fn find<'a>(&'a self, name: ToolName<'a>) -> Result<Tool<'a>, ToolError> {
        let runtime = self.runtime(&name)?;
        let declaration = runtime.parameters(&name).await?;
        Ok(Tool { name, declaration, runtime })
    }

    /// All tools of a provider, for agents.
    ///
    /// # Errors
    /// Nobody has the provider, or nobody answers.
    pub async fn list(&self, provider: &ToolName<'_>) -> Result<Vec<Declaration>, ToolError> {
        self.runtime(provider)?.list(provider.provider_id).await
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
            ProviderKind::App | ProviderKind::DatasetRetrieval => None,
        };
        let bridge = self.bridge.as_ref().map(|way| way as &dyn ToolRuntime);
        own.or(bridge).ok_or_else(|| ToolError::unavailable(nobody_has(name)))
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
        ProviderKind::Plugin | ProviderKind::Builtin | ProviderKind::App | ProviderKind::DatasetRetrieval => {
            format!("provider {id} is not part of this program: {service}")
        }
    }
}
