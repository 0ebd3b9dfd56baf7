//! The tools of the MCP servers that an agent's parameters name, as the agent plugins with MCP have them. Each server is
//! asked for its tools once, before the first round; it is one of the settings, or is reached through the guard.

use futures_util::future::try_join_all;
use tidemill_common::nodes::agent::parameters::AgentTool;
use tidemill_common::nodes::agent::servers::NamedServer;
use tidemill_common::nodes::tool::{Declaration, ProviderKind};
use tidemill_common::value::JsonMap;

use super::rounds::Unready;
use crate::outside::tools::{AgentServer, Tool, ToolName, Tools};

/// A server with its tools.
pub(super) struct Offering<'a> {
    server: AgentServer<'a>,
    tools: Vec<(AgentTool, Declaration)>,
}

/// Connects to the servers and lists their tools.
///
/// # Errors
/// A server that cannot be used or does not answer.
pub(super) async fn ask<'a>(servers: &[NamedServer], tools: &'a Tools) -> Result<Vec<Offering<'a>>, Unready> {
    try_join_all(servers.iter().map(|named| one(named, tools))).await
}

async fn one<'a>(named: &NamedServer, tools: &'a Tools) -> Result<Offering<'a>, Unready> {
    let server = tools.server(named).map_err(Unready::from)?;
    let declared = server.list().await.map_err(Unready::from)?;
    let given = |declaration: Declaration| {
        let tool = AgentTool {
            kind: ProviderKind::Mcp,
            provider: named.name.clone(),
            name: declaration.name.clone(),
            plugin: None,
            description: None,
            fixed: JsonMap::new(),
        };
        (tool, declaration)
    };
    Ok(Offering { server, tools: declared.into_iter().map(given).collect() })
}

impl Offering<'_> {
    /// The tools, as the author's own tools are described.
    pub(super) fn tools(&self) -> impl Iterator<Item = (&AgentTool, Tool<'_>)> {
        self.tools.iter().map(|(given, declaration)| {
            let name = ToolName {
                kind: given.kind,
                provider_id: &given.provider,
                provider_name: &given.provider,
                tool: &given.name,
                plugin: None,
            };
            (given, self.server.tool(name, declaration.clone()))
        })
    }
}
