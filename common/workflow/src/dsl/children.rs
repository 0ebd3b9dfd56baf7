//! Reads how a file describes nodes that run inside others: the ids that they get, and the model that is asked.

use std::borrow::Cow;

use serde_json::{Value as Json, json};

use crate::kinds::NodeKind;
use tidemill_base::value::JsonMap;

/// Returns the global id of a child, in a form that templates can name.
pub fn global_id(parent: &str, local: &str) -> String {
    format!("{parent}_{local}")
}

/// Returns the model that a node calls, in the form of an `llm` node.
pub(crate) fn model_of(data: &JsonMap) -> Option<Cow<'_, Json>> {
    let model = match NodeKind::from_wire(data.get("type")?.as_str()?)? {
        NodeKind::Llm | NodeKind::QuestionClassifier | NodeKind::ParameterExtractor => data.get("model")?,
        NodeKind::Agent => {
            let model = data.get("agent_parameters")?.get("model")?;
            return of_agent(model.get("value").unwrap_or(model));
        }
        _ => return None,
    };
    model.is_object().then_some(Cow::Borrowed(model))
}

/// Returns the keys that the `value` of an extraction lacks, in the canonical spelling.
pub(crate) fn missing_in_extraction(value: Option<&Json>) -> Vec<&'static str> {
    const KEYS: [(&str, &str); 3] = [
        ("source_node_id", "sourceNodeId"),
        ("source_variable", "sourceVariable"),
        ("extraction_prompt", "extractionPrompt"),
    ];
    let given = |(snake, camel): (&str, &str)| {
        let text = value.and_then(|value| value.get(snake).or_else(|| value.get(camel))?.as_str());
        text.is_some_and(|text| !text.is_empty())
    };
    KEYS.into_iter().filter(|key| !given(*key)).map(|(snake, _)| snake).collect()
}

/// Converts the model of an agent. Agents write the model's name as `model`, and may leave out the mode.
fn of_agent(given: &Json) -> Option<Cow<'_, Json>> {
    let given = given.as_object()?;
    let name = given.get("name").or_else(|| given.get("model"))?;
    let part =
        |key: &str, default: Json| given.get(key).filter(|it| !it.is_null()).cloned().unwrap_or(default);
    Some(Cow::Owned(json!({
        "provider": given.get("provider")?,
        "name": name,
        "mode": part("mode", "chat".into()),
        "completion_params": part("completion_params", json!({})),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_any_node_is_in_the_form_of_a_model_node() {
        let plain =
            json!({"provider": "openai", "name": "gpt-4", "mode": "chat", "completion_params": {"top_p": 1}});
        let of_agent = json!({"provider": "openai", "model": "gpt-4", "completion_params": {"top_p": 1},
            "model_type": "llm", "type": "model-selector"});
        let named =
            json!({"provider": "openai", "name": "gpt-4", "mode": "chat", "completion_params": {"top_p": 1}});
        for (data, expected) in [
            (json!({"type": "llm", "model": plain}), Some(&plain)),
            (json!({"type": "question-classifier", "model": plain}), Some(&plain)),
            (
                json!({"type": "agent", "agent_parameters": {"model": {"type": "constant", "value": of_agent}}}),
                Some(&plain),
            ),
            (json!({"type": "agent", "agent_parameters": {"model": of_agent}}), Some(&plain)),
            (
                json!({"type": "agent", "agent_parameters": {"model": {"type": "constant", "value": named}}}),
                Some(&plain),
            ),
            (
                json!({"type": "agent", "agent_parameters": {"model": {"type": "variable", "value": ["s", "m"]}}}),
                None,
            ),
            (json!({"type": "agent", "agent_parameters": {"model": {"provider": "openai"}}}), None),
            (json!({"type": "llm", "model": "gpt-4"}), None),
            (json!({"type": "code", "model": plain}), None),
        ] {
            let found = model_of(data.as_object().unwrap()).map(Cow::into_owned);
            assert_eq!(found.as_ref(), expected, "{data}");
        }
    }
}
