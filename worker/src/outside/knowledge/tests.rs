//! Tests of knowledge bases with a local service: requests, results, retries.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::any;
use serde_json::{Value as Json, json};
use tidemill_common::hidden::Hidden;
use tidemill_common::nodes::knowledge_retrieval::filter::{Condition, Logic, Operator};
use tokio::net::TcpListener;

use crate::outside::knowledge::*;
use crate::outside::providers::Providers;
use crate::tests::fake::{FakeJobs, journal};

/// A received request: path, key, body.
pub(crate) type Seen = (String, String, Json);

/// A service with a list of answers per path; the last one repeats.
pub(crate) struct Service {
    pub(crate) base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Service {
    pub(crate) async fn new(answers: &[(&str, u16, &str)]) -> Self {
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let noted = seen.clone();
        let mut by_path: HashMap<String, VecDeque<(u16, String)>> = HashMap::new();
        for (path, status, body) in answers {
            by_path.entry((*path).into()).or_default().push_back((*status, (*body).into()));
        }
        let answers = Arc::new(Mutex::new(by_path));
        let take = move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
            let key = headers.get("authorization").and_then(|key| key.to_str().ok()).unwrap_or_default();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            noted.lock().unwrap().push((uri.path().to_owned(), key.to_owned(), body));
            let mut answers = answers.lock().unwrap();
            let queue = answers.get_mut(uri.path()).expect("a path that is expected");
            let last = queue.front().cloned().expect("an answer");
            let (status, body) = if queue.len() > 1 { queue.pop_front().unwrap_or(last) } else { last };
            let kind = if body.starts_with("data:") { "text/event-stream" } else { "application/json" };
            (StatusCode::from_u16(status).unwrap(), [("content-type", kind), ("retry-after-ms", "1")], body)
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(any(take));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { base, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requested paths, sorted, because searches run in parallel.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.seen().into_iter().map(|(path, ..)| path).collect();
        paths.sort_unstable();
        paths
    }

    /// A dataset at one of its paths.
    pub(crate) fn dataset(&self, path: &str) -> DatasetConfig {
        DatasetConfig {
            name: path.to_uppercase(),
            endpoint: format!("{}/{path}/", self.base).into(),
            api_key: Hidden("s3cret".into()),
            knowledge_id: format!("k-{path}"),
            ..DatasetConfig::default()
        }
    }
}

/// Datasets by id.
pub(crate) fn datasets(all: Vec<(&str, DatasetConfig)>, strict: bool) -> Datasets {
    let datasets = all.into_iter().map(|(id, config)| (id.to_owned(), config)).collect();
    let config = KnowledgeConfig { strict, datasets, ..KnowledgeConfig::default() };
    Datasets::new(&config, &HttpConfig::default()).unwrap()
}

/// Searches dataset `d`.
async fn ask(all: &Datasets, query: &str, filters: Option<&Filters>) -> Result<Vec<Passage>, KnowledgeError> {
    let providers =
        Providers::new(&crate::outside::providers::ProvidersConfig::default(), &|_| None).unwrap();
    let journal = journal(&FakeJobs::new());
    let found = all.find(&["d".into()], &|_| {}).await.unwrap();
    found[0].search(SearchRequest { query, filters, models: &Models::new(&providers, &journal) }).await
}

async fn search(config: DatasetConfig, filters: Option<&Filters>) -> Result<Vec<Passage>, KnowledgeError> {
    let all = datasets(vec![("d", config)], false);
    ask(&all, "why?", filters).await
}

#[tokio::test]
async fn a_search_says_what_the_external_knowledge_api_wants() {
    let service =
        Service::new(&[("/a/retrieval", 200, r#"{"records": [{"content": "c", "title": "t"}]}"#)]).await;
    let found = search(service.dataset("a"), None).await.unwrap();
    assert_eq!((found[0].content.as_str(), found[0].dataset_name.as_str()), ("c", "A"));
    let condition = Condition { name: "year".into(), operator: Operator::AtLeast, value: json!(2020) };
    let filters = Filters::new(Logic::Or, vec![condition]);
    let limited = DatasetConfig {
        top_k: 9,
        score_threshold: 0.5,
        score_threshold_enabled: true,
        ..service.dataset("a")
    };
    search(limited, filters.as_ref()).await.unwrap();
    let seen = service.seen();
    let setting = |top_k: u32, threshold: f64| json!({"top_k": top_k, "score_threshold": threshold});
    assert_eq!(seen[0].1, "Bearer s3cret");
    let plain = json!({"knowledge_id": "k-a", "query": "why?", "retrieval_setting": setting(4, 0.0)});
    assert_eq!(seen[0].2, plain);
    let mut filtered = plain;
    filtered["retrieval_setting"] = setting(9, 0.5);
    filtered["metadata_condition"] = json!({
        "logical_operator": "or",
        "conditions": [{"name": "year", "comparison_operator": "≥", "value": 2020}]
    });
    assert_eq!(seen[1].2, filtered);
}

#[tokio::test]
async fn failures_that_may_pass_are_tried_again_and_no_others() {
    let good = r#"{"records": []}"#;
    for (answers, tries, failure) in [
        (vec![(503, "busy"), (429, "busy"), (200, good)], 3, None),
        (vec![(500, "down")], 3, Some("HTTP 500: down")),
        (vec![(501, "never"), (200, good)], 1, Some("HTTP 501: never")),
        (vec![(403, r#"{"error_code": 1002, "error_msg": "s3cret is wrong"}"#)], 1, Some("\"*** is wrong\"")),
        (vec![(200, "what?")], 1, Some("its answer is not {\"records\": […]}: what?")),
        (vec![(200, "[]")], 1, Some("its answer is not")),
        (vec![(200, "{}")], 1, None),
    ] {
        let answers: Vec<_> =
            answers.into_iter().map(|(status, body)| ("/a/retrieval", status, body)).collect();
        let service = Service::new(&answers).await;
        let found = search(service.dataset("a"), None).await;
        assert_eq!(service.seen().len(), tries, "{answers:?}");
        match (found, failure) {
            (Ok(found), None) => assert!(found.is_empty()),
            (Err(error), Some(text)) => {
                assert!(
                    error.message.contains(text) && error.message.contains("[knowledge.datasets.\"d\"]"),
                    "{error}"
                );
                assert!(!error.message.contains("s3cret"), "{error}");
                assert_eq!(error.class, ErrorType::Value);
            }
            (found, _) => panic!("{answers:?}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn who_cannot_be_reached_is_named_and_large_answers_are_refused() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let service = Service::new(&[("/a/retrieval", 200, "{\"records\": []}")]).await;
    let endpoint = format!("http://{closed}");
    let error =
        search(DatasetConfig { endpoint: endpoint.into(), retries_max: 0, ..service.dataset("a") }, None)
            .await
            .unwrap_err();
    assert_eq!((error.class, error.retryable), (ErrorType::Retrieval, true));
    assert!(error.message.contains("its service does not answer"), "{error}");
    let config = KnowledgeConfig {
        answer_bytes_max: 5,
        datasets: [("d".to_owned(), service.dataset("a"))].into(),
        ..KnowledgeConfig::default()
    };
    let all = Datasets::new(&config, &HttpConfig::default()).unwrap();
    let error = ask(&all, "q", None).await.unwrap_err();
    assert!(error.message.ends_with("more than 5 bytes (knowledge.answer_bytes_max)"), "{error}");
}

#[test]
fn settings_that_cannot_be_used_are_named_without_their_secrets() {
    let good = || DatasetConfig {
        endpoint: "http://x".into(),
        knowledge_id: "k".into(),
        api_key: Hidden("s3cret".into()),
        ..DatasetConfig::default()
    };
    for (config, text) in [
        (DatasetConfig { endpoint: "x".into(), ..good() }, "endpoint: must be an http:// or https:// URL"),
        (DatasetConfig { knowledge_id: String::new(), ..good() }, "knowledge_id: is missing"),
        (DatasetConfig { score_threshold: 1.5, ..good() }, "score_threshold: must be from 0 to 1"),
        (
            DatasetConfig { api_key_env: "NO_KEY".into(), ..good() },
            "api_key_env: the environment variable NO_KEY is not set",
        ),
        (DatasetConfig { api_key: Hidden("s3cret\n".into()), ..good() }, "api_key: it cannot be sent"),
    ] {
        let datasets = [("d/1=".to_owned(), config)].into();
        let config = KnowledgeConfig { datasets, ..KnowledgeConfig::default() };
        let error =
            Datasets::with_environment(&config, &HttpConfig::default(), &|_| None).err().unwrap().to_string();
        assert!(error.starts_with(&format!("setting knowledge.datasets.\"d/1=\".{text}")), "{error}");
        assert!(!error.contains("s3cret") && !format!("{config:?}").contains("s3cret"), "{error}");
    }
}
