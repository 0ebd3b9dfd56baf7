//! `[knowledge]` of the settings: where the knowledge bases are that workflows name, and the keys to them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hidden::{Hidden, HiddenUrl};
use crate::wire::knowledge::{ModelName, Retrieval, SearchMethod, Technique};

/// `[knowledge]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KnowledgeConfig {
    /// Whether a dataset that is not set, or cannot be searched, fails the node. Dify passes over both.
    pub strict: bool,
    /// Longest wait for a connection to a service, in seconds.
    pub connect_seconds: u64,
    /// Largest answer of a service, in bytes.
    pub answer_bytes_max: u64,
    /// Most datasets that one node searches at a time.
    pub searches_max: usize,
    /// Most memory for local indexes of embedded knowledge bases, in bytes. What was not searched for longest goes first.
    pub index_bytes_max: u64,
    /// Knowledge bases by the dataset's id.
    pub datasets: BTreeMap<String, DatasetConfig>,
}

impl Default for KnowledgeConfig {
    fn default() -> Self {
        Self {
            strict: false,
            connect_seconds: 10,
            // A hundred passages of the longest that services cut, and much room.
            answer_bytes_max: 8 << 20,
            // Workflows have a handful of datasets; more wait for their turn.
            searches_max: 8,
            // Some hundred thousand passages with small vectors, or ten thousands with large ones.
            index_bytes_max: 512 << 20,
            datasets: BTreeMap::new(),
        }
    }
}

/// `[knowledge.datasets.ID]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatasetConfig {
    /// What results call it; empty: its id.
    pub name: String,
    /// What a model is told of it that has to choose.
    pub description: String,
    /// What it is.
    pub kind: DatasetKind,
    /// Where the service is: `POST {endpoint}/retrieval`.
    pub endpoint: HiddenUrl,
    /// Its key, sent as `Authorization: Bearer`; better is `api_key_env`.
    pub api_key: Hidden,
    /// The environment variable that holds the key.
    pub api_key_env: String,
    /// The knowledge base's name at the service.
    pub knowledge_id: String,
    /// Passages that it is asked for.
    pub top_k: u32,
    /// Least score, from 0 to 1.
    pub score_threshold: f64,
    /// Whether the least score is sent; else 0 is.
    pub score_threshold_enabled: bool,
    /// Fields of its documents' metadata that automatic filters may use.
    pub metadata_fields: Vec<String>,
    /// Longest silence of the service, in seconds.
    pub read_seconds: u64,
    /// Most further tries after a failure that may pass.
    pub retries_max: u32,
    /// Whether its failure fails the node.
    pub strict: bool,
    /// Of an embedded one: how it is indexed when its first document comes; by vectors if `embedding` says whose.
    pub indexing_technique: Option<Technique>,
    /// Of an embedded one: the model of its vectors.
    pub embedding: Option<ModelName>,
    /// Of an embedded one: how it is searched; by meaning where there are vectors, else by words.
    pub search_method: Option<SearchMethod>,
    /// Of an embedded one: a model that ranks what was found.
    pub reranking_model: Option<ModelName>,
    /// Of an embedded one, in a hybrid search: the share of meaning, from 0 to 1.
    pub vector_weight: f64,
}

impl DatasetConfig {
    /// How it is indexed.
    pub fn technique(&self) -> Technique {
        let usual = if self.embedding.is_some() { Technique::HighQuality } else { Technique::Economy };
        self.indexing_technique.unwrap_or(usual)
    }

    /// How an embedded one is searched.
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
            // Dify's.
            top_k: 4,
            score_threshold: 0.0,
            score_threshold_enabled: false,
            metadata_fields: Vec::new(),
            // A search that takes longer is of no use to whoever waits for an answer.
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

/// What a knowledge base is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetKind {
    /// A service that speaks Dify's External Knowledge API.
    #[default]
    ExternalHttp,
    /// Documents that are kept in Redis and searched by the workers themselves.
    Embedded,
}
