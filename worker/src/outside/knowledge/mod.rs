//! Knowledge bases: finds the datasets of a workflow and searches them. Nodes look up the ids of their workflow and get
//! [`Dataset`]s. Each kind of knowledge base has its own module.
//!
//! [`external`] uses a service with Dify's External Knowledge API, and [`embedded`] searches documents in the store.
//! [`models`] calls models for nodes and searches, each call charged once.

pub mod embedded;
pub mod external;
pub mod models;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_common::config::{HttpConfig, KnowledgeConfig, variable};
use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::knowledge_retrieval::config::{DatasetConfig, DatasetKind};
use tidemill_common::nodes::knowledge_retrieval::filter::Filters;
use tidemill_common::nodes::knowledge_retrieval::rank::Indexing;
use tidemill_common::nodes::knowledge_retrieval::{ErrorType, Passage};
use tidemill_common::store::{Jobs, KnowledgeBases, StoreError};
use tidemill_common::warning::{DATASET_UNKNOWN, PASSAGES_NOT_RANKED, Warning};
use tidemill_common::wire::knowledge::{DatasetRecord, Retrieval, Technique, is_inner};

use crate::outside::knowledge::embedded::Embedded;
use crate::outside::knowledge::embedded::index_cache::IndexCache;
use crate::outside::knowledge::external::External;
use crate::outside::knowledge::models::Models;
use crate::outside::providers::limiter::CallPermits;
use crate::outside::tools::operator_client::OperatorClient;

/// The search settings of a dataset; they apply whatever the node says (Dify).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchSettings {
    /// Most passages.
    pub top_k: u32,
    /// Least score; `None` for no limit.
    pub score_threshold: Option<f64>,
}

/// The failure of a search.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KnowledgeError {
    /// The error type that workflows see.
    pub class: ErrorType,
    /// The dataset and the failure, without secrets.
    pub message: String,
    /// True if a retry could help.
    pub retryable: bool,
}

impl From<KnowledgeError> for NodeFailure {
    fn from(error: KnowledgeError) -> Self {
        Self { retryable: error.retryable, ..error.class.failure(error.message) }
    }
}

impl From<StoreError> for KnowledgeError {
    fn from(error: StoreError) -> Self {
        let message = format!("the knowledge base cannot be read: {error}");
        Self { class: ErrorType::Retrieval, message, retryable: error.is_passing() }
    }
}

/// A question to a knowledge base.
#[derive(Clone, Copy)]
pub struct SearchRequest<'a> {
    pub query: &'a str,
    /// Filters of documents; `None` for all documents.
    pub filters: Option<&'a Filters>,
    /// Models, for knowledge bases that need them.
    pub models: &'a Models<'a>,
}

/// A knowledge base.
#[async_trait::async_trait]
pub trait Knowledge: Send + Sync {
    /// Returns passages that answer a question, from documents that match the filters. Dropping the future ends the
    /// search.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    async fn search(
        &self,
        search: SearchRequest<'_>,
        settings: &SearchSettings,
    ) -> Result<Vec<Passage>, KnowledgeError>;

    /// Sets the store that counts failures, for knowledge bases that count any.
    fn counted_in(&self, _: CallPermits) {}

    /// Returns the metadata fields of its documents, as far as known.
    ///
    /// # Errors
    /// It cannot be reached.
    async fn fields(&self) -> Result<Vec<String>, KnowledgeError> {
        Ok(Vec::new())
    }
}

/// A dataset that can be searched.
pub struct Dataset {
    /// The id in workflow files.
    pub id: String,
    /// The name in results.
    pub name: String,
    /// May be empty.
    pub description: String,
    /// Fields that automatic filters may use; if empty, the documents' own fields.
    metadata_fields: Vec<String>,
    pub indexing: Indexing,
    pub settings: SearchSettings,
    /// True if its failure fails the node.
    pub strict: bool,
    knowledge: Arc<dyn Knowledge>,
}

impl Dataset {
    /// Searches the dataset; see [`Knowledge::search`].
    ///
    /// # Errors
    /// As there.
    pub async fn search(&self, search: SearchRequest<'_>) -> Result<Vec<Passage>, KnowledgeError> {
        self.knowledge.search(search, &self.settings).await
    }

    /// Returns the fields that automatic filters may use.
    ///
    /// # Errors
    /// As [`Knowledge::fields`].
    pub async fn fields(&self) -> Result<Vec<String>, KnowledgeError> {
        match self.metadata_fields.is_empty() {
            true => self.knowledge.fields().await,
            false => Ok(self.metadata_fields.clone()),
        }
    }
}

/// All knowledge bases of a worker.
pub struct Datasets {
    /// Datasets of services.
    external: BTreeMap<String, Arc<Dataset>>,
    /// The settings of embedded datasets.
    embedded: BTreeMap<String, DatasetConfig>,
    index_cache: Option<Arc<IndexCache>>,
    index_bytes_max: u64,
    strict: bool,
    /// Most parallel searches of one node; at least 1.
    pub searches_max: usize,
}

