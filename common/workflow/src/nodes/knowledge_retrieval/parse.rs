//! Parses `data` of a `knowledge-retrieval` node, or reports all its problems.

use serde_json::Value as Json;

use super::filter::FilterTemplate;
use super::{Filtering, KnowledgeRetrievalData, MultipleConfig, RerankingMode, RetrievalMode, Weights};
use crate::dsl::Problems;
use crate::nodes::llm::ModelConfig;
use crate::nodes::llm::blocks::{INVALID, model, present, selector};
use tidemill_base::value::{JsonMap, Selector};

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<KnowledgeRetrievalData> {
    // All parts are read before any `?`, so that all mistakes are reported at once.
    let query = optional_selector(data, "query_variable_selector", problems);
    let attachments = optional_selector(data, "query_attachment_selector", problems);
    let dataset_ids = dataset_ids(data.get("dataset_ids"), problems);
    let mode = retrieval_mode(data, problems);
    let router = match mode {
        Some(RetrievalMode::Single) => problems.within("single_retrieval_config", |p| router(data, p)),
        // The editor leaves an empty model in files that search all datasets.
        Some(RetrievalMode::Multiple) | None => Some(None),
    };
    let multiple = problems.within("multiple_retrieval_config", |p| {
        optional_map(data, "multiple_retrieval_config", p, multiple)
    });
    let filtering = filtering(data, problems);
    let filter_model = problems.within("metadata_model_config", |p| filter_model(data, p));
    let filters = problems.within("metadata_filtering_conditions", |p| {
        optional_map(data, "metadata_filtering_conditions", p, FilterTemplate::parse)
    });
    Some(KnowledgeRetrievalData {
        query: query?,
        attachments: attachments?,
        dataset_ids: dataset_ids?,
        mode: mode?,
        router: router?,
        multiple: multiple?,
        filtering: filtering?,
        filter_model: filter_model?,
        filters: filters?,
        search: present(data, "api_search").and_then(|search| serde_json::from_value(search.clone()).ok()),
    })
}

/// A selector as a list, or as one text with dots; an absent or empty one is `None`.
fn optional_selector(data: &JsonMap, key: &str, problems: &mut Problems) -> Option<Option<Selector>> {
    let read = match present(data, key) {
        None => return Some(None),
        Some(Json::String(text)) => {
            Some(text.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect())
        }
        Some(value) => selector(Some(value)),
    };
    if read.is_none() {
        problems.within(key, |p| p.error(INVALID, format!("{key} must be a list of texts")));
    }
    read.map(|selector: Selector| Some(selector).filter(|selector| !selector.is_empty()))
}

