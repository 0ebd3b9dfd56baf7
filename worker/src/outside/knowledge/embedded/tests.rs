//! Tests of searches in stored documents: every method, filters, replaced documents, and the memory limit.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::clock::SystemClock;
use tidemill_common::config::{HttpConfig, KnowledgeConfig};
use tidemill_common::knowledge::{Piece, segments, vectors};
use tidemill_common::nodes::knowledge_retrieval::config::{DatasetConfig, DatasetKind};
use tidemill_common::nodes::knowledge_retrieval::filter::{Condition, Filters, Logic, Operator};
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{Generation, KnowledgeBases, Published};
use tidemill_common::wire::knowledge::{DocumentRecord, IndexingRecord, ModelName, Retrieval};

use crate::outside::knowledge::Datasets;
use crate::outside::knowledge::embedded::*;
use crate::outside::knowledge::models::Models;
use crate::outside::knowledge::tests::Service;
use crate::outside::providers::limiter::CallPermits;
use crate::outside::providers::{Providers, ProvidersConfig};
use crate::tests::fake::{FakeJobs, charges, journal};

/// A unit vector in one of three directions.
fn vector(matter: [f32; 3]) -> Vec<f32> {
    vectors::unit(matter.to_vec())
}

struct Library {
    store: Arc<MemoryStore>,
}

impl Library {
    async fn new(technique: Technique, retrieval: Retrieval) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let embedding = Some(ModelName { provider: "p".into(), model: "e".into() });
        let record = DatasetRecord {
            id: "k".into(),
            name: "Kept".into(),
            indexing_technique: technique,
            embedding: embedding.filter(|_| technique == Technique::HighQuality),
            retrieval,
            ..DatasetRecord::default()
        };
        assert!(store.put_dataset(&record, true).await.unwrap());
        Self { store }
    }

    /// Adds a document, as an indexing run does.
    async fn add(&self, id: &str, run: &str, metadata: Json, texts: &[(&str, Option<[f32; 3]>)]) {
        let pieces: Vec<Piece> =
            texts.iter().map(|(text, _)| Piece { content: (*text).into(), ..Piece::default() }).collect();
        let made = segments("k", id, &pieces);
        let generation = format!("{id}-{run}");
        let of = Generation { dataset: "k", name: &generation };
        let indexing = IndexingRecord { run: run.into(), ..IndexingRecord::default() };
        self.store.begin_indexing("k", id, &indexing).await.unwrap();
        self.store.put_segments(of, &made).await.unwrap();
        let of_texts: Vec<(u64, Vec<f32>)> =
            texts.iter().zip(1..).filter_map(|((_, matter), at)| Some((at, vector((*matter)?)))).collect();
        self.store.put_vectors(of, &of_texts).await.unwrap();
        let record = DocumentRecord {
            id: id.into(),
            name: format!("{id}.md"),
            doc_metadata: metadata.as_object().unwrap().clone(),
            generation: generation.clone(),
            segments: made.len() as u64,
            bytes: pieces.iter().map(|piece| piece.content.len() as u64).sum(),
            dimension: if of_texts.is_empty() { 0 } else { 3 },
            ..DocumentRecord::default()
        };
        let published = self.store.publish_document("k", &record, run).await.unwrap();
        assert_eq!(published, Published::Published);
    }

    fn datasets(&self, index_bytes_max: u64, config: Option<DatasetConfig>) -> Datasets {
        let datasets = config.into_iter().map(|config| ("k".to_owned(), config)).collect();
        let config = KnowledgeConfig { index_bytes_max, datasets, ..KnowledgeConfig::default() };
        Datasets::new(&config, &HttpConfig::default()).unwrap().kept_in(self.store.clone())
    }
}

fn providers(service: Option<&Service>) -> Providers {
    let profile = service.map_or(
        json!({}),
        |it| json!({"p": {"base_url": format!("{}/v1", it.base), "api_key": "k", "max_retries": 0}}),
    );
    Providers::new(&serde_json::from_value::<ProvidersConfig>(profile).unwrap(), &|_| None).unwrap()
}

async fn search(
    datasets: &Datasets,
    service: Option<&Service>,
    query: &str,
    filters: Option<&Filters>,
) -> Result<Vec<Passage>, KnowledgeError> {
    search_in(&FakeJobs::new(), &providers(service), datasets, query, filters).await
}

