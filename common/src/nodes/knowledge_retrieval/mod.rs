//! Passages for a question, out of knowledge bases (Dify: datasets), and everything about it that needs no network.
//!
//! In the order of a run: `parse` reads the node's `data`, [`question`] the question out of the variables, [`filter`] and
//! [`automatic`] say which documents are wanted, [`router`] has a model choose one of several datasets. What the datasets
//! find are [`passage`]s, which [`rank`] merges and orders, with [`keywords`] where words are to be compared. [`config`] is
//! the section of the settings. The searches themselves are made by the worker.

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
use crate::failure::NodeFailure;
use crate::nodes::llm::ModelConfig;
use crate::value::template::mention;
use crate::value::{JsonMap, Selector};
use filter::FilterTemplate;

pub use config::KnowledgeConfig;
pub use passage::Passage;

/// Configuration of `knowledge-retrieval`.
#[derive(Debug, Clone)]
pub struct KnowledgeRetrievalData {
    /// The question; none: nothing is asked.
    pub query: Option<Selector>,
    /// Pictures that are part of the question. Only recorded: no service that can be set takes them.
    pub attachments: Option<Selector>,
    /// Where to search, by ids as the file has them; each once.
    pub dataset_ids: Vec<String>,
    /// One dataset, or all of them.
    pub mode: RetrievalMode,
    /// The model that chooses among several datasets; needed by [`RetrievalMode::Single`].
    pub router: Option<ModelConfig>,
    /// What becomes of what several datasets find; needed by [`RetrievalMode::Multiple`].
    pub multiple: Option<MultipleConfig>,
    /// Which documents are wanted.
    pub filtering: Filtering,
    /// The model that makes the filters of [`Filtering::Automatic`].
    pub filter_model: Option<ModelConfig>,
    /// The filters of the file.
    pub filters: Option<FilterTemplate>,
}

/// Which datasets are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetrievalMode {
    /// One that a model chooses.
    Single,
    /// All.
    Multiple,
}

/// How documents are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filtering {
    /// They are not.
    Disabled,
    /// By filters that a model makes of the question.
    Automatic,
    /// By those of the file.
    Manual,
}

/// What becomes of the passages of several datasets.
#[derive(Debug, Clone, PartialEq)]
pub struct MultipleConfig {
    /// How many are kept; 0: all.
    pub top_k: usize,
    /// Least score; none: any.
    pub score_threshold: Option<f64>,
    /// Whether they are ranked anew.
    pub reranking: bool,
    /// By what; none: a mode that is not known, which ranks nothing.
    pub reranking_mode: Option<RerankingMode>,
    /// The model of [`RerankingMode::Model`]: provider and name.
    pub reranking_model: Option<(String, String)>,
    /// The shares of [`RerankingMode::Weights`].
    pub weights: Option<Weights>,
}

/// How passages are ranked anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RerankingMode {
    /// By a model.
    Model,
    /// By meaning and by words, each with its share.
    Weights,
}

/// Shares of a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Of the score that a dataset gave.
    pub vector: f64,
    /// Of the words that question and passage share.
    pub keyword: f64,
}

/// Classes of failure under Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
    /// A setting of the node is missing, or a service refused.
    Value,
    /// A dataset is not there or cannot be reached.
    Retrieval,
    /// A variable has the wrong type: Dify gives that no class.
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
    /// A failure of this class.
    pub fn failure(self, message: impl Into<String>) -> NodeFailure {
        NodeFailure::new(self.name(), message)
    }
}

impl KnowledgeRetrievalData {
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
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

    /// Whether what the mode needs is there. Dify looks when the node runs, not when the file is read.
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
