//! The agent of an app, as an agent node of the strategies that are part of this program.

use serde_json::{Value as Json, json};

use super::start::Form;
use super::{KNOWLEDGE, model_of, text};
use tidemill_base::value::JsonMap;

/// Dify's number of rounds for an app that sets none.
const ROUNDS: u64 = 10;

/// The `data` of the node.
///
/// # Errors
/// A tool in a form that names no provider.
pub(super) fn node(config: &JsonMap, form: &Form, has_knowledge: bool) -> Result<Json, String> {
    let empty = JsonMap::new();
    let mode = config.get("agent_mode").and_then(Json::as_object).unwrap_or(&empty);
    let strategy = match text(mode, "strategy") {
        "function_call" | "function_calling" | "router" | "" => "function_calling",
        _ => "ReAct",
    };
    let listed = mode.get("tools").and_then(Json::as_array).into_iter().flatten();
    let tools = listed.filter_map(|item| tool(item).transpose()).collect::<Result<Vec<_>, _>>()?;
    let mut model = model_of(config);
    if let Some(model) = model.as_object_mut() {
        let name = model.shift_remove("name").unwrap_or_default();
        model.insert("model".into(), name);
        model.insert("model_type".into(), "llm".into());
    }
    let constant = |value: Json| json!({"type": "constant", "value": value});
    let rounds = mode.get("max_iteration").filter(|rounds| rounds.is_u64()).cloned();
    let mut instruction = form.referring(text(config, "pre_prompt"));
    if has_knowledge {
        instruction = format!(
            "{instruction}\n\nThese passages of the knowledge base may help to answer:\n{{{{#{KNOWLEDGE}.result#}}}}"
        );
    }
    Ok(json!({
        "type": "agent", "title": "Agent",
        "agent_strategy_provider_name": "langgenius/agent/agent",
        "agent_strategy_name": strategy,
        "agent_strategy_label": strategy,
        "agent_parameters": {
            "model": constant(model),
            "instruction": constant(instruction.trim().into()),
            "query": constant("{{#sys.query#}}".into()),
            "tools": constant(tools.into()),
            "maximum_iterations": constant(rounds.unwrap_or_else(|| ROUNDS.into())),
        },
        "memory": {"window": {"enabled": false, "size": 50}, "query_prompt_template": "{{#sys.query#}}"},
    }))
}

/// A tool of the agent. `None` for one that is switched off, and for a dataset, which has its own node.
fn tool(item: &Json) -> Result<Option<Json>, String> {
    let Some(tool) = item.as_object().filter(|tool| !tool.contains_key("dataset")) else { return Ok(None) };
    let is_enabled = |tool: &JsonMap| tool.get("enabled").and_then(Json::as_bool) == Some(true);
    if !tool.contains_key("tool_name") {
        // The form of the first versions: the name is the key.
        let old = tool.iter().find(|(_, of)| of.as_object().is_some_and(is_enabled));
        return match old {
            Some((name, _)) => {
                Err(format!("its tool {name:?} is in a form of old versions that names no provider"))
            }
            None => Ok(None),
        };
    }
    if !is_enabled(tool) {
        return Ok(None);
    }
    let (mut settings, mut parameters) = (JsonMap::new(), JsonMap::new());
    for (name, value) in tool.get("tool_parameters").and_then(Json::as_object).into_iter().flatten() {
        // The author fixed the values that are filled in; the model chooses the others.
        if value.is_null() || value == "" {
            parameters.insert(name.clone(), json!({"auto": 1, "value": null}));
        } else {
            settings.insert(name.clone(), json!({"value": value}));
        }
    }
    let id = text(tool, "provider_id");
    let name = text(tool, "provider_name");
    Ok(Some(json!({
        "enabled": true,
        "type": text(tool, "provider_type"),
        // An agent node looks its provider up by this name.
        "provider_name": if id.is_empty() { name } else { id },
        "provider_show_name": name,
        "tool_name": text(tool, "tool_name"),
        "tool_label": text(tool, "tool_label"),
        "settings": settings,
        "parameters": parameters,
        "extra": {"description": ""},
    })))
}