/// Searches as part of a job with this journal.
async fn search_in(
    jobs: &Arc<FakeJobs>,
    providers: &Providers,
    datasets: &Datasets,
    query: &str,
    filters: Option<&Filters>,
) -> Result<Vec<Passage>, KnowledgeError> {
    let journal = journal(jobs);
    let found = datasets.find(&["k".into()], &|_| {}).await?;
    found[0].search(SearchRequest { query, filters, models: &Models::new(providers, &journal) }).await
}

fn texts(passages: &[Passage]) -> Vec<&str> {
    passages.iter().map(|passage| passage.content.as_str()).collect()
}

/// A service whose question vector points mostly in the first direction, and a little in the second.
async fn service() -> Service {
    let answer = r#"{"data": [{"index": 0, "embedding": [2, 1, 0]}], "usage": {"prompt_tokens": 1, "total_tokens": 1}}"#;
    let ranking = r#"{"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}], "usage": {"total_tokens": 3}}"#;
    Service::new(&[("/v1/embeddings", 200, answer), ("/v1/rerank", 200, ranking)]).await
}

const FIRST: Option<[f32; 3]> = Some([1.0, 0.0, 0.0]);
const SECOND: Option<[f32; 3]> = Some([0.0, 1.0, 0.0]);
const THIRD: Option<[f32; 3]> = Some([0.0, 0.0, 1.0]);

async fn by_vectors(retrieval: Retrieval) -> Library {
    let library = Library::new(Technique::HighQuality, retrieval).await;
    library.add("a", "1", json!({"year": 2020}), &[("apes climb", FIRST), ("bees fly", SECOND)]).await;
    library.add("b", "1", json!({"year": 2024}), &[("cats purr and climb trees", THIRD)]).await;
    library
}

const MUCH: u64 = 1 << 20;

#[tokio::test]
async fn each_method_finds_what_it_is_for() {
    let service = service().await;
    for (method, top_k, expected) in [
        (None, 4, vec!["apes climb", "bees fly", "cats purr and climb trees"]),
        (Some(SearchMethod::SemanticSearch), 1, vec!["apes climb"]),
        (Some(SearchMethod::FullTextSearch), 4, vec!["cats purr and climb trees"]),
        (Some(SearchMethod::KeywordSearch), 4, vec!["cats purr and climb trees"]),
        (Some(SearchMethod::HybridSearch), 1, vec!["apes climb"]),
    ] {
        let retrieval = Retrieval { search_method: method, top_k, ..Retrieval::default() };
        let datasets = by_vectors(retrieval).await.datasets(MUCH, None);
        let found = search(&datasets, Some(&service), "trees", None).await.unwrap();
        assert_eq!(texts(&found), expected, "{method:?}");
        assert!(found.iter().all(|it| (0.0..=1.0001).contains(&it.order())), "{found:?}");
    }
    // Both count: with a high word weight, a near segment with the word comes first.
    let words = Retrieval {
        search_method: Some(SearchMethod::HybridSearch),
        vector_weight: 0.1,
        ..Retrieval::default()
    };
    let datasets = by_vectors(words).await.datasets(MUCH, None);
    let found = search(&datasets, Some(&service), "trees", None).await.unwrap();
    assert_eq!(texts(&found)[..2], ["cats purr and climb trees", "apes climb"]);
}

