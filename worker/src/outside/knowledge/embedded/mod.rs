//! Knowledge bases with documents in the store. A worker caches the searched indexes in memory ([`index_cache`], [`index`])
//! until they change. Documents excluded by a filter are skipped before the search.
//!
//! The semantic search compares every vector (an exact scan: memory limits a dataset, and so the time). The full-text
//! search uses BM25 ([`words`]), and the keyword search ranks by words shared with the question ([`keywords`]).

pub mod index;
pub mod index_cache;
pub mod words;

use std::sync::Arc;

use serde_json::json;
use tidemill_common::knowledge::{built_in, vectors};
use tidemill_common::nodes::knowledge_retrieval::{ErrorType, Passage, keywords};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::knowledge::{DatasetRecord, SearchMethod, SegmentRecord, Technique};

use crate::outside::knowledge::embedded::index::Index;
use crate::outside::knowledge::embedded::index_cache::IndexCache;
use crate::outside::knowledge::{Knowledge, KnowledgeError, SearchRequest, SearchSettings, not_ranked};
use crate::outside::providers::profile::ModelKind;

/// Most extra segments whose words are compared one by one, beyond the requested number.
const COMPARED_MAX: usize = 50;

/// A dataset in the store; see the module.
pub struct Embedded {
    index_cache: Arc<IndexCache>,
    record: DatasetRecord,
}

/// The input of a search.
struct Wanted {
    query: String,
    /// The question's vector; empty if the method needs none.
    vector: Vec<f32>,
    method: SearchMethod,
    /// For each document: true if it may be found.
    documents: Vec<bool>,
    count: usize,
    vector_weight: f64,
}

/// Document, segment, score.
type Hit = (usize, usize, f64);

impl Embedded {
    /// Creates the dataset of a record.
    pub fn new(index_cache: Arc<IndexCache>, record: DatasetRecord) -> Self {
        Self { index_cache, record }
    }

    fn error(&self, reason: impl std::fmt::Display, retryable: bool) -> KnowledgeError {
        let message = format!("knowledge base {:?}: {reason}", self.record.name);
        KnowledgeError { class: ErrorType::Retrieval, message, retryable }
    }

    /// Without vectors only the keyword search remains (Dify).
    fn method(&self) -> SearchMethod {
        match (self.record.indexing_technique, &self.record.embedding) {
            (Technique::HighQuality, Some(_)) => {
                self.record.retrieval.search_method.unwrap_or(SearchMethod::SemanticSearch)
            }
            (Technique::HighQuality, None) | (Technique::Economy, _) => SearchMethod::KeywordSearch,
        }
    }

    /// The question's vector, from the model of the documents' vectors.
    async fn vector(&self, search: SearchRequest<'_>) -> Result<Vec<f32>, KnowledgeError> {
        let Some(name) = &self.record.embedding else { return Ok(Vec::new()) };
        let step = format!("embed:{}", self.record.id);
        let vector = search.models.vector(&step, name, search.query).await;
        vector.map(vectors::unit).map_err(|error| self.error(&error, error.is_retryable()))
    }

    fn passage(&self, index: &Index, (document, segment, score): Hit) -> Option<Passage> {
        let document = index.documents.get(document)?;
        let segment = document.content.segments.get(segment)?;
        let mut more = JsonMap::new();
        for (key, value) in [
            ("segment_id", json!(segment.id)),
            ("child_chunks", json!([])),
            ("segment_hit_count", json!(index.hits.get(&segment.id).copied().unwrap_or(0))),
            ("segment_word_count", json!(segment.word_count)),
            ("segment_position", json!(segment.position)),
            ("segment_index_node_hash", json!(segment.index_node_hash)),
        ] {
            more.insert(key.into(), value);
        }
        let record = &document.record;
        Some(Passage {
            dataset_id: self.record.id.clone(),
            dataset_name: self.record.name.clone(),
            document_id: record.id.clone(),
            title: record.name.clone(),
            content: shown(segment),
            score: Some(score),
            source_type: record.data_source_type.clone(),
            document_metadata: Some(built_in::metadata(&self.record, record).into_owned()),
            key: Some(segment.index_node_id.clone()),
            more,
        })
    }

    /// Ranks passages with the dataset's model; without a usable model their order stays (Dify).
    async fn ranked(
        &self,
        search: SearchRequest<'_>,
        passages: Vec<Passage>,
        top_k: usize,
    ) -> Result<Vec<Passage>, KnowledgeError> {
        let Some(name) = &self.record.retrieval.reranking_model else {
            return Ok(passages);
        };
        let model = match search.models.find(name, ModelKind::Rerank).await {
            Ok(model) => model,
            Err(error) => {
                let (model, why) = (&name.model, error.brief());
                tracing::warn!(dataset = self.record.id, model, error = why, "passages are not ranked");
                search.models.warn(not_ranked(model, &why).about("dataset", self.record.id.as_str()));
                return Ok(passages);
            }
        };
        let texts: Vec<String> = passages.iter().map(|passage| passage.content.clone()).collect();
        let step = format!("rerank:{}", self.record.id);
        let ranking = search.models.ranking(&step, (name, &model), search.query, (&texts, top_k)).await;
        let ranking = ranking.map_err(|error| self.error(&error, error.is_retryable()))?;
        let ranked =
            |(at, score): (usize, f64)| Some(Passage { score: Some(score), ..passages.get(at)?.clone() });
        Ok(ranking.into_iter().filter_map(ranked).collect())
    }
}

