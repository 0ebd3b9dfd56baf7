//! Agent strategies of plugins that do not run here, and the MCP servers that the parameters of an agent name.

use super::hosts::host_of;
use super::{Found, NodeView, Requirement, map_of};
use crate::kinds::NodeKind;
use crate::nodes::agent::servers;
use tidemill_base::value::JsonMap;

/// The plugin whose strategies are part of this program.
const OWN: &str = "langgenius/agent";

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    if node.kind != NodeKind::Agent {
        return;
    }
    let (provider, strategy) = (node.text("agent_strategy_provider_name"), node.text("agent_strategy_name"));
    let parameters = map_of(node.data, "agent_parameters");
    // Strategies with MCP servers run, whatever their plugin.
    let has_servers =
        servers::PARAMETERS.iter().any(|name| parameters.is_some_and(|all| all.contains_key(*name)));
    if !has_servers && provider.contains('/') && !provider.starts_with(OWN) {
        found.add(Requirement::Strategy { provider: provider.into(), strategy: strategy.into() });
    }
    for name in servers::PARAMETERS {
        let Some(value) = parameters.and_then(|all| all.get(name)?.get("value")) else { continue };
        let given: JsonMap = [(name.to_owned(), value.clone())].into_iter().collect();
        // A text with variables may be no JSON before they are filled in.
        for server in servers::read(&given).unwrap_or_default() {
            let url = without_query(&server.url);
            if let Some(host) = host_of(&url) {
                found.add(Requirement::Host { host });
            }
            found.add(Requirement::McpServer { name: server.name, url });
        }
    }
}

/// The address without its query, which often has a key.
fn without_query(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}