#[tokio::test]
async fn passages_say_all_of_their_segment_and_document() {
    let service = service().await;
    let library = by_vectors(Retrieval { score_threshold: Some(0.5), ..Retrieval::default() }).await;
    let datasets = library.datasets(MUCH, None);
    let found = search(&datasets, Some(&service), "who?", None).await.unwrap();
    assert_eq!(texts(&found), ["apes climb"], "the threshold holds");
    let passage = &found[0];
    assert_eq!((passage.dataset_id.as_str(), passage.dataset_name.as_str()), ("k", "Kept"));
    assert_eq!((passage.document_id.as_str(), passage.title.as_str()), ("a", "a.md"));
    assert_eq!(passage.source_type, "upload_file");
    assert_eq!(passage.document_metadata.as_ref().unwrap()["year"], json!(2020));
    assert!((passage.order() - 2.0 / 5.0_f64.sqrt()).abs() < 1e-5);
    let made = segments("k", "a", &[Piece { content: "apes climb".into(), ..Piece::default() }]);
    assert_eq!(passage.more["segment_id"], json!(made[0].id));
    assert_eq!(
        (&passage.more["segment_position"], &passage.more["segment_word_count"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(passage.key.as_ref(), Some(&made[0].index_node_id));
    // The hit is counted a moment later.
    let mut hits = library.store.hits("k").await.unwrap();
    while hits.is_empty() {
        tokio::task::yield_now().await;
        hits = library.store.hits("k").await.unwrap();
    }
    assert_eq!(hits, [(made[0].id.clone(), 1)].into());
}

#[tokio::test]
async fn documents_that_a_filter_does_not_want_are_left_out_before_the_search() {
    let service = service().await;
    let library = by_vectors(Retrieval { top_k: 1, ..Retrieval::default() }).await;
    let datasets = library.datasets(MUCH, None);
    let year = |operator, value| {
        Filters::new(Logic::And, vec![Condition { name: "year".into(), operator, value: json!(value) }])
            .unwrap()
    };
    let found = search(&datasets, Some(&service), "q", Some(&year(Operator::More, 2021))).await.unwrap();
    assert_eq!(texts(&found), ["cats purr and climb trees"], "although others are nearer");
    let before = service.seen().len();
    assert!(
        search(&datasets, Some(&service), "q", Some(&year(Operator::More, 2030))).await.unwrap().is_empty()
    );
    assert_eq!(service.seen().len(), before, "no model is asked for nothing");
    let found = datasets.find(&["Kept".into(), "k".into()], &|_| {}).await.unwrap();
    assert_eq!((found.len(), found[0].fields().await.unwrap()), (1, vec!["year".to_owned()]));
}

#[tokio::test]
async fn words_need_no_model_and_chinese_is_found() {
    let library = Library::new(Technique::Economy, Retrieval::default()).await;
    library.add("a", "1", json!({}), &[("年假共有三十天。", None), ("出差坐火车。", None)]).await;
    let datasets = library.datasets(MUCH, None);
    let found = search(&datasets, None, "年假有几天？", None).await.unwrap();
    assert_eq!(texts(&found), ["年假共有三十天。"]);
    assert!(search(&datasets, None, "nothing of it", None).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_replaced_or_removed_is_found_no_more() {
    let library = Library::new(Technique::Economy, Retrieval::default()).await;
    library.add("a", "1", json!({}), &[("old mill", None), ("old wheel", None)]).await;
    library.add("b", "1", json!({}), &[("old boat", None)]).await;
    let datasets = library.datasets(MUCH, None);
    let find = async || texts_of(&datasets).await;
    assert_eq!(find().await, ["old boat", "old mill", "old wheel"]);
    library.add("a", "2", json!({}), &[("old and new mill", None)]).await;
    assert_eq!(find().await, ["old and new mill", "old boat"]);
    library.store.drop_document("k", "b").await.unwrap();
    assert_eq!(find().await, ["old and new mill"]);
    library.store.drop_document("k", "a").await.unwrap();
    assert!(find().await.is_empty());
}

async fn texts_of(datasets: &Datasets) -> Vec<String> {
    let found = search(datasets, None, "old", None).await.unwrap();
    let mut texts: Vec<String> = found.into_iter().map(|passage| passage.content).collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn a_dataset_that_takes_too_much_memory_is_refused_and_the_setting_named() {
    let library = by_vectors(Retrieval::default()).await;
    let error = search(&library.datasets(1000, None), None, "q", None).await.unwrap_err();
    assert!(error.message.contains("knowledge.index_bytes_max is 1000") && !error.retryable, "{error}");
    assert!(error.message.contains("\"Kept\""), "{error}");
}

#[tokio::test]
async fn a_model_of_its_own_ranks_what_was_found() {
    let service = service().await;
    let model = Some(ModelName { provider: "p".into(), model: "r".into() });
    let library = by_vectors(Retrieval { reranking_model: model, top_k: 2, ..Retrieval::default() }).await;
    let found = search(&library.datasets(MUCH, None), Some(&service), "q", None).await.unwrap();
    assert_eq!(texts(&found), ["bees fly", "apes climb"]);
    assert_eq!(found[0].score, Some(0.9));
}

#[tokio::test]
async fn settings_say_how_a_dataset_is_searched_and_may_name_one_without_documents() {
    let service = service().await;
    let library = by_vectors(Retrieval::default()).await;
    let set = |model: &str| DatasetConfig {
        name: "Mine".into(),
        kind: DatasetKind::Embedded,
        embedding: Some(ModelName { provider: "p".into(), model: model.into() }),
        top_k: 1,
        ..DatasetConfig::default()
    };
    let found = search(&library.datasets(MUCH, Some(set("e"))), Some(&service), "q", None).await.unwrap();
    assert_eq!((texts(&found), found[0].dataset_name.as_str()), (vec!["apes climb"], "Mine"));
    let error = search(&library.datasets(MUCH, Some(set("other"))), None, "q", None).await.unwrap_err();
    assert!(error.message.contains("was indexed with p:e") && error.class == ErrorType::Value, "{error}");
    library.store.drop_dataset("k").await.unwrap();
    let datasets = library.datasets(MUCH, Some(set("e")));
    assert!(search(&datasets, None, "q", None).await.unwrap().is_empty());
    assert!(library.datasets(MUCH, None).find(&["k".into()], &|_| {}).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_model_that_fails_or_has_changed_is_told() {
    let failing = Service::new(&[("/v1/embeddings", 500, "{}")]).await;
    let library = by_vectors(Retrieval::default()).await;
    let datasets = library.datasets(MUCH, None);
    let error = search(&datasets, Some(&failing), "q", None).await.unwrap_err();
    assert!(error.message.starts_with("knowledge base \"Kept\": ") && error.retryable, "{error}");
    let error = search(&datasets, None, "q", None).await.unwrap_err();
    assert!(error.message.contains("[providers.p]"), "{error}");
    let answer = r#"{"data": [{"index": 0, "embedding": [2, 1]}]}"#;
    let changed = Service::new(&[("/v1/embeddings", 200, answer)]).await;
    let error = search(&datasets, Some(&changed), "q", None).await.unwrap_err();
    assert!(error.message.contains("a vector of 2 numbers"), "{error}");
}

#[tokio::test]
async fn a_search_pays_each_model_once_by_its_name_and_whoever_takes_the_job_up_asks_none_again() {
    let reranking_model = Some(ModelName { provider: "p".into(), model: "r".into() });
    let library = by_vectors(Retrieval { reranking_model, top_k: 2, ..Retrieval::default() }).await;
    let (service, jobs) = (service().await, FakeJobs::new());
    let (providers, datasets) = (providers(Some(&service)), library.datasets(MUCH, None));
    for _ in 0..2 {
        let found = search_in(&jobs, &providers, &datasets, "q", None).await.unwrap();
        assert_eq!(texts(&found), ["bees fly", "apes climb"]);
    }
    assert_eq!(service.paths(), ["/v1/embeddings", "/v1/rerank"]);
    let charged = charges(&jobs);
    let spent: Vec<_> = charged.iter().map(|(_, who, tokens)| (who.as_str(), *tokens)).collect();
    assert_eq!(spent, [("p:e", 1), ("p:r", 3)]);
    assert!(charged[0].0 == "embed:k/1" && charged[1].0.starts_with("rerank:k:"), "{charged:?}");
    // With other texts the indices have another meaning.
    library.add("c", "2", json!({}), &[("dogs bark", FIRST)]).await;
    search_in(&jobs, &providers, &datasets, "q", None).await.unwrap();
    assert_eq!(service.paths(), ["/v1/embeddings", "/v1/rerank", "/v1/rerank"]);
}

#[tokio::test]
async fn a_model_with_limits_that_refuses_is_waited_for() {
    let vector = r#"{"data": [{"index": 0, "embedding": [2, 1, 0]}]}"#;
    let service = Service::new(&[("/v1/embeddings", 429, "{}"), ("/v1/embeddings", 200, vector)]).await;
    let table = json!({"p": {"base_url": format!("{}/v1", service.base), "api_key": "k", "limits": {"concurrency": 9}}});
    let (config, jobs) = (serde_json::from_value::<ProvidersConfig>(table).unwrap(), FakeJobs::new());
    let providers = Providers::new(&config, &|_| None).unwrap().with_call_permits(CallPermits(jobs.clone()));
    let datasets = by_vectors(Retrieval { top_k: 1, ..Retrieval::default() }).await.datasets(MUCH, None);
    let found = search_in(&jobs, &providers, &datasets, "q", None).await.unwrap();
    assert_eq!((texts(&found), service.paths().len()), (vec!["apes climb"], 2));
}
