//! The workflow of one node that tries a tool of an installed plugin, or asks the plugin something: only workers have the
//! plugin, the credentials and the network.

use serde_json::{Value as Json, json};
use tidemill_base::value::JsonMap;

/// The workflow for a tool of a provider (`AUTHOR/PLUGIN/PROVIDER`), of this version of the plugin if it is installed. Its outputs are
/// `text`, `json` and `files`.
///
/// # Errors
/// The provider has another form; in words.
pub fn workflow(provider: &str, version: Option<&str>, tool: &str, params: &JsonMap) -> Result<Json, String> {
    let [author, plugin, name] = provider.split('/').collect::<Vec<_>>()[..] else {
        return Err(format!("{provider:?} is not a provider: write AUTHOR/PLUGIN/PROVIDER"));
    };
    let identifier = match version {
        Some(version) => format!("{author}/{plugin}:{version}"),
        None => format!("{author}/{plugin}"),
    };
    let given = params.iter().map(|(key, value)| (key.clone(), json!({"type": "constant", "value": value})));
    let output = |name: &str| json!({"variable": name, "value_selector": ["tool", name]});
    let edge = |from: &str, to: &str| json!({"id": from, "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"});
    Ok(json!({
        "kind": "app", "version": "0.6.0",
        "app": {"mode": "workflow", "name": format!("Test of {provider}")},
        "workflow": {"environment_variables": [], "conversation_variables": [], "graph": {
            "nodes": [
                {"id": "start", "data": {"type": "start", "title": "Start", "variables": []}},
                {"id": "tool", "data": {
                    "type": "tool", "title": "Tool", "provider_type": "builtin", "provider_id": provider,
                    "provider_name": name, "tool_name": tool, "tool_label": tool, "tool_configurations": {},
                    "tool_parameters": given.collect::<JsonMap>(), "tool_node_version": "2",
                    "plugin_unique_identifier": identifier,
                }},
                {"id": "end", "data": {"type": "end", "title": "End", "outputs": [output("text"), output("json"), output("files")]}},
            ],
            "edges": [edge("start", "tool"), edge("tool", "end")],
        }},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_workflow::graph::import;

    #[test]
    fn the_workflow_of_a_test_can_be_run() {
        let params = json!({"place": "here", "most": 3}).as_object().cloned().unwrap();
        let made = workflow("acme/maps/maps", Some("1.0"), "find", &params).unwrap();
        let imported = import(made.to_string().as_bytes());
        assert!(imported.graph.is_some(), "{:?}", imported.diagnostics);
        assert_eq!(imported.diagnostics, []);
        assert!(workflow("maps", None, "find", &params).is_err());
    }
}
