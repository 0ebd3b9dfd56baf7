//! Agent strategies that only their plugins have, and the MCP servers that the parameters of an agent name.

use super::hosts::host_of;
use super::tools::plugin;
use super::{Found, NodeView, Requirement, map_of};
use crate::kinds::NodeKind;
use crate::nodes::agent::{Strategy, servers};
use tidemill_base::hidden::masked_url;
use tidemill_base::value::JsonMap;

/// The plugin whose strategies are part of this program.
const OWN: &str = "langgenius/agent";

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    if node.kind != NodeKind::Agent {
        return;
    }
    let (provider, strategy) = (node.text("agent_strategy_provider_name"), node.text("agent_strategy_name"));
    let parameters = map_of(node.data, "agent_parameters");
    // Strategies for MCP servers run, whatever their plugin.
    let has_servers =
        servers::PARAMETERS.iter().any(|name| parameters.is_some_and(|all| all.contains_key(*name)));
    if !has_servers && !Strategy::is_for_mcp(strategy) && provider.contains('/') && !provider.starts_with(OWN)
    {
        let plugin = plugin(node.text("plugin_unique_identifier"), provider);
        found.add(Requirement::Strategy { provider: provider.into(), strategy: strategy.into(), plugin });
    }
    for name in servers::PARAMETERS {
        let Some(value) = parameters.and_then(|all| all.get(name)?.get("value")) else { continue };
        let given: JsonMap = [(name.to_owned(), value.clone())].into_iter().collect();
        // A text with variables may be no JSON before they are filled in.
        for server in servers::read(&given).unwrap_or_default() {
            if let Some(host) = host_of(&server.url) {
                found.add(Requirement::Host { host });
            }
            found.add(Requirement::McpServer { name: server.name, url: shown(&server.url) });
        }
    }
}

/// The scheme, the host and the port of an address. The path and the query often have a key. Empty for a text that is no
/// address before its variables are filled in.
fn shown(url: &str) -> String {
    let masked = masked_url(url);
    let Some((scheme, rest)) = masked.split_once("://") else { return String::new() };
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let more = if path.trim_matches('/').is_empty() { "" } else { "/…" };
    format!("{scheme}://{host}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_of_an_address_is_shown() {
        for (url, expected) in [
            ("https://a.example/mcp/hush", "https://a.example/…"),
            ("https://a.example:8443?key=hush", "https://a.example:8443/…"),
            ("https://a.example/", "https://a.example"),
            ("http://10.0.0.1:80", "http://10.0.0.1:80"),
            ("{{#env.hush#}}", ""),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
        assert!(!shown("https://me:hush@a.example/x").contains("hush"));
        assert!(!shown("https://me:hu/sh@a.example/x").contains("sh@"));
    }
}
