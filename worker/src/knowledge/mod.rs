//! Knowledge bases: which dataset of a workflow is where, and how it is searched. Nodes come here with the ids of their file
//! and get [`Dataset`]s; what a knowledge base is (a service, a store) only its file knows.
//!
//! [`external`] is a service that speaks Dify's External Knowledge API.

pub mod external;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_common::config::{HttpConfig, KnowledgeConfig};
use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::knowledge_retrieval::config::{DatasetConfig, DatasetKind};
use tidemill_common::nodes::knowledge_retrieval::filter::Filters;
use tidemill_common::nodes::knowledge_retrieval::rank::Indexing;
use tidemill_common::nodes::knowledge_retrieval::{ErrorType, Passage};

use crate::tools::door::Door;
use external::External;

/// How a dataset is searched: by its own settings, whatever the node says (Dify).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchSettings {
    /// Passages at most.
    pub top_k: u32,
    /// Least score; none: any.
    pub score_threshold: Option<f64>,
}

/// Why a search brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KnowledgeError {
    /// The class that workflows see.
    pub class: ErrorType,
    /// Which dataset, and what happened; without secrets.
    pub message: String,
    /// Whether another try could help.
    pub retryable: bool,
}

impl From<KnowledgeError> for NodeFailure {
    fn from(error: KnowledgeError) -> Self {
        Self { retryable: error.retryable, ..error.class.failure(error.message) }
    }
}

/// A knowledge base.
#[async_trait::async_trait]
pub trait Knowledge: Send + Sync {
    /// The passages that answer a question, in documents that the filters want. Dropping the future ends the search.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    async fn search(
        &self,
        query: &str,
        filters: Option<&Filters>,
        settings: &SearchSettings,
    ) -> Result<Vec<Passage>, KnowledgeError>;
}

/// A dataset that can be searched.
pub struct Dataset {
    /// Its id, as workflow files have it.
    pub id: String,
    /// What results call it.
    pub name: String,
    /// What it holds; perhaps empty.
    pub description: String,
    /// Fields that automatic filters may use.
    pub metadata_fields: Vec<String>,
    /// How it can be searched.
    pub indexing: Indexing,
    /// How it is searched.
    pub settings: SearchSettings,
    /// Whether its failure fails the node.
    pub strict: bool,
    knowledge: Arc<dyn Knowledge>,
}

impl Dataset {
    /// Searches it; see [`Knowledge::search`].
    ///
    /// # Errors
    /// As there.
    pub async fn search(
        &self,
        query: &str,
        filters: Option<&Filters>,
    ) -> Result<Vec<Passage>, KnowledgeError> {
        self.knowledge.search(query, filters, &self.settings).await
    }
}

/// All knowledge bases of a worker.
pub struct Datasets {
    all: BTreeMap<String, Dataset>,
    strict: bool,
    /// Most searches of one node at a time; at least 1.
    pub searches_max: usize,
}

/// A setting of `[knowledge]` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("setting knowledge.{key}: {reason}")]
pub struct KnowledgeSettingError {
    /// Which.
    pub key: String,
    /// What is wrong with it; without secrets.
    pub reason: String,
}

impl Datasets {
    /// The knowledge bases that the settings describe. None of them is asked before it is needed.
    ///
    /// # Errors
    /// A setting that cannot be used.
    pub fn new(config: &KnowledgeConfig, http: &HttpConfig) -> Result<Self, KnowledgeSettingError> {
        Self::with_environment(config, http, &|name| std::env::var(name).ok())
    }

    fn with_environment(
        config: &KnowledgeConfig,
        http: &HttpConfig,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, KnowledgeSettingError> {
        let mut all = BTreeMap::new();
        let searches_max = config.searches_max.max(1);
        if !config.datasets.is_empty() {
            let http = HttpConfig { connect_seconds: config.connect_seconds, ..http.clone() };
            let door = Door::new(&http).map_err(|error| KnowledgeSettingError {
                key: "datasets".into(),
                reason: error.to_string(),
            })?;
            let door = Arc::new(door);
            for (id, one) in &config.datasets {
                all.insert(id.clone(), dataset(id, one, config, &door, variable)?);
            }
        }
        Ok(Self { all, strict: config.strict, searches_max })
    }

    /// The datasets of these ids, in their order. Ids that are not set are passed over (Dify), and the log says so.
    ///
    /// # Errors
    /// With `knowledge.strict`: the first id that is not set.
    pub fn find(&self, ids: &[String]) -> Result<Vec<&Dataset>, KnowledgeError> {
        let mut found = Vec::new();
        for id in ids {
            let what = || {
                format!("dataset {id} is not set: add [knowledge.datasets.\"{id}\"] to the worker's settings")
            };
            match self.all.get(id) {
                Some(dataset) => found.push(dataset),
                None if self.strict => {
                    let message = format!("{}, or switch knowledge.strict off", what());
                    return Err(KnowledgeError { class: ErrorType::Retrieval, message, retryable: false });
                }
                None => tracing::warn!("{}; it is passed over", what()),
            }
        }
        Ok(found)
    }
}

fn dataset(
    id: &str,
    config: &DatasetConfig,
    all: &KnowledgeConfig,
    door: &Arc<Door>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Dataset, KnowledgeSettingError> {
    let name = if config.name.is_empty() { id } else { &config.name };
    let (knowledge, indexing): (Arc<dyn Knowledge>, _) = match config.kind {
        DatasetKind::ExternalHttp => {
            let wrong = |(key, reason): (&str, String)| KnowledgeSettingError {
                key: format!("datasets.\"{id}\".{key}"),
                reason,
            };
            let external = External::new((id, name), config, all.answer_bytes_max, door.clone(), variable);
            (Arc::new(external.map_err(wrong)?), Indexing::External)
        }
    };
    Ok(Dataset {
        id: id.into(),
        name: name.into(),
        description: config.description.clone(),
        metadata_fields: config.metadata_fields.clone(),
        indexing,
        settings: SearchSettings {
            top_k: config.top_k,
            score_threshold: config.score_threshold_enabled.then_some(config.score_threshold),
        },
        strict: config.strict || all.strict,
        knowledge,
    })
}

#[cfg(test)]
pub(crate) mod tests;
