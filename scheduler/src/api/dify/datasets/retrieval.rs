//! Dify's `retrieval_model`: read from requests, and shown of a dataset.

use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::knowledge::{DatasetRecord, ModelName, Retrieval, SearchMethod, Technique};

use super::payload::Payload;
use crate::api::error::ApiError;

const METHODS: [&str; 4] = ["keyword_search", "semantic_search", "full_text_search", "hybrid_search"];

/// Reads search settings. Absent fields have Dify's defaults.
///
/// # Errors
/// 400 for a wrong field.
pub(super) fn read(given: &JsonMap) -> Result<Retrieval, ApiError> {
    let payload = Payload::of("RetrievalModel", given.clone());
    let usual = Retrieval::default();
    let method = payload.word("search_method", &METHODS)?.and_then(SearchMethod::from_name);
    let top_k = match payload.value("top_k").map(Json::as_u64) {
        None => usual.top_k,
        Some(top_k) => {
            let wrong = || payload.wrong("top_k", "Input should be a valid integer");
            top_k.and_then(|top_k| u32::try_from(top_k).ok()).ok_or_else(wrong)?
        }
    };
    let number = |map: &JsonMap, key: &str| match map.get(key).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => {
            let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
            share.map(Some).ok_or_else(|| payload.wrong(key, "Input should be a number from 0 to 1"))
        }
    };
    let is_limited = payload.truth("score_threshold_enabled")?.unwrap_or(false);
    let weights = payload.object("weights")?.and_then(|it| it.get("vector_setting")?.as_object());
    let vector_weight = match weights {
        Some(weights) => number(weights, "vector_weight")?,
        None => None,
    };
    let ranks = payload.truth("reranking_enable")?.unwrap_or(false)
        && payload.text("reranking_mode")? != Some("weighted_score");
    Ok(Retrieval {
        search_method: method,
        top_k,
        score_threshold: number(given, "score_threshold")?.filter(|_| is_limited),
        reranking_model: payload.object("reranking_model")?.and_then(model).filter(|_| ranks),
        vector_weight: vector_weight.unwrap_or(usual.vector_weight),
    })
}

fn model(given: &JsonMap) -> Option<ModelName> {
    let text = |key: &str| given.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    Some(ModelName { provider: text("reranking_provider_name")?, model: text("reranking_model_name")? })
}

/// The search settings of a dataset, in Dify's form.
pub(super) fn shown(dataset: &DatasetRecord) -> Json {
    let retrieval = &dataset.retrieval;
    let method = match (dataset.indexing_technique, retrieval.search_method) {
        (Technique::Economy, None) if dataset.notes.is_undecided => SearchMethod::SemanticSearch,
        // Without vectors only this one remains.
        (Technique::Economy, _) if !dataset.notes.is_undecided => SearchMethod::KeywordSearch,
        (_, Some(method)) => method,
        (_, None) => SearchMethod::SemanticSearch,
    };
    let (provider, name) = match &retrieval.reranking_model {
        Some(model) => (model.provider.as_str(), model.model.as_str()),
        None => ("", ""),
    };
    let is_weighted = method == SearchMethod::HybridSearch && retrieval.reranking_model.is_none();
    let mode = match (&retrieval.reranking_model, is_weighted) {
        (Some(_), _) => Some("reranking_model"),
        (None, true) => Some("weighted_score"),
        (None, false) => None,
    };
    let weights = is_weighted.then(|| {
        let (provider, model) = match &dataset.embedding {
            Some(model) => (model.provider.as_str(), model.model.as_str()),
            None => ("", ""),
        };
        json!({
            "weight_type": "customized",
            "keyword_setting": {"keyword_weight": 1.0 - retrieval.vector_weight},
            "vector_setting": {
                "vector_weight": retrieval.vector_weight,
                "embedding_model_name": model,
                "embedding_provider_name": provider,
            },
        })
    });
    json!({
        "search_method": method.name(),
        "reranking_enable": retrieval.reranking_model.is_some(),
        "reranking_mode": mode,
        "reranking_model": {"reranking_provider_name": provider, "reranking_model_name": name},
        "weights": weights,
        "top_k": retrieval.top_k,
        "score_threshold_enabled": retrieval.score_threshold.is_some(),
        "score_threshold": retrieval.score_threshold,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(retrieval: Retrieval) -> DatasetRecord {
        let embedding = Some(ModelName { provider: "p".into(), model: "e".into() });
        let indexing_technique = Technique::HighQuality;
        DatasetRecord { indexing_technique, embedding, retrieval, ..DatasetRecord::default() }
    }

    #[test]
    fn settings_are_shown_as_they_were_given() {
        for given in [
            json!({"search_method": "semantic_search", "reranking_enable": false, "reranking_mode": null,
                "reranking_model": {"reranking_provider_name": "", "reranking_model_name": ""}, "weights": null,
                "top_k": 3, "score_threshold_enabled": true, "score_threshold": 0.5}),
            json!({"search_method": "full_text_search", "reranking_enable": true, "reranking_mode": "reranking_model",
                "reranking_model": {"reranking_provider_name": "p", "reranking_model_name": "r"}, "weights": null,
                "top_k": 4, "score_threshold_enabled": false, "score_threshold": null}),
            json!({"search_method": "hybrid_search", "reranking_enable": false, "reranking_mode": "weighted_score",
                "reranking_model": {"reranking_provider_name": "", "reranking_model_name": ""},
                "weights": {"weight_type": "customized", "keyword_setting": {"keyword_weight": 0.75},
                    "vector_setting": {"vector_weight": 0.25, "embedding_model_name": "e", "embedding_provider_name": "p"}},
                "top_k": 2, "score_threshold_enabled": false, "score_threshold": null}),
        ] {
            let read = read(given.as_object().unwrap()).unwrap();
            assert_eq!(shown(&of(read)), given);
        }
    }

    #[test]
    fn wrong_settings_are_refused_and_a_threshold_that_is_off_has_no_effect() {
        for (given, field) in [
            (json!({"search_method": "guess"}), "search_method"),
            (json!({"top_k": "many"}), "top_k"),
            (json!({"score_threshold": 2}), "score_threshold"),
        ] {
            let error = read(given.as_object().unwrap()).unwrap_err();
            assert!(error.message().contains(field), "{given}: {}", error.message());
        }
        let off = json!({"score_threshold": 0.5, "score_threshold_enabled": false});
        assert_eq!(read(off.as_object().unwrap()).unwrap(), Retrieval::default());
    }
}
