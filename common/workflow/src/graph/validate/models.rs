//! Models that cannot do what their node wants. A warning and no error: the settings may say more about a model than the
//! file and the table of known models do, and a branch with the node may never be taken.

use super::Report;
use crate::graph::draft::Draft;
use crate::nodes::NodeData;
use crate::nodes::llm::profile::tool_mode::PROFILE_PREFIX;
use crate::nodes::llm::{ModelConfig, known};

/// A node wants pictures seen by a model that is known not to see any.
pub(super) const NO_VISION: &str = "model.no_vision";
/// A node names no model.
pub(super) const NOT_CHOSEN: &str = "model.not_chosen";

/// Warns about pictures for a model that is known not to see any.
pub(super) fn pictures_can_be_seen(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let (Some(model), true) = (model(node.data.as_ref()), has_vision(node.data.as_ref())) else {
            continue;
        };
        if is_profile(model) || !known::is_blind(&model.name) {
            continue;
        }
        let message = format!("{:?} is known not to see pictures: they are left out, as on Dify", model.name);
        let hint = "choose another model, or switch vision off; if the model does see pictures, list its features in the \
                    settings: [providers.NAME.models.\"MODEL\"] features = [\"vision\"]";
        report.node_warning(draft, at, "data.vision", message, hint);
    }
}

/// Warns about nodes without a model. Dify's editor writes them for a model that is not chosen yet.
pub(super) fn models_are_chosen(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        if model(node.data.as_ref()).is_some_and(|model| !model.is_chosen()) {
            let message = "the node names no model: it fails when it is reached".to_owned();
            report.node_warning(draft, at, "data.model", message, "set provider and name");
        }
    }
}

fn model(data: Option<&NodeData>) -> Option<&ModelConfig> {
    match data? {
        NodeData::Llm(data) => Some(&data.model),
        NodeData::QuestionClassifier(data) => Some(&data.model),
        NodeData::ParameterExtractor(data) => Some(&data.model),
        _ => None,
    }
}

fn has_vision(data: Option<&NodeData>) -> bool {
    match data {
        Some(NodeData::Llm(data)) => data.vision.is_some(),
        Some(NodeData::QuestionClassifier(data)) => data.vision.is_some(),
        Some(NodeData::ParameterExtractor(data)) => data.vision.is_some(),
        _ => false,
    }
}

/// A profile brings its own model.
fn is_profile(model: &ModelConfig) -> bool {
    model.provider.starts_with(PROFILE_PREFIX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use crate::graph::import;

    fn warnings(kind: &str, model: &Json, vision: bool) -> Vec<&'static str> {
        let mut data = json!({
            "type": kind, "title": "T", "model": model, "vision": {"enabled": vision}, "context": {"enabled": false},
            "prompt_template": [{"role": "user", "text": "What is it?"}],
            "query_variable_selector": ["s", "q"], "classes": [{"id": "1", "name": "one"}],
            "query": ["s", "q"], "parameters": [{"name": "p", "type": "string", "required": true, "description": "d"}],
            "reasoning_mode": "prompt",
        });
        data["model"]["mode"] = json!("chat");
        let document = json!({"graph": {
            "nodes": [{"id": "s", "data": {"type": "start", "variables": []}}, {"id": "t", "data": data}],
            "edges": [{"source": "s", "target": "t"}],
        }});
        let imported = import(document.to_string().as_bytes());
        assert!(imported.graph.is_some(), "{:?}", imported.diagnostics);
        imported.diagnostics.iter().map(|found| found.code).collect()
    }

    #[test]
    fn a_node_that_shows_pictures_to_a_blind_model_is_a_warning() {
        let model = |provider: &str, name: &str| json!({"provider": provider, "name": name});
        for kind in ["llm", "question-classifier", "parameter-extractor"] {
            for (model, vision, expected) in [
                (model("langgenius/deepseek/deepseek", "deepseek-chat"), true, &["model.no_vision"][..]),
                (model("langgenius/deepseek/deepseek", "deepseek-chat"), false, &[]),
                (model("langgenius/openai/openai", "gpt-4o"), true, &[]),
                (model("acme", "unknown"), true, &[]),
                (model("profile/fast", "deepseek-chat"), true, &[]),
                (model("", ""), false, &["model.not_chosen"]),
                (model("openai", ""), true, &["model.not_chosen"]),
                (model("profile/fast", ""), false, &[]),
            ] {
                assert_eq!(warnings(kind, &model, vision), expected, "{kind} {model} {vision}");
            }
        }
    }
}
