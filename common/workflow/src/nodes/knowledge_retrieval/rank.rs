//! Merges, ranks and cuts the passages of several datasets. The rules are Dify's, oddities included: the threshold of
//! the node is not applied to passages of one dataset, or of an external service.

use super::{ErrorType, MultipleConfig, Passage, RerankingMode, Weights, keywords};
use tidemill_base::failure::NodeFailure;

/// The index of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Indexing {
    /// Unknown: an external service searches.
    External,
    /// Vectors.
    HighQuality {
        /// The model of the vectors: provider and name.
        embedding: (String, String),
    },
    /// Words.
    Economy,
}

/// The ranking of merged passages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// By a model, if one is set.
    Model,
    /// By score and words.
    Weights(Weights),
    /// By words.
    Keywords,
    /// By score, above the threshold.
    Scores,
    /// Unranked; the first ones are kept.
    First,
}

/// The ranking for these datasets; at least one.
///
/// # Errors
/// `ValueError`: these datasets cannot be ranked together.
pub fn method(config: &MultipleConfig, datasets: &[Indexing]) -> Result<Method, NodeFailure> {
    let by_model = config.reranking && config.reranking_mode == Some(RerankingMode::Model);
    let weights = config.weights.filter(|_| config.reranking_mode == Some(RerankingMode::Weights));
    let advice = "please set reranking model.";
    if !by_model && datasets.windows(2).any(|pair| technique(&pair[0]) != technique(&pair[1])) {
        let message =
            format!("The configured knowledge base list have different indexing technique, {advice}");
        return Err(ErrorType::Value.failure(message));
    }
    if config.reranking && weights.is_some() && datasets.windows(2).any(|pair| pair[0] != pair[1]) {
        let message = format!("The configured knowledge base list have different embedding model, {advice}");
        return Err(ErrorType::Value.failure(message));
    }
    if config.reranking && datasets.len() > 1 {
        return Ok(match (config.reranking_mode, weights) {
            (Some(RerankingMode::Weights), Some(weights)) => Method::Weights(weights),
            (Some(RerankingMode::Model), _) => Method::Model,
            (Some(RerankingMode::Weights) | None, _) => Method::First,
        });
    }
    Ok(match datasets.last() {
        Some(Indexing::Economy) => Method::Keywords,
        Some(Indexing::HighQuality { .. }) => Method::Scores,
        Some(Indexing::External) | None => Method::First,
    })
}

fn technique(indexing: &Indexing) -> u8 {
    match indexing {
        Indexing::External => 0,
        Indexing::HighQuality { .. } => 1,
        Indexing::Economy => 2,
    }
}

/// Each passage once, at its first position, with the best of its scores. Passages without a key are equal when their
/// texts are.
pub fn merge(passages: Vec<Passage>) -> Vec<Passage> {
    let mut merged: Vec<Passage> = Vec::new();
    for passage in passages {
        let is_same = |known: &&mut Passage| match (&known.key, &passage.key) {
            (None, None) => known.content == passage.content,
            (known, key) => known == key,
        };
        match merged.iter_mut().find(is_same) {
            Some(known) if known.order() < passage.order() => *known = passage,
            Some(_) => {}
            None => merged.push(passage),
        }
    }
    merged
}

/// Ranks by each method that needs no model; for [`Method::Model`] see [`by_model`].
pub fn rank(method: Method, query: &str, passages: Vec<Passage>, config: &MultipleConfig) -> Vec<Passage> {
    match method {
        Method::Model | Method::First => first(passages, config.top_k),
        Method::Weights(weights) => {
            let words = scores(query, &passages);
            let weighed = |(passage, words): (Passage, f64)| {
                scored(weights.vector * passage.order() + weights.keyword * words, passage)
            };
            best(passages.into_iter().zip(words).map(weighed).collect(), config)
        }
        Method::Keywords => {
            let words = scores(query, &passages);
            let scored = passages.into_iter().zip(words).map(|(passage, words)| scored(words, passage));
            first(sorted(scored.collect()), config.top_k)
        }
        Method::Scores => best(passages, config),
    }
}

/// Applies a model's ranking, a list of (index, score).
pub fn by_model(passages: &[Passage], ranking: &[(usize, f64)], config: &MultipleConfig) -> Vec<Passage> {
    let ranked = ranking.iter().filter_map(|(at, score)| Some(scored(*score, passages.get(*at)?.clone())));
    best(ranked.collect(), config)
}

fn scores(query: &str, passages: &[Passage]) -> Vec<f64> {
    let texts: Vec<&str> = passages.iter().map(|passage| passage.content.as_str()).collect();
    keywords::scores(query, &texts)
}

fn scored(score: f64, passage: Passage) -> Passage {
    Passage { score: Some(score), ..passage }
}

/// The best passages above the threshold.
fn best(mut passages: Vec<Passage>, config: &MultipleConfig) -> Vec<Passage> {
    passages.retain(|passage| config.score_threshold.is_none_or(|least| passage.order() >= least));
    first(sorted(passages), config.top_k)
}

fn sorted(mut passages: Vec<Passage>) -> Vec<Passage> {
    passages.sort_by(|a, b| b.order().total_cmp(&a.order()));
    passages
}

fn first(mut passages: Vec<Passage>, top_k: usize) -> Vec<Passage> {
    if top_k > 0 {
        passages.truncate(top_k);
    }
    passages
}
