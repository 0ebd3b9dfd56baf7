//! The datasets of an app, as a knowledge-retrieval node.

use serde_json::{Value as Json, json};

use super::{START, SimpleMode, model_of, text};
use tidemill_base::value::JsonMap;

/// Dify's number of passages for an app that sets none.
const TOP_K: u64 = 4;

/// The `data` of the node. `None` without datasets, and for a completion app without a variable to search for.
pub(super) fn node(mode: SimpleMode, config: &JsonMap) -> Option<Json> {
    let ids = dataset_ids(config);
    if ids.is_empty() {
        return None;
    }
    let query = match mode {
        SimpleMode::Chat | SimpleMode::AgentChat => json!(["sys", "query"]),
        SimpleMode::Completion => {
            let variable = text(config, "dataset_query_variable");
            if variable.is_empty() {
                return None;
            }
            json!([START, variable])
        }
    };
    let empty = JsonMap::new();
    let settings = config.get("dataset_configs").and_then(Json::as_object).unwrap_or(&empty);
    let mut data = json!({
        "type": "knowledge-retrieval", "title": "Knowledge retrieval", "query_variable_selector": query,
        "dataset_ids": ids,
    });
    if text(settings, "retrieval_model") == "single" {
        data["retrieval_mode"] = "single".into();
        data["single_retrieval_config"] = json!({"model": model_of(config)});
    } else {
        data["retrieval_mode"] = "multiple".into();
        data["multiple_retrieval_config"] = multiple(settings);
    }
    for key in ["metadata_filtering_mode", "metadata_filtering_conditions", "metadata_model_config"] {
        if let Some(value) = settings.get(key).filter(|value| !value.is_null()) {
            data[key] = value.clone();
        }
    }
    Some(data)
}

/// The ids of the enabled datasets: of the settings, and of the tools in which older apps list them.
fn dataset_ids(config: &JsonMap) -> Vec<String> {
    let of_settings = config.get("dataset_configs").and_then(|all| all.get("datasets")?.get("datasets"));
    let of_tools = config.get("agent_mode").and_then(|mode| mode.get("tools"));
    let all = [of_settings, of_tools].into_iter().flatten().filter_map(Json::as_array).flatten();
    let mut ids = Vec::new();
    for dataset in all.filter_map(|item| item.get("dataset")) {
        let is_enabled = dataset.get("enabled").and_then(Json::as_bool) != Some(false);
        if let Some(id) = dataset.get("id").and_then(Json::as_str).filter(|_| is_enabled)
            && !ids.iter().any(|known| known == id)
        {
            ids.push(id.to_owned());
        }
    }
    ids
}

fn multiple(settings: &JsonMap) -> Json {
    let given = |key: &str| settings.get(key).filter(|value| !value.is_null());
    let is_limited = given("score_threshold_enabled").and_then(Json::as_bool) == Some(true);
    let mut multiple = json!({
        "top_k": given("top_k").cloned().unwrap_or_else(|| TOP_K.into()),
        "score_threshold": given("score_threshold").filter(|_| is_limited),
        "reranking_enable": given("reranking_enable").and_then(Json::as_bool) == Some(true),
    });
    for key in ["reranking_mode", "weights"] {
        if let Some(value) = given(key) {
            multiple[key] = value.clone();
        }
    }
    let model = given("reranking_model").and_then(Json::as_object);
    let part = |keys: [&str; 2]| {
        let found = keys.iter().find_map(|key| model?.get(*key)?.as_str());
        found.filter(|text| !text.is_empty())
    };
    if let (Some(provider), Some(name)) =
        (part(["provider", "reranking_provider_name"]), part(["model", "reranking_model_name"]))
    {
        multiple["reranking_model"] = json!({"provider": provider, "model": name});
    }
    multiple
}
