//! Tools: of tool nodes and of agents. A tool node of a datasource kind is no tool.

use serde_json::Value as Json;

use super::{Found, NodeView, Requirement, map_of, text};
use crate::kinds::NodeKind;
use crate::nodes::tool::ProviderKind;
use tidemill_base::value::JsonMap;

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    match node.kind {
        NodeKind::Tool => {
            let kind = node.text("provider_type");
            let provider = node.text("provider_id");
            let plugin = plugin(node.text("plugin_unique_identifier"), provider);
            add(kind, (provider, node.text("provider_name")), node.text("tool_name"), plugin, found);
        }
        NodeKind::Agent => {
            let tools = map_of(node.data, "agent_parameters").and_then(|all| map_of(all, "tools"));
            for tool in tools.and_then(|tools| tools.get("value")?.as_array()).into_iter().flatten() {
                of_agent(tool, found);
            }
        }
        _ => {}
    }
}

/// Adds a tool that an agent may call, unless it is switched off.
fn of_agent(tool: &Json, found: &mut Found) {
    let Some(tool) = tool.as_object() else { return };
    if tool.get("enabled").and_then(Json::as_bool) != Some(true) {
        return;
    }
    let shown = first(tool, &["provider_show_name", "provider_name"]);
    // The agent looks its provider up by `provider_name`.
    let provider = text(tool, "provider_name");
    let plugin = plugin(text(tool, "plugin_unique_identifier"), provider);
    add(text(tool, "type"), (provider, shown), text(tool, "tool_name"), plugin, found);
}

/// The plugin that an identifier (`author/name:version@hash`) or the id of a provider (`author/name/provider`) names.
pub(super) fn plugin(identifier: &str, provider: &str) -> Option<String> {
    let id = identifier.split('@').next().unwrap_or_default();
    let is_named = |name: &str| {
        name.split_once('/').is_some_and(|(author, rest)| {
            !author.is_empty() && !rest.is_empty() && !rest.contains('/') && !rest.starts_with(':')
        })
    };
    if is_named(id) {
        return Some(id.to_owned());
    }
    let parts: Vec<&str> = provider.split('/').collect();
    match parts[..] {
        [author, name, _] | [author, name] if !author.is_empty() && !name.is_empty() => {
            Some(format!("{author}/{name}"))
        }
        _ => None,
    }
}

fn first<'a>(map: &'a JsonMap, keys: &[&str]) -> &'a str {
    keys.iter().map(|key| text(map, key)).find(|text| !text.is_empty()).unwrap_or_default()
}

fn add(kind: &str, (provider, name): (&str, &str), tool: &str, plugin: Option<String>, found: &mut Found) {
    let kind = if kind.is_empty() {
        ProviderKind::Builtin
    } else {
        match ProviderKind::from_name(kind) {
            Some(kind) => kind,
            None => return,
        }
    };
    let provider = if provider.is_empty() { name } else { provider };
    if !provider.is_empty() {
        let name = if name == provider { "" } else { name };
        found.add(Requirement::Tool {
            kind,
            provider: provider.into(),
            name: name.into(),
            tool: tool.into(),
            plugin: plugin.filter(|_| matches!(kind, ProviderKind::Builtin | ProviderKind::Plugin)),
        });
    }
}
