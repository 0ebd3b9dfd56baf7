//! The `trigger-plugin` node: starts a run from an event of a Dify plugin. Plugins run in Dify; their host starts the
//! run here with the event's data, and the node shows that data.

use serde_json::{Value as Json, json};

use super::NodeResult;
use super::fields::{INVALID_NODE_DATA, mapping, required, text};
use super::trigger::{own, system};
use crate::dsl::Problems;
use tidemill_base::value::{JsonMap, Variables};

/// Configuration of `trigger-plugin`.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggerPluginData {
    pub plugin_id: String,
    /// The provider of the event.
    pub provider_id: String,
    pub event_name: String,
    /// The plugin's exact version.
    pub plugin_unique_identifier: String,
    /// The parameters of the event, each with its constant value.
    pub event_parameters: Vec<(String, Json)>,
}

impl TriggerPluginData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let [plugin_id, provider_id, event_name, subscription_id, identifier] =
            ["plugin_id", "provider_id", "event_name", "subscription_id", "plugin_unique_identifier"]
                .map(|key| required(data, key, problems, text));
        // The subscription is empty in an export, but must be present.
        subscription_id?;
        let event_parameters = match data.get("event_parameters") {
            None | Some(Json::Null) => Vec::new(),
            Some(given) => problems.within("event_parameters", |problems| parameters(given, problems))?,
        };
        Some(Self {
            plugin_id: plugin_id?,
            provider_id: provider_id?,
            event_name: event_name?,
            plugin_unique_identifier: identifier?,
            event_parameters,
        })
    }

    /// Runs the node: it shows the event's data.
    pub fn evaluate(&self, id: &str, variables: &dyn Variables) -> NodeResult {
        let mut outputs = own(id, variables);
        outputs.extend(system(variables));
        let info = json!({
            "provider_id": self.provider_id,
            "event_name": self.event_name,
            "plugin_unique_identifier": self.plugin_unique_identifier,
        });
        let metadata = JsonMap::from_iter([("trigger_info".to_string(), info)]);
        NodeResult { inputs: outputs.clone(), outputs, metadata, ..NodeResult::default() }
    }
}

fn parameters(given: &Json, problems: &mut Problems) -> Option<Vec<(String, Json)>> {
    let given = mapping(given, problems)?;
    let read: Vec<Option<(String, Json)>> = given
        .iter()
        .map(|(name, parameter)| {
            let value = problems.within(name.as_str(), |problems| parameter_value(parameter, problems))?;
            Some((name.clone(), value))
        })
        .collect();
    read.into_iter().collect()
}

fn parameter_value(parameter: &Json, problems: &mut Problems) -> Option<Json> {
    let parameter = mapping(parameter, problems)?;
    let kind = required(parameter, "type", problems, text)?;
    if kind != "constant" {
        problems.within("type", |problems| {
            problems.error(INVALID_NODE_DATA, format!("Unknown plugin trigger input type '{kind}'"));
        });
        return None;
    }
    Some(parameter.get("value").cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::nodes::parse::tests::paths_of;

    #[test]
    fn only_constant_parameters_are_taken() {
        let check: fn(&JsonMap, &mut Problems) = |data, problems| {
            TriggerPluginData::parse(data, problems);
        };
        let data = |parameters: Json| {
            json!({"plugin_id": "a/b", "provider_id": "a/b/b", "event_name": "opened", "subscription_id": "",
                "plugin_unique_identifier": "a/b:1@x", "event_parameters": parameters})
        };
        for (parameters, paths) in [
            (json!({"labels": {"type": "constant", "value": ["bug"]}}), vec![]),
            (json!({"labels": {"type": "mixed", "value": "x"}}), vec!["event_parameters.labels.type"]),
            (json!({"labels": 1}), vec!["event_parameters.labels"]),
        ] {
            assert_eq!(paths_of(check, data(parameters.clone())), paths, "{parameters}");
        }
        let missing = paths_of(check, json!({"plugin_id": "a/b", "provider_id": 1}));
        assert_eq!(missing, ["provider_id", "event_name", "subscription_id", "plugin_unique_identifier"]);
    }
}
