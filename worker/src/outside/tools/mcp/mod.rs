//! Tools of MCP servers.
//!
//! [`protocol`] builds and reads messages. [`http`], [`sse`] and [`stdio`] transport them (one URL, two URLs as in the
//! oldest version, or a program); [`either`] finds out which of the first two a server has. [`convert`] converts
//! declarations and results. The first call connects to a server, and again after the server has lost the session.

pub mod convert;
mod either;
mod http;
pub mod protocol;
mod sse;
mod stdio;
mod waiting;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tidemill_common::config::HttpConfig;
use tidemill_common::limits::MCP_LIST_BYTES_MAX;
use tidemill_common::nodes::agent::servers::{NamedServer, ServerTransport};
use tidemill_common::nodes::tool::Declaration;
use tidemill_common::nodes::tool::config::McpConfig;
use tidemill_common::value::json_size;
use tidemill_common::warning::{TOOL_CONTENT_LEFT_OUT, Warning};

use crate::outside::tools::mcp::either::Either;
use crate::outside::tools::mcp::http::{Address, StreamableHttp};
use crate::outside::tools::mcp::protocol::McpError;
use crate::outside::tools::mcp::sse::TwoUrls;
use crate::outside::tools::mcp::stdio::Program;
use crate::outside::tools::operator_client::OperatorClient;
use crate::outside::tools::{
    MessageSink, Stage, ToolCall, ToolError, ToolName, ToolRuntime, ToolSettingError,
};

/// Most pages of a tool list, so that an endless list fails.
const PAGES_MAX: usize = 100;

/// Transports messages.
#[async_trait::async_trait]
trait Transport: Send + Sync {
    /// Sends a request and waits for its answer. `silence` is the longest time without any byte.
    async fn request(&self, method: &str, params: Json, silence: Duration) -> Result<Json, McpError>;
}

/// The transport to a server over HTTP; `None`: it has to be found out.
fn over_http(
    transport: Option<ServerTransport>,
    at: Address,
    stream_silence: Duration,
) -> Box<dyn Transport> {
    match transport {
        Some(ServerTransport::Sse) => Box::new(TwoUrls::new(at, stream_silence)),
        Some(ServerTransport::StreamableHttp) => Box::new(StreamableHttp::new(at)),
        None => Box::new(Either::new(at, stream_silence)),
    }
}

/// An MCP server; see the module.
pub struct McpServer {
    id: String,
    /// Where it is named, for messages.
    place: String,
    transport: Box<dyn Transport>,
    silence: Duration,
    tool_silence: Duration,
    believed: Duration,
    listed: Mutex<Option<(Instant, Vec<Declaration>)>>,
}