fn dataset_ids(value: Option<&Json>, problems: &mut Problems) -> Option<Vec<String>> {
    let Some(all) = selector(value) else {
        problems.within("dataset_ids", |p| p.error(INVALID, "dataset_ids must be a list of texts"));
        return None;
    };
    let mut ids: Vec<String> = Vec::new();
    for id in all {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Some(ids)
}

fn retrieval_mode(data: &JsonMap, problems: &mut Problems) -> Option<RetrievalMode> {
    match data.get("retrieval_mode").and_then(Json::as_str) {
        Some("single") => Some(RetrievalMode::Single),
        Some("multiple") => Some(RetrievalMode::Multiple),
        Some(_) | None => {
            problems.within("retrieval_mode", |p| {
                p.error(INVALID, "retrieval_mode must be single or multiple");
            });
            None
        }
    }
}

fn filtering(data: &JsonMap, problems: &mut Problems) -> Option<Filtering> {
    match present(data, "metadata_filtering_mode").map(Json::as_str) {
        None | Some(Some("disabled")) => Some(Filtering::Disabled),
        Some(Some("automatic")) => Some(Filtering::Automatic),
        Some(Some("manual")) => Some(Filtering::Manual),
        Some(Some(_) | None) => {
            problems.within("metadata_filtering_mode", |p| {
                p.error(INVALID, "metadata_filtering_mode must be disabled, automatic or manual");
            });
            None
        }
    }
}

fn router(data: &JsonMap, problems: &mut Problems) -> Option<Option<ModelConfig>> {
    let read = |config: &JsonMap, p: &mut Problems| p.within("model", |p| model(present(config, "model"), p));
    optional_map(data, "single_retrieval_config", problems, read)
}

/// The editor leaves an empty model in files whose filters are not automatic.
fn filter_model(data: &JsonMap, problems: &mut Problems) -> Option<Option<ModelConfig>> {
    let value = present(data, "metadata_model_config");
    let named = value.and_then(|value| value.get("name")).and_then(Json::as_str).unwrap_or_default();
    let automatic = data.get("metadata_filtering_mode").and_then(Json::as_str) == Some("automatic");
    match value {
        None => Some(None),
        Some(_) if named.is_empty() && !automatic => Some(None),
        Some(_) => model(value, problems).map(Some),
    }
}

fn multiple(config: &JsonMap, problems: &mut Problems) -> Option<MultipleConfig> {
    let top_k = match present(config, "top_k").map(|top_k| (top_k, top_k.as_u64())) {
        Some((_, Some(top_k))) => usize::try_from(top_k).ok(),
        Some((_, None)) | None => {
            problems.within("top_k", |p| p.error(INVALID, "top_k must be a whole number"));
            None
        }
    };
    let score_threshold = match present(config, "score_threshold") {
        None => Some(None),
        Some(value) if value.is_number() => Some(value.as_f64()),
        Some(_) => {
            problems.within("score_threshold", |p| p.error(INVALID, "score_threshold must be a number"));
            None
        }
    };
    let reranking_mode = match present(config, "reranking_mode").map(Json::as_str) {
        None | Some(Some("reranking_model")) => Some(RerankingMode::Model),
        Some(Some("weighted_score")) => Some(RerankingMode::Weights),
        Some(Some(_) | None) => None,
    };
    let weights = problems.within("weights", |p| optional_map(config, "weights", p, weights));
    Some(MultipleConfig {
        top_k: top_k?,
        score_threshold: score_threshold?,
        reranking: config.get("reranking_enable").and_then(Json::as_bool).unwrap_or(true),
        reranking_mode,
        reranking_model: reranking_model(config.get("reranking_model")),
        weights: weights?,
    })
}

/// Provider and name. `None` when either is missing: the editor leaves them empty when no model is chosen.
fn reranking_model(value: Option<&Json>) -> Option<(String, String)> {
    // Datasets use the long keys; files exist with either.
    let text = |keys: [&str; 2]| {
        let found = keys.iter().find_map(|key| value?.get(*key)?.as_str());
        found.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    Some((text(["provider", "reranking_provider_name"])?, text(["model", "reranking_model_name"])?))
}

fn weights(config: &JsonMap, problems: &mut Problems) -> Option<Weights> {
    let mut share = |of: &str, key: &str| {
        let share = config.get(of).and_then(|setting| setting.get(key)).and_then(Json::as_f64);
        if share.is_none() {
            problems.within(of, |p| p.error(INVALID, format!("{key} must be a number")));
        }
        share
    };
    let vector = share("vector_setting", "vector_weight");
    let keyword = share("keyword_setting", "keyword_weight");
    Some(Weights { vector: vector?, keyword: keyword? })
}

fn optional_map<T>(
    data: &JsonMap,
    key: &str,
    problems: &mut Problems,
    read: impl FnOnce(&JsonMap, &mut Problems) -> Option<T>,
) -> Option<Option<T>> {
    match present(data, key) {
        None => Some(None),
        Some(Json::Object(map)) => read(map, problems).map(Some),
        Some(_) => {
            problems.error(INVALID, format!("{key} must be a mapping"));
            None
        }
    }
}
