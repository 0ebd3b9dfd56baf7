//! Models: of the nodes that ask one, of agents, and of knowledge bases. A model that the author has not chosen yet is no
//! requirement; the node reports it when it is reached.

use serde_json::Value as Json;

use super::{Found, ModelFeature, ModelRole, NodeView, Requirement, is_enabled, list, map_of, text};
use crate::kinds::NodeKind;
use tidemill_base::value::JsonMap;

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    let vision = is_enabled(node.data, "vision").then_some(ModelFeature::Vision);
    match node.kind {
        NodeKind::Llm => {
            let is_structured = ["structured_output_switch_on", "structured_output_enabled"]
                .iter()
                .any(|key| node.data.get(*key).and_then(Json::as_bool) == Some(true));
            let structured = is_structured.then_some(ModelFeature::StructuredOutput);
            let features: Vec<_> = vision.into_iter().chain(structured).collect();
            chat(map_of(node.data, "model"), "name", &features, found);
            profile(node, found);
        }
        // An extractor that cannot call a tool asks in words.
        NodeKind::QuestionClassifier | NodeKind::ParameterExtractor => {
            let features: Vec<_> = vision.into_iter().collect();
            chat(map_of(node.data, "model"), "name", &features, found);
        }
        NodeKind::Agent => agent(node, found),
        NodeKind::KnowledgeRetrieval => knowledge(node.data, found),
        NodeKind::KnowledgeIndex => {
            let model = (text(node.data, "embedding_model_provider"), text(node.data, "embedding_model"));
            add(model, ModelRole::Embedding, &[], found);
            if let Some(retrieval) = map_of(node.data, "retrieval_model") {
                reranking(retrieval, found);
            }
        }
        _ => {}
    }
}

fn add((provider, model): (&str, &str), role: ModelRole, features: &[ModelFeature], found: &mut Found) {
    if !provider.is_empty() && !model.is_empty() {
        let what = Requirement::Model { provider: provider.into(), model: model.into(), role };
        found.add_model(what, features);
    }
}

/// Adds the model of a mapping with `provider` and the name under `key`.
fn chat(model: Option<&JsonMap>, key: &str, features: &[ModelFeature], found: &mut Found) {
    if let Some(model) = model {
        add((text(model, "provider"), text(model, key)), ModelRole::Chat, features, found);
    }
}

fn profile(node: &NodeView<'_>, found: &mut Found) {
    let id = node.text("profile_id");
    if !id.is_empty() && !id.contains("{{") {
        found.add(Requirement::Profile { id: id.into() });
    }
}

fn agent(node: &NodeView<'_>, found: &mut Found) {
    let parameter = |key: &str| {
        let given = map_of(node.data, "agent_parameters")?.get(key)?;
        Some(given.get("value").unwrap_or(given))
    };
    let has_tools = parameter("tools").and_then(Json::as_array).is_some_and(|tools| !tools.is_empty());
    // ReAct calls tools in the model's text.
    let calls = node.text("agent_strategy_name").eq_ignore_ascii_case("function_calling") && has_tools;
    let features: Vec<_> = calls.then_some(ModelFeature::ToolCall).into_iter().collect();
    chat(parameter("model").and_then(Json::as_object), "model", &features, found);
}

fn knowledge(data: &JsonMap, found: &mut Found) {
    if text(data, "retrieval_mode") == "single" {
        let single = map_of(data, "single_retrieval_config");
        chat(single.and_then(|single| map_of(single, "model")), "name", &[], found);
    }
    if text(data, "retrieval_mode") != "single"
        && !list(data, "dataset_ids").is_empty()
        && let Some(multiple) = map_of(data, "multiple_retrieval_config")
    {
        reranking(multiple, found);
    }
    if text(data, "metadata_filtering_mode") == "automatic" {
        chat(map_of(data, "metadata_model_config"), "name", &[], found);
    }
}

/// Adds the model that ranks passages again, if one is used.
fn reranking(config: &JsonMap, found: &mut Found) {
    // Old files have no mode and rank whenever a model is there.
    let by_model = match text(config, "reranking_mode") {
        "" | "reranking_model" => config.get("reranking_enable").and_then(Json::as_bool) != Some(false),
        _ => false,
    };
    let Some(model) = map_of(config, "reranking_model").filter(|_| by_model) else { return };
    let either = |keys: [&str; 2]| keys.map(|key| text(model, key)).into_iter().find(|text| !text.is_empty());
    let provider = either(["provider", "reranking_provider_name"]).unwrap_or_default();
    let name = either(["model", "reranking_model_name"]).unwrap_or_default();
    add((provider, name), ModelRole::Rerank, &[], found);
}
