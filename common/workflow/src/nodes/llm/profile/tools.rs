//! Parses the tools of a node: in short form `provider/tool`, or with fixed arguments. Lists in the format of agents
//! are accepted too.

use serde_json::Value as Json;

use super::super::blocks::INVALID;
use crate::dsl::Problems;
use crate::nodes::agent::parameters::{AgentTool, plugin};
use crate::nodes::tool::ProviderKind;
use tidemill_base::value::JsonMap;

pub(super) fn parse(value: Option<&Json>, problems: &mut Problems) -> Option<Vec<AgentTool>> {
    let items = match value {
        None => return Some(Vec::new()),
        Some(Json::Array(items)) => items,
        Some(_) => {
            problems.error(INVALID, "tools must be a list");
            return None;
        }
    };
    let mut tools: Vec<AgentTool> = Vec::with_capacity(items.len());
    let mut all = true;
    for (at, item) in items.iter().enumerate() {
        problems.within(format!("[{at}]"), |problems| match one(item) {
            Ok(Some(tool)) if tools.iter().any(|known| known.name == tool.name) => {
                problems.error(INVALID, format!("there are two tools named {}", tool.name));
                all = false;
            }
            Ok(tool) => tools.extend(tool),
            Err(message) => {
                problems.error(INVALID, message);
                all = false;
            }
        });
    }
    all.then_some(tools)
}

/// A tool. `None` when it is disabled.
fn one(item: &Json) -> Result<Option<AgentTool>, String> {
    const SHAPE: &str = "a tool is written provider/tool, or as a mapping with type, provider and tool";
    if let Json::String(short) = item {
        let (provider, name) = short.rsplit_once('/').ok_or(SHAPE)?;
        return Ok(Some(tool(ProviderKind::Builtin, provider, name, None, JsonMap::new())));
    }
    let map = item.as_object().ok_or(SHAPE)?;
    if map.get("enabled") == Some(&Json::Bool(false)) {
        return Ok(None);
    }
    let text =
        |keys: &[&str]| keys.iter().find_map(|key| map.get(*key)?.as_str()).filter(|text| !text.is_empty());
    let kind = match text(&["type"]) {
        None => ProviderKind::Builtin,
        Some(name) => {
            ProviderKind::from_name(name).ok_or_else(|| format!("{name:?} is not a type of tool"))?
        }
    };
    let name = text(&["tool", "tool_name", "name"]).ok_or(SHAPE)?;
    let provider = text(&["provider", "provider_name", "provider_id"]).ok_or(SHAPE)?;
    let extra = map.get("extra").and_then(|extra| extra.get("description")?.as_str());
    let description = text(&["description"]).or(extra).filter(|text| !text.is_empty());
    let mut fixed = JsonMap::new();
    for key in ["settings", "parameters"] {
        for (name, value) in map.get(key).and_then(Json::as_object).into_iter().flatten() {
            if let Some(value) = constant(value)? {
                fixed.insert(name.clone(), value);
            }
        }
    }
    Ok(Some(AgentTool { plugin: plugin(item), ..tool(kind, provider, name, description, fixed) }))
}

fn tool(
    kind: ProviderKind,
    provider: &str,
    name: &str,
    description: Option<&str>,
    fixed: JsonMap,
) -> AgentTool {
    let (provider, name) = (provider.to_owned(), name.to_owned());
    AgentTool { kind, provider, name, plugin: None, description: description.map(str::to_owned), fixed }
}

/// A fixed argument. `None` when the model chooses it.
fn constant(value: &Json) -> Result<Option<Json>, String> {
    // The format of agents: a flag for the model's choice, otherwise a value with its type.
    let Some(map) = value.as_object().filter(|map| map.contains_key("auto") || map.contains_key("value"))
    else {
        return Ok(Some(value.clone()).filter(|value| !value.is_null()));
    };
    if map.get("auto").and_then(Json::as_i64) == Some(1) {
        return Ok(None);
    }
    let value = map.get("value").unwrap_or(&Json::Null);
    match value.get("type").and_then(Json::as_str) {
        Some("variable") => Err("arguments that are fixed must be values, not variables".into()),
        Some(_) => Ok(value.get("value").filter(|value| !value.is_null()).cloned()),
        None => Ok(Some(value.clone()).filter(|value| !value.is_null())),
    }
}