/// A setting of `[knowledge]` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("setting knowledge.{key}: {reason}")]
pub struct KnowledgeSettingError {
    pub key: String,
    /// Without secrets.
    pub reason: String,
}

impl Datasets {
    /// Creates the knowledge bases from the settings. None is contacted before it is needed.
    ///
    /// # Errors
    /// A setting that cannot be used.
    pub fn new(config: &KnowledgeConfig, http: &HttpConfig) -> Result<Self, KnowledgeSettingError> {
        Self::with_environment(config, http, &variable)
    }

    fn with_environment(
        config: &KnowledgeConfig,
        http: &HttpConfig,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, KnowledgeSettingError> {
        let (mut external, mut embedded) = (BTreeMap::new(), BTreeMap::new());
        let http = HttpConfig { connect_seconds: config.connect_seconds, ..http.clone() };
        let mut operator_client = None;
        for (id, one) in &config.datasets {
            match one.kind {
                DatasetKind::Embedded => {
                    embedded.insert(id.clone(), settings::checked(id, one)?);
                }
                DatasetKind::ExternalHttp => {
                    let operator_client = match &mut operator_client {
                        Some(operator_client) => operator_client,
                        none => {
                            let reason = |error: crate::outside::http::HttpSettingError| error.to_string();
                            let opened = OperatorClient::new(&http).map_err(reason);
                            let opened = opened
                                .map_err(|reason| KnowledgeSettingError { key: "datasets".into(), reason })?;
                            none.insert(Arc::new(opened))
                        }
                    };
                    external
                        .insert(id.clone(), Arc::new(service(id, one, config, operator_client, variable)?));
                }
            }
        }
        Ok(Self {
            external,
            embedded,
            index_cache: None,
            index_bytes_max: config.index_bytes_max,
            strict: config.strict,
            searches_max: config.searches_max.max(1),
        })
    }

    /// Adds the store of embedded knowledge bases and of failure counts. Without it there are no embedded ones.
    #[must_use]
    pub fn kept_in(self, jobs: Arc<dyn Jobs>) -> Self {
        for dataset in self.external.values() {
            dataset.knowledge.counted_in(CallPermits(jobs.clone()));
        }
        let index_cache = Arc::new(IndexCache::new(jobs, self.index_bytes_max));
        Self { index_cache: Some(index_cache), ..self }
    }

    /// The store of embedded knowledge bases.
    pub fn store(&self) -> Option<&dyn KnowledgeBases> {
        self.index_cache.as_ref().map(|index_cache| index_cache.store())
    }

    /// Finds the datasets of these ids or names, in order, each once. Missing ones are skipped (Dify) with a warning.
    ///
    /// # Errors
    /// The first missing dataset, if `knowledge.strict` is set; or the store cannot be read.
    pub async fn find(
        &self,
        ids: &[String],
        warn: &(dyn Fn(Warning) + Sync),
    ) -> Result<Vec<Arc<Dataset>>, KnowledgeError> {
        self.find_for(ids, None, warn).await
    }

    /// Finds datasets as [`Self::find`]. With `search` the embedded ones are searched in that way, and are strict.
    ///
    /// # Errors
    /// As there.
    pub async fn find_for(
        &self,
        ids: &[String],
        search: Option<&Retrieval>,
        warn: &(dyn Fn(Warning) + Sync),
    ) -> Result<Vec<Arc<Dataset>>, KnowledgeError> {
        // Datasets of services need no request to the store.
        let kept = match &self.index_cache {
            Some(index_cache) if !ids.iter().all(|id| self.external.contains_key(id)) => {
                kept_of(index_cache.store(), ids).await?
            }
            Some(_) | None => Vec::new(),
        };
        let mut found: Vec<Arc<Dataset>> = Vec::new();
        for id in ids {
            match self.one(id, &kept, search)? {
                Some(dataset) if found.iter().any(|known| known.id == dataset.id) => {}
                Some(dataset) => found.push(dataset),
                None if self.strict => {
                    let message =
                        format!("dataset {id} is not set: {}, or switch knowledge.strict off", remedy(id));
                    return Err(KnowledgeError { class: ErrorType::Retrieval, message, retryable: false });
                }
                None => {
                    tracing::warn!(dataset = id, "a dataset is not set; it is skipped");
                    let message = format!("dataset {id} is not set, so it was not searched");
                    warn(Warning::new(DATASET_UNKNOWN, message).about("dataset", id).hint(remedy(id)));
                }
            }
        }
        Ok(found)
    }

    /// Ids win over names, and the settings over the store.
    fn one(
        &self,
        id: &str,
        kept: &[DatasetRecord],
        search: Option<&Retrieval>,
    ) -> Result<Option<Arc<Dataset>>, KnowledgeError> {
        let record = |id: &str| kept.iter().find(|record| record.id == id);
        if let Some(external) = self.external.get(id) {
            return Ok(Some(external.clone()));
        }
        if self.embedded.contains_key(id) || record(id).is_some() {
            return self.embedded(id, record(id), search);
        }
        if let Some(external) = self.external.values().find(|it| it.name == id) {
            return Ok(Some(external.clone()));
        }
        let named = self.embedded.iter().find(|(_, config)| config.name == id).map(|(named, _)| named);
        let named = named.or_else(|| kept.iter().find(|record| record.name == id).map(|record| &record.id));
        named.map_or(Ok(None), |id| self.embedded(id, record(id), search))
    }

    /// An embedded dataset from the settings and the store; for the search settings the settings win.
    fn embedded(
        &self,
        id: &str,
        kept: Option<&DatasetRecord>,
        search: Option<&Retrieval>,
    ) -> Result<Option<Arc<Dataset>>, KnowledgeError> {
        let (Some(index_cache), config) = (&self.index_cache, self.embedded.get(id)) else { return Ok(None) };
        let mut record = match (kept, config) {
            (Some(kept), _) => kept.clone(),
            (None, Some(config)) => DatasetRecord {
                id: id.into(),
                name: id.into(),
                indexing_technique: config.technique(),
                embedding: config.embedding.clone(),
                ..DatasetRecord::default()
            },
            (None, None) => return Ok(None),
        };
        if let Some(config) = config {
            if let (Some(set), Some(kept)) = (&config.embedding, &record.embedding)
                && set != kept
            {
                let message = format!(
                    "dataset {id} was indexed with {}:{}, and [knowledge.datasets.\"{id}\"] says {}:{}: remove that \
                     setting, or the dataset, and add its documents again",
                    kept.provider, kept.model, set.provider, set.model
                );
                return Err(KnowledgeError { class: ErrorType::Value, message, retryable: false });
            }
            record.retrieval = config.retrieval();
            for (said, kept) in
                [(&config.name, &mut record.name), (&config.description, &mut record.description)]
            {
                if !said.is_empty() {
                    kept.clone_from(said);
                }
            }
        }
        if let Some(search) = search {
            record.retrieval = search.clone();
        }
        let indexing = match (&record.indexing_technique, &record.embedding) {
            (Technique::HighQuality, Some(embedding)) => {
                Indexing::HighQuality { embedding: (embedding.provider.clone(), embedding.model.clone()) }
            }
            (Technique::HighQuality, None) | (Technique::Economy, _) => Indexing::Economy,
        };
        Ok(Some(Arc::new(Dataset {
            id: record.id.clone(),
            name: record.name.clone(),
            description: record.description.clone(),
            metadata_fields: config.map(|config| config.metadata_fields.clone()).unwrap_or_default(),
            indexing,
            settings: SearchSettings {
                top_k: record.retrieval.top_k,
                score_threshold: record.retrieval.score_threshold,
            },
            // Without documents of its own, a feature that searches has to know that the search failed.
            strict: self.strict
                || search.is_some()
                || is_inner(id)
                || config.is_some_and(|config| config.strict),
            knowledge: Arc::new(Embedded::new(index_cache.clone(), record)),
        })))
    }
}

/// The warning that passages were not ranked, because their model cannot be used.
pub(crate) fn not_ranked(model: &str, why: &str) -> Warning {
    let message =
        format!("the rerank model {model} cannot be used ({why}), so the passages were not ranked by it");
    Warning::new(PASSAGES_NOT_RANKED, message).about("model", model)
}

/// The datasets in the store, with those among `ids` that belong to another feature.
async fn kept_of(store: &dyn KnowledgeBases, ids: &[String]) -> Result<Vec<DatasetRecord>, StoreError> {
    if let [id] = ids
        && is_inner(id)
    {
        return Ok(store.dataset(id).await?.into_iter().collect());
    }
    store.datasets().await
}

/// What to do about a dataset that is not set.
fn remedy(id: &str) -> String {
    format!(
        "add [knowledge.datasets.\"{id}\"] to the worker's settings, or documents with `tidemill knowledge add`"
    )
}

fn service(
    id: &str,
    config: &DatasetConfig,
    all: &KnowledgeConfig,
    operator_client: &Arc<OperatorClient>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Dataset, KnowledgeSettingError> {
    let name = if config.name.is_empty() { id } else { &config.name };
    let wrong = |(key, reason): (&str, String)| KnowledgeSettingError {
        key: format!("datasets.\"{id}\".{key}"),
        reason,
    };
    let external = External::new((id, name), config, all.answer_bytes_max, operator_client.clone(), variable);
    Ok(Dataset {
        id: id.into(),
        name: name.into(),
        description: config.description.clone(),
        metadata_fields: config.metadata_fields.clone(),
        indexing: Indexing::External,
        settings: SearchSettings {
            top_k: config.top_k,
            score_threshold: config.score_threshold_enabled.then_some(config.score_threshold),
        },
        strict: config.strict || all.strict,
        knowledge: Arc::new(external.map_err(wrong)?),
    })
}

#[cfg(test)]
pub(crate) mod tests;