#[async_trait::async_trait]
impl Knowledge for Embedded {
    async fn search(
        &self,
        search: SearchRequest<'_>,
        settings: &SearchSettings,
    ) -> Result<Vec<Passage>, KnowledgeError> {
        let index = self.index_cache.index(&self.record).await?;
        let is_wanted = |document: &index::Document| {
            let metadata = built_in::metadata(&self.record, &document.record);
            search.filters.is_none_or(|filters| filters.matches(&metadata))
        };
        let documents: Vec<bool> = index.documents.iter().map(is_wanted).collect();
        if !documents.contains(&true) {
            return Ok(Vec::new());
        }
        let method = self.method();
        let vector = if method.needs_vectors() { self.vector(search).await? } else { Vec::new() };
        if method.needs_vectors() && index.dimension.is_some_and(|of_index| of_index != vector.len()) {
            let reason = format!(
                "its model gave a vector of {} numbers, those of its documents have {}: add them again",
                vector.len(),
                index.dimension.unwrap_or(0)
            );
            return Err(self.error(reason, false));
        }
        let top_k = usize::try_from(settings.top_k).unwrap_or(usize::MAX);
        let wanted = Wanted {
            query: search.query.to_owned(),
            vector,
            method,
            documents,
            count: top_k,
            vector_weight: self.record.retrieval.vector_weight,
        };
        let (here, searched) = (index.clone(), tokio::task::spawn_blocking(move || find(&index, &wanted)));
        let found = searched.await.map_err(|error| self.error(error, true))?;
        let passages: Vec<Passage> = found.into_iter().filter_map(|it| self.passage(&here, it)).collect();
        let mut passages = self.ranked(search, passages, top_k).await?;
        passages.retain(|passage| settings.score_threshold.is_none_or(|least| passage.order() >= least));
        passages.truncate(top_k);
        let ids = passages.iter().filter_map(|it| it.more.get("segment_id")?.as_str().map(str::to_owned));
        self.index_cache.found(&self.record.id, ids);
        Ok(passages)
    }

    async fn fields(&self) -> Result<Vec<String>, KnowledgeError> {
        Ok(self.index_cache.index(&self.record).await?.fields())
    }
}

/// A segment as passages show it; a question with an answer in Dify's form.
fn shown(segment: &SegmentRecord) -> String {
    match &segment.answer {
        Some(answer) => format!("question:{} \nanswer:{answer}", segment.content),
        None => segment.content.clone(),
    }
}

/// Returns the best segments, the best first.
fn find(index: &Index, wanted: &Wanted) -> Vec<Hit> {
    match wanted.method {
        SearchMethod::SemanticSearch => best(by_meaning(index, wanted), wanted.count),
        SearchMethod::FullTextSearch => best(by_words(index, wanted), wanted.count),
        SearchMethod::KeywordSearch => {
            let candidates = best(by_words(index, wanted), wanted.count.max(COMPARED_MAX));
            best(compared(index, wanted, candidates, 0.0), wanted.count)
        }
        SearchMethod::HybridSearch => {
            let mut candidates = best(by_meaning(index, wanted), wanted.count);
            for found in best(by_words(index, wanted), wanted.count) {
                if !candidates.iter().any(|known| (known.0, known.1) == (found.0, found.1)) {
                    candidates.push(found);
                }
            }
            best(compared(index, wanted, candidates, wanted.vector_weight), wanted.count)
        }
    }
}

fn by_meaning(index: &Index, wanted: &Wanted) -> Vec<Hit> {
    let documents = index.documents.iter().enumerate().filter(|(at, _)| wanted.documents[*at]);
    let of_document = |(at, document): (usize, &index::Document)| {
        let content = document.content.clone();
        let enabled = (0..content.segments.len()).filter(move |segment| content.segments[*segment].enabled);
        enabled.map(move |segment| (at, segment)).collect::<Vec<_>>()
    };
    let segments = documents.flat_map(of_document);
    segments.map(|(at, segment)| (at, segment, nearness(index, wanted, at, segment))).collect()
}

fn nearness(index: &Index, wanted: &Wanted, document: usize, segment: usize) -> f64 {
    let vector = index.documents[document].content.vector(segment);
    f64::from(vectors::cosine(vector, &wanted.vector))
}

fn by_words(index: &Index, wanted: &Wanted) -> Vec<Hit> {
    let documents: Vec<_> = index.documents.iter().map(|document| &document.content.words).collect();
    let hits = words::search(&wanted.query, &documents, |document| wanted.documents[document]);
    let enabled = hits.into_iter().filter(|hit| {
        let segment = index.documents[hit.document].content.segments.get(hit.segment);
        segment.is_some_and(|segment| segment.enabled)
    });
    enabled.map(|hit| (hit.document, hit.segment, hit.score)).collect()
}

/// Scores candidates by a share of vector similarity, and the rest by words shared with the question.
fn compared(index: &Index, wanted: &Wanted, candidates: Vec<Hit>, meaning: f64) -> Vec<Hit> {
    let text = |found: &Hit| shown(&index.documents[found.0].content.segments[found.1]);
    let texts: Vec<String> = candidates.iter().map(text).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let words = keywords::scores(&wanted.query, &texts);
    let scored = |((document, segment, _), words): (Hit, f64)| {
        let near = if meaning > 0.0 { nearness(index, wanted, document, segment) } else { 0.0 };
        (document, segment, meaning * near + (1.0 - meaning) * words)
    };
    candidates.into_iter().zip(words).map(scored).collect()
}

/// Returns the best; ties keep their order.
fn best(mut found: Vec<Hit>, count: usize) -> Vec<Hit> {
    let order = |a: &Hit, b: &Hit| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1)));
    if count < found.len() && count > 0 {
        found.select_nth_unstable_by(count - 1, order);
    }
    found.truncate(count);
    found.sort_unstable_by(order);
    found
}

#[cfg(test)]
mod tests;