impl McpServer {
    /// Creates the server of `[tools.mcp.ID]` without connecting.
    ///
    /// # Errors
    /// A setting that cannot be used.
    pub(super) fn new(
        id: &str,
        config: &McpConfig,
        http: &HttpConfig,
        answer_bytes_max: u64,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ToolSettingError> {
        let wrong = |key: &str, reason: &str| ToolSettingError::new(format!("mcp.\"{id}\".{key}"), reason);
        let silence = Duration::from_secs(config.timeout_seconds);
        let transport: Box<dyn Transport> = match (config.url.is_empty(), config.command.is_empty()) {
            (false, true) => {
                let client = OperatorClient::new(http);
                let client = client.map_err(|error| ToolSettingError::new("http", error.to_string()))?;
                let at = Address::new(id, config, client, answer_bytes_max, variable)?;
                // Dify distinguishes the two transports this way.
                let two_urls = at.url.path().trim_end_matches('/').ends_with("/sse");
                let transport = two_urls.then_some(ServerTransport::Sse);
                over_http(transport, at, Duration::from_secs(config.read_seconds))
            }
            (true, false) => Box::new(Program::new(id, config, answer_bytes_max, variable)),
            (true, true) => {
                return Err(wrong("url", "give the server's url, or the command that is the server"));
            }
            (false, false) => return Err(wrong("url", "give url or command, not both")),
        };
        Ok(Self {
            id: id.to_owned(),
            place: format!("tools.mcp.\"{id}\""),
            transport,
            silence,
            tool_silence: Duration::from_secs(config.read_seconds),
            believed: Duration::from_secs(config.list_seconds),
            listed: Mutex::default(),
        })
    }

    /// Creates a server that a workflow names without connecting. `client` must have the guard.
    ///
    /// # Errors
    /// A URL or a header that cannot be used.
    pub(crate) fn named(
        server: &NamedServer,
        client: OperatorClient,
        answer_bytes_max: u64,
    ) -> Result<Self, ToolError> {
        let usual = McpConfig::default();
        let config = McpConfig {
            url: server.url.clone(),
            headers: server.headers.iter().cloned().collect(),
            timeout_seconds: server.timeout_seconds.unwrap_or(usual.timeout_seconds),
            read_seconds: server.read_seconds.unwrap_or(usual.read_seconds),
            ..usual
        };
        let refused = |error: ToolSettingError| {
            ToolError::unavailable(format!("MCP server {} of the agent: {}", server.name, error.reason))
        };
        let at = Address::new(&server.name, &config, client, answer_bytes_max, &|_| None).map_err(refused)?;
        let tool_silence = Duration::from_secs(config.read_seconds);
        let transport = if server.has_two_urls() { Some(ServerTransport::Sse) } else { server.transport };
        Ok(Self {
            id: server.name.clone(),
            place: format!("the agent's server {}", server.name),
            transport: over_http(transport, at, tool_silence),
            silence: Duration::from_secs(config.timeout_seconds),
            tool_silence,
            believed: Duration::from_secs(config.list_seconds),
            listed: Mutex::default(),
        })
    }

    fn listed(&self) -> MutexGuard<'_, Option<(Instant, Vec<Declaration>)>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached list of tools, if it is recent enough.
    fn believed(&self) -> Option<Vec<Declaration>> {
        let listed = self.listed();
        listed.as_ref().filter(|(at, _)| at.elapsed() < self.believed).map(|(_, tools)| tools.clone())
    }

    /// Asks the server for its tools now.
    async fn tools(&self) -> Result<Vec<Declaration>, ToolError> {
        let tools = self.ask().await.map_err(|error| {
            let message = format!("Failed to connect to MCP server: {error} ({})", self.place);
            let unavailable = ToolError::unavailable(message);
            if error.is_passing() { unavailable.passing() } else { unavailable }
        })?;
        *self.listed() = Some((Instant::now(), tools.clone()));
        Ok(tools)
    }

    async fn ask(&self) -> Result<Vec<Declaration>, McpError> {
        let (mut tools, mut cursor, mut bytes) = (Vec::new(), Json::Null, 0_usize);
        for _ in 0..PAGES_MAX {
            let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let page = self.transport.request("tools/list", params, self.silence).await?;
            bytes = bytes.saturating_add(json_size(&page));
            if bytes > MCP_LIST_BYTES_MAX {
                let message = format!(
                    "the list of tools has more than {MCP_LIST_BYTES_MAX} bytes (MCP_LIST_BYTES_MAX)"
                );
                return Err(McpError::Broken(message));
            }
            let listed = page.get("tools").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
            tools.extend(listed.iter().filter_map(convert::declaration));
            cursor = page.get("nextCursor").cloned().unwrap_or_default();
            if cursor.is_null() || cursor == "" {
                return Ok(tools);
            }
        }
        Err(McpError::Broken(format!("the list of tools has more than {PAGES_MAX} pages")))
    }
}

#[async_trait::async_trait]
impl ToolRuntime for McpServer {
    async fn parameters(&self, tool: &ToolName<'_>) -> Result<Option<Declaration>, ToolError> {
        let among = |tools: Vec<Declaration>| tools.into_iter().find(|one| one.name == tool.tool);
        if let Some(known) = self.believed().and_then(among) {
            return Ok(Some(known));
        }
        // The tool may have been added since.
        let found = among(self.tools().await?);
        let missing = || ToolError::unavailable(format!("MCP server {} has no tool {}", self.id, tool.tool));
        found.map(Some).ok_or_else(missing)
    }

    async fn list(&self, _: &str) -> Result<Vec<Declaration>, ToolError> {
        match self.believed() {
            Some(tools) => Ok(tools),
            None => self.tools().await,
        }
    }

    async fn invoke(
        &self,
        tool: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError> {
        let has_output_schema = self.parameters(tool).await?.is_some_and(|told| told.has_output_schema);
        let params = json!({"name": tool.tool, "arguments": convert::arguments(call.arguments)});
        let result = self.transport.request("tools/call", params, self.tool_silence).await;
        let result = result.map_err(|error| {
            let message = match &error {
                McpError::Unreachable(_) => format!("Failed to connect to MCP server: {error}"),
                McpError::Broken(_)
                | McpError::NotSpoken(_)
                | McpError::Silent(_)
                | McpError::Refused { .. }
                | McpError::Expired => {
                    format!("Failed to invoke tool: {error}")
                }
            };
            let failed = ToolError::new(Stage::Tool, message);
            if error.is_passing() { failed.passing() } else { failed }
        })?;
        for kind in convert::unknown_content(&result) {
            tracing::warn!(%kind, "an MCP server sent content of an unknown type; it is left out");
            if let Some((journal, ..)) = call.step {
                journal.warn(left_out(tool.tool, &kind));
            }
        }
        let messages = convert::messages(&result, has_output_schema);
        messages.map_err(|message| ToolError::new(Stage::Tool, message))?.into_iter().for_each(sink);
        Ok(())
    }
}

/// The warning that a part of a tool's answer was left out.
fn left_out(tool: &str, kind: &str) -> Warning {
    let message = format!("content of the type {kind:?} in the answer of tool {tool} was left out");
    Warning::new(TOOL_CONTENT_LEFT_OUT, message).about("tool", tool).about("content_type", kind)
}

#[cfg(test)]
mod tests;
