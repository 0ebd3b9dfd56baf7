//! Reads how a file describes nodes that run inside others: the ids that they get, and the model that is asked.

use serde_json::Value as Json;

use crate::kinds::NodeKind;
use tidemill_base::value::JsonMap;

/// Returns the global id of a child, in a form that templates can name.
pub fn global_id(parent: &str, local: &str) -> String {
    format!("{parent}_{local}")
}

/// Returns the model that a node calls, as in its `data`.
pub(crate) fn model_of(data: &JsonMap) -> Option<&Json> {
    let model = match NodeKind::from_wire(data.get("type")?.as_str()?)? {
        NodeKind::Llm | NodeKind::QuestionClassifier | NodeKind::ParameterExtractor => data.get("model"),
        NodeKind::Agent => {
            let model = data.get("agent_parameters")?.get("model")?;
            Some(model.get("value").unwrap_or(model))
        }
        _ => None,
    };
    model.filter(|model| model.is_object())
}
