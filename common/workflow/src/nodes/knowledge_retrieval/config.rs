//! `[knowledge]` of the settings: the knowledge bases that workflows refer to, with addresses and keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::knowledge::records::{ModelName, Retrieval, SearchMethod, Technique};
use tidemill_base::hidden::{Hidden, HiddenUrl};
use tidemill_base::limits::KNOWLEDGE_REQUEST_SECONDS_MAX;

/// `[knowledge]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KnowledgeConfig {
    /// True: an unknown or unsearchable dataset fails the node. Dify skips both.
    pub strict: bool,
    /// Longest wait for a connection to a service, in seconds.
    pub connect_seconds: u64,
    /// Largest response of a service, in bytes.
    pub answer_bytes_max: u64,
    /// Most datasets that one node searches at once.
    pub searches_max: usize,
    /// Most memory for local indexes of embedded knowledge bases, in bytes. The index unused for longest is dropped
    /// first.
    pub index_bytes_max: u64,
    /// The model for vectors where a request of Dify's service API asks for vectors and names no model:
    /// `provider/model`. Empty: such a request is refused.
    pub embedding_model: String,
    /// Longest wait of a request of Dify's service API for a search or a change of segments, in seconds.
    pub request_seconds_max: u64,
    /// Knowledge bases by dataset id.
    pub datasets: BTreeMap<String, DatasetConfig>,
}

impl KnowledgeConfig {
    /// The model of `embedding_model`; the model's name is all after the first slash.
    pub fn default_embedding(&self) -> Option<ModelName> {
        let (provider, model) = self.embedding_model.trim().split_once('/')?;
        Some(ModelName { provider: provider.into(), model: model.into() })
    }

    /// Ids and names of the datasets; workflows may use either.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.datasets.iter().flat_map(|(id, dataset)| [id.as_str(), dataset.name.as_str()]);
        names.filter(|name| !name.is_empty())
    }
}

impl Default for KnowledgeConfig {
    fn default() -> Self {
        Self {
            strict: false,
            connect_seconds: 10,
            // Ample room for a hundred of the longest passages that services return.
            answer_bytes_max: 8 << 20,
            // Workflows use a handful of datasets; further ones wait.
            searches_max: 8,
            // A few hundred thousand passages with small vectors, or some ten thousand with large ones.
            index_bytes_max: 512 << 20,
            embedding_model: String::new(),
            request_seconds_max: KNOWLEDGE_REQUEST_SECONDS_MAX,
            datasets: BTreeMap::new(),
        }
    }
}

/// `[knowledge.datasets.ID]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatasetConfig {
    /// The name in results; empty: the id.
    pub name: String,
    /// The description for a model that chooses a dataset.
    pub description: String,
    pub kind: DatasetKind,
    /// The service's URL: requests go to `POST {endpoint}/retrieval`.
    pub endpoint: HiddenUrl,
    /// The key, sent as `Authorization: Bearer`; prefer `api_key_env`.
    pub api_key: Hidden,
    /// The environment variable with the key.
    pub api_key_env: String,
    /// The knowledge base's name at the service.
    pub knowledge_id: String,
    /// Passages requested.
    pub top_k: u32,
    /// Least score, from 0 to 1.
    pub score_threshold: f64,
    /// True when the least score is sent; otherwise 0 is.
    pub score_threshold_enabled: bool,
    /// Metadata fields that automatic filters can use.
    pub metadata_fields: Vec<String>,
    /// Longest silence of the service, in seconds.
    pub read_seconds: u64,
    /// Most retries after a temporary failure.
    pub retries_max: u32,
    /// True when a failure of this dataset fails the node.
    pub strict: bool,
    /// Embedded only: the indexing technique chosen with the first document. Default: vectors if `embedding` is set.
    pub indexing_technique: Option<Technique>,
    /// Embedded only: the model for vectors.
    pub embedding: Option<ModelName>,
    /// Embedded only: the search method. Default: by meaning with vectors, else by words.
    pub search_method: Option<SearchMethod>,
    /// Embedded only: a model that ranks the results.
    pub reranking_model: Option<ModelName>,
    /// Embedded only, in a hybrid search: the share of meaning, from 0 to 1.
    pub vector_weight: f64,
}

impl DatasetConfig {
    /// The indexing technique.
    pub fn technique(&self) -> Technique {
        let usual = if self.embedding.is_some() { Technique::HighQuality } else { Technique::Economy };
        self.indexing_technique.unwrap_or(usual)
    }

    /// The search settings of an embedded knowledge base.
    pub fn retrieval(&self) -> Retrieval {
        Retrieval {
            search_method: self.search_method,
            top_k: self.top_k,
            score_threshold: self.score_threshold_enabled.then_some(self.score_threshold),
            reranking_model: self.reranking_model.clone(),
            vector_weight: self.vector_weight,
        }
    }
}

impl Default for DatasetConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            kind: DatasetKind::default(),
            endpoint: HiddenUrl::default(),
            api_key: Hidden::default(),
            api_key_env: String::new(),
            knowledge_id: String::new(),
            // Dify's default.
            top_k: 4,
            score_threshold: 0.0,
            score_threshold_enabled: false,
            metadata_fields: Vec::new(),
            // A client that waits for an answer would not wait longer.
            read_seconds: 30,
            retries_max: 2,
            strict: false,
            indexing_technique: None,
            embedding: None,
            search_method: None,
            reranking_model: None,
            vector_weight: Retrieval::default().vector_weight,
        }
    }
}

/// The kind of a knowledge base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetKind {
    /// A service with Dify's External Knowledge API.
    #[default]
    ExternalHttp,
    /// Documents stored in Redis; the workers search them.
    Embedded,
}
