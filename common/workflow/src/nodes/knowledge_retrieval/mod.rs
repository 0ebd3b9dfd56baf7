//! The `knowledge-retrieval` node: finds passages for a question in knowledge bases (Dify: datasets). This module holds
//! all parts that need no network.
//!
//! In the order of a run: `parse` reads the node's `data`, [`question`] gets the question from the variables,
//! [`filter`] and [`automatic`] select documents, and [`router`] lets a model choose one of several datasets. The
//! datasets find [`passage`]s; [`rank`] merges and orders them, with [`keywords`] to compare words. [`config`] is the
//! section of the settings. The worker makes the searches.

pub mod automatic;
pub mod config;
pub mod filter;
pub mod keywords;
mod parse;
pub mod passage;
pub mod question;
pub mod rank;
pub mod router;

use crate::dsl::Problems;
use crate::knowledge::records::Retrieval;
use crate::nodes::llm::ModelConfig;
use filter::FilterTemplate;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Selector};

pub use config::KnowledgeConfig;
pub use passage::Passage;

/// Configuration of `knowledge-retrieval`.
#[derive(Debug, Clone)]
pub struct KnowledgeRetrievalData {
    /// The question. `None`: nothing is searched.
    pub query: Option<Selector>,
    /// Images that belong to the question. They are only recorded: no supported service accepts them.
    pub attachments: Option<Selector>,
    /// The datasets to search, by id as in the file; each once.
    pub dataset_ids: Vec<String>,
    pub mode: RetrievalMode,
    /// The model that chooses among several datasets; needed by [`RetrievalMode::Single`].
    pub router: Option<ModelConfig>,
    /// Settings for merging results of several datasets; needed by [`RetrievalMode::Multiple`].
    pub multiple: Option<MultipleConfig>,
    pub filtering: Filtering,
    /// The model that builds the filters of [`Filtering::Automatic`].
    pub filter_model: Option<ModelConfig>,
    /// The filters in the file.
    pub filters: Option<FilterTemplate>,
    /// The search of a request to the API, in the place of the datasets' own settings; then a dataset that cannot be
    /// searched fails the node. Only our own workflows have it.
    pub search: Option<Retrieval>,
}

/// The datasets to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetrievalMode {
    /// One that a model chooses.
    Single,
    Multiple,
}

/// The filtering of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filtering {
    Disabled,
    /// By filters that a model derives from the question.
    Automatic,
    /// By the filters in the file.
    Manual,
}

/// Settings for merging passages of several datasets.
#[derive(Debug, Clone, PartialEq)]
pub struct MultipleConfig {
    /// Most passages kept; 0: all.
    pub top_k: usize,
    /// Least score. `None`: no threshold.
    pub score_threshold: Option<f64>,
    /// True when the passages are ranked again.
    pub reranking: bool,
    /// The ranking. `None`: an unknown mode, which does not rank.
    pub reranking_mode: Option<RerankingMode>,
    /// The model of [`RerankingMode::Model`]: provider and name.
    pub reranking_model: Option<(String, String)>,
    /// The shares of [`RerankingMode::Weights`].
    pub weights: Option<Weights>,
}

/// The way of ranking passages again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RerankingMode {
    /// By a model.
    Model,
    /// By meaning and by words, each with a share.
    Weights,
}

/// Shares of a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// The share of the dataset's score.
    pub vector: f64,
    /// The share of the words that question and passage have in common.
    pub keyword: f64,
}

/// Error types with Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
    /// A setting of the node is missing, or a service refused.
    Value,
    /// A dataset is missing or unreachable.
    Retrieval,
    /// A variable has the wrong type; Dify gives this no class.
    Unnamed,
}

impl ErrorType {
    /// The name that workflows branch on.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "ValueError",
            Self::Retrieval => "KnowledgeRetrievalNodeError",
            Self::Unnamed => "",
        }
    }
    /// A failure of this type.
    pub fn failure(self, message: impl Into<String>) -> NodeFailure {
        NodeFailure::new(self.name(), message)
    }
}

impl KnowledgeRetrievalData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for selector in self.query.iter().chain(&self.attachments) {
            mention(selector, into);
        }
        for model in self.router.iter().chain(&self.filter_model) {
            model.mentions(into);
        }
        if let Some(filters) = &self.filters {
            filters.mentions(into);
        }
    }

    /// Checks that the mode's settings exist. As on Dify this happens when the node runs, not when the file is read.
    ///
    /// # Errors
    /// `ValueError` with Dify's text.
    pub fn check(&self) -> Result<(), NodeFailure> {
        let weighted = |config: &MultipleConfig| config.reranking_mode == Some(RerankingMode::Weights);
        let missing = match (self.mode, &self.router, &self.multiple) {
            (RetrievalMode::Single, None, _) => {
                "single_retrieval_config is required for single retrieval mode"
            }
            (RetrievalMode::Multiple, _, None) => "multiple_retrieval_config is required",
            (RetrievalMode::Multiple, _, Some(config)) if weighted(config) && config.weights.is_none() => {
                "weights is required"
            }
            (RetrievalMode::Single, Some(_), _) | (RetrievalMode::Multiple, _, Some(_)) => {
                match (self.filtering, &self.filter_model) {
                    (Filtering::Automatic, None) => "metadata_model_config is required for this method",
                    (Filtering::Automatic, Some(_)) | (Filtering::Disabled | Filtering::Manual, _) => {
                        return Ok(());
                    }
                }
            }
        };
        Err(ErrorType::Value.failure(missing))
    }
}

#[cfg(test)]
mod tests;
