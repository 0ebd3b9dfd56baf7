//! Checks the settings of embedded datasets when a worker starts, so that a mistake is seen before a search.

use tidemill_common::nodes::knowledge_retrieval::config::DatasetConfig;
use tidemill_common::wire::knowledge::Technique;

use super::KnowledgeSettingError;

/// Checks the settings of an embedded dataset.
pub(super) fn checked(id: &str, config: &DatasetConfig) -> Result<DatasetConfig, KnowledgeSettingError> {
    let wrong = |key: &str, reason: &str| KnowledgeSettingError {
        key: format!("datasets.\"{id}\".{key}"),
        reason: reason.into(),
    };
    let share = 0.0..=1.0;
    if !share.contains(&config.score_threshold) {
        return Err(wrong("score_threshold", "must be from 0 to 1"));
    }
    if !share.contains(&config.vector_weight) {
        return Err(wrong("vector_weight", "must be from 0 to 1"));
    }
    if config.technique() == Technique::HighQuality && config.embedding.is_none() {
        return Err(wrong(
            "embedding",
            "is missing: {provider, model} of the vectors, or indexing_technique = \"economy\"",
        ));
    }
    Ok(config.clone())
}
