//! Agent strategies of other plugins than `langgenius/agent`, and the MCP servers that their parameters name.

use serde_json::Value as Json;

use super::{Found, NodeView, Requirement, map_of};
use crate::kinds::NodeKind;

/// The plugin whose strategies are part of this program.
const OWN: &str = "langgenius/agent/";

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    if node.kind != NodeKind::Agent {
        return;
    }
    let (provider, strategy) = (node.text("agent_strategy_provider_name"), node.text("agent_strategy_name"));
    if !strategy.is_empty() && !provider.is_empty() && !provider.starts_with(OWN) {
        found.add(Requirement::Strategy { provider: provider.into(), strategy: strategy.into() });
    }
    let parameters = map_of(node.data, "agent_parameters");
    let value = |key: &str| parameters.and_then(|all| all.get(key)?.get("value")?.as_str());
    if let Some(url) = value("mcp_server").filter(|url| url.starts_with("http")) {
        found.add(Requirement::McpServer { url: without_query(url) });
    }
    for key in ["mcp_servers_config", "mcp_servers", "servers_config"] {
        let servers = value(key).and_then(|text| serde_json::from_str::<Json>(text).ok());
        let servers = servers.as_ref().map(|all| all.get("mcpServers").unwrap_or(all));
        for server in servers.and_then(Json::as_object).into_iter().flat_map(|all| all.values()) {
            if let Some(url) = server.get("url").and_then(Json::as_str) {
                found.add(Requirement::McpServer { url: without_query(url) });
            }
        }
    }
}

/// The address without its query, which often has a key.
fn without_query(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}
