//! Tests of the node with local services and models.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::clock::SystemClock;
use tidemill_common::config::{HttpConfig, KnowledgeConfig};
use tidemill_common::graph::builder::import;
use tidemill_common::knowledge::{Piece, segments};
use tidemill_common::nodes::NodeData;
use tidemill_common::nodes::knowledge_retrieval::config::DatasetConfig;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{Generation, KnowledgeBases, Published};
use tidemill_common::wire::knowledge::{DatasetRecord, DocumentRecord, IndexingRecord};

use super::*;
use crate::nodes::mock_server::Values;
use crate::outside::knowledge::tests::{Service, datasets};
use crate::outside::providers::Providers;
use crate::tests::fake::{FakeJobs, charges, journal};

const A: &str = r#"{"records": [{"content": "apes", "score": 0.2, "title": "A1"}, {"content": "both", "score": 0.3, "title": "A2"}]}"#;
const B: &str = r#"{"records": [{"content": "bees", "score": 0.9, "title": "B1"}, {"content": "both", "score": 0.7, "title": "B2"}]}"#;

/// A streamed model reply of 5 prompt tokens and 7 completion tokens.
fn said(text: &str) -> String {
    let piece = json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}});
    format!("data: {piece}\n\ndata: {usage}\n\ndata: [DONE]\n\n")
}

fn model() -> Json {
    json!({"provider": "p", "name": "m", "mode": "chat", "completion_params": {}})
}

fn single() -> Json {
    json!({"retrieval_mode": "single", "single_retrieval_config": {"model": model()}})
}

/// Runs a node with these changes and datasets.
async fn run_node(service: &Service, changes: Json, datasets: &Datasets) -> NodeResult {
    run_job(&FakeJobs::new(), service, changes, datasets).await
}

/// As [`run_node`], with this store.
async fn run_job(jobs: &Arc<FakeJobs>, service: &Service, changes: Json, datasets: &Datasets) -> NodeResult {
    let mut data = json!({
        "type": "knowledge-retrieval", "title": "K", "query_variable_selector": ["start", "q"],
        "dataset_ids": ["a", "b"], "retrieval_mode": "multiple",
        "multiple_retrieval_config": {"top_k": 4, "reranking_enable": false},
    });
    for (name, value) in changes.as_object().unwrap() {
        data[name] = value.clone();
    }
    let document = json!({"graph": {
        "nodes": [{"id": "start", "data": {"type": "start", "title": "S", "variables": []}}, {"id": "k", "data": data}],
        "edges": [{"source": "start", "target": "k"}],
    }});
    let imported = import(document.to_string().as_bytes());
    let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
    let node = graph.node(graph.find("k").unwrap());
    let NodeData::KnowledgeRetrieval(data) = &node.data else { panic!("{:?}", node.data) };
    let profile =
        json!({"p": {"base_url": format!("{}/v1", service.base), "api_key": "k", "max_retries": 0}});
    let providers = Providers::new(&serde_json::from_value(profile).unwrap(), &|_| None).unwrap();
    let values = Values(json!({"start": {"q": "why?", "empty": "", "n": 1, "year": 2020}}));
    let journal = journal(jobs);
    let mut result = run(data, node, &values, &Models::new(&providers, &journal), datasets).await;
    result.warnings.extend(journal.take_warnings());
    result
}

/// The texts of `result`.
fn contents(result: &NodeResult) -> Vec<String> {
    assert_eq!(result.failure, None);
    let (name, value) = &result.outputs[0];
    assert_eq!((name.as_str(), value.ty), ("result", SegmentType::ArrayObject));
    value.value.as_array().unwrap().iter().map(|item| item["content"].as_str().unwrap().to_owned()).collect()
}

/// Code and subject of each warning.
fn warnings(result: &NodeResult) -> Vec<(&str, &str)> {
    result.warnings.iter().map(|warning| (&*warning.code, warning.about[0].1.as_str())).collect()
}

fn failure(result: &NodeResult) -> (&str, &str) {
    let failure = result.failure.as_ref().expect("it failed");
    (&failure.error_type, &failure.message)
}

fn both(service: &Service) -> Datasets {
    datasets(vec![("a", service.dataset("a")), ("b", service.dataset("b"))], false)
}

async fn service(more: &[(&str, u16, &str)]) -> Service {
    let mut answers = vec![("/a/retrieval", 200, A), ("/b/retrieval", 200, B)];
    answers.extend(more);
    Service::new(&answers).await
}

#[tokio::test]
async fn without_a_question_there_are_no_outputs_and_an_empty_one_finds_nothing() {
    let service = service(&[]).await;
    let all = both(&service);
    let nothing = run_node(&service, json!({"query_variable_selector": null}), &all).await;
    assert_eq!(nothing, NodeResult::default());
    let empty = run_node(&service, json!({"query_variable_selector": ["start", "empty"]}), &all).await;
    assert!(contents(&empty).is_empty());
    let wrong = run_node(&service, json!({"query_variable_selector": ["start", "n"]}), &all).await;
    assert_eq!((failure(&wrong), wrong.inputs.len()), (("", "Query variable is not string type."), 0));
    let wrong = run_node(&service, json!({"query_attachment_selector": ["start", "q"]}), &all).await;
    let text = "Attachments variable is not array file or file type.";
    assert_eq!((failure(&wrong), wrong.inputs.len()), (("", text), 0));
    assert!(service.seen().is_empty());
}

#[tokio::test]
async fn all_datasets_are_searched_and_equal_texts_are_one() {
    let service = service(&[]).await;
    let result = run_node(&service, json!({}), &both(&service)).await;
    assert_eq!(contents(&result), ["bees", "both", "apes"]);
    let metadata = &result.outputs[0].1.value[1]["metadata"];
    assert_eq!((&metadata["position"], &metadata["dataset_id"]), (&json!(2), &json!("b")));
    assert_eq!(result.inputs, [("query".to_owned(), Segment::string("why?"))]);
    assert_eq!(result.process_data["usage"]["total_tokens"], json!(0));
    assert_eq!(result.metadata["total_tokens"], json!(0));
    assert_eq!(service.paths(), ["/a/retrieval", "/b/retrieval"]);
    // The first passages in the datasets' order are taken, then sorted.
    let first = json!({"multiple_retrieval_config": {"top_k": 2, "reranking_enable": false}});
    assert_eq!(contents(&run_node(&service, first, &both(&service)).await), ["both", "apes"]);
}

#[tokio::test]
async fn weights_and_models_rank_what_several_datasets_found() {
    let ranking =
        r#"{"results": [{"index": 0, "relevance_score": 0.95}, {"index": 2, "relevance_score": 0.1}]}"#;
    let service = service(&[("/v1/rerank", 200, ranking), ("/v1/rerank", 429, "{}")]).await;
    let all = both(&service);
    let weights =
        json!({"vector_setting": {"vector_weight": 1.0}, "keyword_setting": {"keyword_weight": 0.0}});
    let weighted =
        json!({"top_k": 9, "score_threshold": 0.5, "reranking_mode": "weighted_score", "weights": weights});
    let result = run_node(&service, json!({"multiple_retrieval_config": weighted}), &all).await;
    assert_eq!(contents(&result), ["bees", "both"]);
    let by = |provider: &str| {
        let model = json!({"provider": provider, "model": "r"});
        json!({"multiple_retrieval_config": {"top_k": 2, "score_threshold": 0.5, "reranking_model": model}})
    };
    let result = run_node(&service, by("p"), &all).await;
    assert_eq!(contents(&result), ["apes"]);
    let seen = service.seen();
    let (_, _, asked) = seen.iter().find(|(path, ..)| path == "/v1/rerank").unwrap();
    assert_eq!((&asked["documents"], &asked["top_n"]), (&json!(["apes", "both", "bees"]), &json!(2)));
    // Without a model all passages stay; a failing model fails the node.
    assert_eq!(contents(&run_node(&service, by("nobody"), &all).await).len(), 3);
    let result = run_node(&service, by("p"), &all).await;
    assert_eq!(failure(&result).0, "InvokeRateLimitError");
    assert_eq!(result.inputs.len(), 1);
}

#[tokio::test]
async fn a_dataset_that_fails_or_is_not_set_is_passed_over_unless_that_is_forbidden() {
    let service = service(&[("/bad/retrieval", 403, "no")]).await;
    let bad = |strict| DatasetConfig { strict, ..service.dataset("bad") };
    let with = |strict_dataset, strict| {
        datasets(vec![("a", service.dataset("a")), ("b", bad(strict_dataset))], strict)
    };
    let result = run_node(&service, json!({}), &with(false, false)).await;
    assert_eq!(contents(&result), ["both", "apes"]);
    assert_eq!(warnings(&result), [("dataset.not_searched", "b")]);
    for all in [with(true, false), with(false, true)] {
        let result = run_node(&service, json!({}), &all).await;
        let (class, message) = failure(&result);
        assert_eq!(class, "ValueError");
        assert!(message.contains("\"BAD\"") && message.ends_with("HTTP 403: no"), "{message}");
    }
    let unknown = json!({"dataset_ids": ["ghost", "a"]});
    let result = run_node(&service, unknown.clone(), &with(false, false)).await;
    assert_eq!(contents(&result), ["both", "apes"]);
    assert_eq!(warnings(&result), [("dataset.unknown", "ghost")]);
    assert!(result.warnings[0].hint.contains("[knowledge.datasets.\"ghost\"]"), "{result:?}");
    let result = run_node(&service, unknown, &with(false, true)).await;
    assert_eq!(warnings(&result), [], "it has failed instead");
    let (class, message) = failure(&result);
    assert_eq!(class, "KnowledgeRetrievalNodeError");
    assert!(
        message.contains("[knowledge.datasets.\"ghost\"]") && message.contains("knowledge.strict"),
        "{message}"
    );
    let none = run_node(&service, json!({"dataset_ids": ["ghost"]}), &with(false, false)).await;
    assert!(contents(&none).is_empty());
}

#[tokio::test]
async fn a_model_chooses_one_dataset_and_is_paid() {
    let reply = said("```json\n{\"action\": \"b\", \"action_input\": \"why?\"}\n```");
    let lost = said("somewhere else");
    let path = "/v1/chat/completions";
    let service = service(&[(path, 200, &reply), (path, 200, &lost), (path, 500, "{}")]).await;
    let all = both(&service);
    let result = run_node(&service, single(), &all).await;
    assert_eq!(contents(&result), ["bees", "both"]);
    assert_eq!(result.usage.as_ref().unwrap().total_tokens, 12);
    assert_eq!(result.metadata["total_tokens"], json!(12));
    assert_eq!(service.paths(), ["/b/retrieval", path]);
    // A reply without a dataset finds nothing.
    let result = run_node(&service, single(), &all).await;
    assert!(contents(&result).is_empty() && result.metadata["total_tokens"] == json!(12));
    assert!(contents(&run_node(&service, single(), &all).await).is_empty());
    // With a single dataset the model is not called.
    let before = service.seen().len();
    let mut only = single();
    only["dataset_ids"] = json!(["a", "ghost"]);
    assert_eq!(contents(&run_node(&service, only, &all).await), ["both", "apes"]);
    assert_eq!(service.seen().len(), before + 1);
}

#[tokio::test]
async fn models_are_asked_with_messages_whatever_mode_a_file_says() {
    let reply = said("```json\n{\"action\": \"b\", \"action_input\": \"why?\"}\n```");
    let path = "/v1/chat/completions";
    let service = service(&[(path, 200, &reply)]).await;
    let mut changes = single();
    changes["single_retrieval_config"]["model"]["mode"] = json!("completion");
    let result = run_node(&service, changes, &both(&service)).await;
    assert_eq!(contents(&result), ["bees", "both"]);
    let asked = service.seen().into_iter().find(|(asked, ..)| asked == path).expect("it is asked").2;
    assert!(asked["messages"].as_array().is_some_and(|messages| !messages.is_empty()), "{asked}");
}

#[tokio::test]
async fn a_choice_that_breaks_off_is_passed_over_and_paid_for() {
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "twelve chars"}}]});
    let service = service(&[("/v1/chat/completions", 200, &format!("data: {piece}\n\n"))]).await;
    let result = run_node(&service, single(), &both(&service)).await;
    assert!(contents(&result).is_empty());
    let wasted = result.wasted.expect("it was paid for");
    assert_eq!((wasted.provider.as_str(), wasted.model.as_str()), ("p", "m"));
    assert_eq!(wasted.usage.completion_tokens, 3);
}

#[tokio::test]
async fn what_models_said_before_a_failure_is_paid_by_their_names_and_not_asked_again() {
    let map = said(r#"{"metadata_map": []}"#);
    let reply = said("```json\n{\"action\": \"b\", \"action_input\": \"why?\"}\n```");
    let path = "/v1/chat/completions";
    let service =
        Service::new(&[(path, 200, &map), (path, 200, &reply), ("/bad/retrieval", 403, "no")]).await;
    let fields = DatasetConfig { metadata_fields: vec!["year".into()], ..service.dataset("bad") };
    let all = datasets(vec![("a", service.dataset("a")), ("b", fields)], false);
    let mut changes = single();
    changes["metadata_filtering_mode"] = json!("automatic");
    changes["metadata_model_config"] = model();
    let jobs = FakeJobs::new();
    for _ in 0..2 {
        let result = run_job(&jobs, &service, changes.clone(), &all).await;
        assert_eq!(failure(&result).0, "ValueError");
        assert_eq!(result.usage.as_ref().map(|usage| usage.total_tokens), Some(24));
    }
    let asked = service.paths().iter().filter(|asked| *asked == path).count();
    assert_eq!(asked, 2);
    let row = |key: &str| (key.to_owned(), "p:m".to_owned(), 12);
    assert_eq!(charges(&jobs), [row("llm:filter/1"), row("llm:router/1")]);
}

#[tokio::test]
async fn what_goes_wrong_with_automatic_filters_or_the_choice_of_a_dataset_is_passed_over() {
    let service = service(&[]).await;
    let unknown = json!({"provider": "nobody", "name": "m", "mode": "chat", "completion_params": {}});
    let automatic = json!({"metadata_filtering_mode": "automatic", "metadata_model_config": unknown});
    let fields = DatasetConfig { metadata_fields: vec!["year".into()], ..service.dataset("a") };
    let all = datasets(vec![("a", fields), ("b", service.dataset("b"))], false);
    let result = run_node(&service, automatic.clone(), &all).await;
    assert_eq!(contents(&result), ["bees", "both", "apes"]);
    assert_eq!(warnings(&result), [("dataset.not_filtered", "m")]);
    let router = json!({"retrieval_mode": "single", "single_retrieval_config": {"model": unknown}});
    let result = run_node(&service, router, &all).await;
    assert_eq!((contents(&result).len(), warnings(&result)), (0, vec![("dataset.not_chosen", "m")]));
    // A dataset that cannot list its fields, because its index is too large, and cannot be searched either.
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let record = DatasetRecord { id: "a".into(), ..DatasetRecord::default() };
    assert!(store.put_dataset(&record, true).await.unwrap());
    let indexing = IndexingRecord { run: "1".into(), ..IndexingRecord::default() };
    store.begin_indexing("a", "d", &indexing).await.unwrap();
    let made = segments("a", "d", &[Piece { content: "x".into(), ..Piece::default() }]);
    store.put_segments(Generation { dataset: "a", name: "g" }, &made).await.unwrap();
    let document = DocumentRecord {
        id: "d".into(),
        generation: "g".into(),
        segments: 1,
        bytes: 9,
        ..Default::default()
    };
    assert_eq!(store.publish_document("a", &document, "1").await.unwrap(), Published::Published);
    let config = KnowledgeConfig { index_bytes_max: 1, ..KnowledgeConfig::default() };
    let all = Datasets::new(&config, &HttpConfig::default()).unwrap().kept_in(store);
    assert!(all.find(&["a".into()], &|_| {}).await.unwrap()[0].fields().await.is_err());
    let result = run_node(&service, automatic, &all).await;
    assert!(contents(&result).is_empty());
    let expected = [("dataset.unknown", "b"), ("dataset.not_filtered", "a"), ("dataset.not_searched", "a")];
    assert_eq!(warnings(&result), expected);
}

#[tokio::test]
async fn the_failure_of_the_only_dataset_in_single_mode_is_the_nodes() {
    let service = service(&[("/bad/retrieval", 404, r#"{"error_code": 2001, "error_msg": "gone"}"#)]).await;
    let all = datasets(vec![("a", service.dataset("bad"))], false);
    let result = run_node(&service, single(), &all).await;
    let (class, message) = failure(&result);
    assert!(class == "ValueError" && message.contains("gone"), "{message}");
    let missing = json!({"retrieval_mode": "single", "single_retrieval_config": null});
    let result = run_node(&service, missing, &all).await;
    assert_eq!(
        failure(&result),
        ("ValueError", "single_retrieval_config is required for single retrieval mode")
    );
}

#[tokio::test]
async fn filters_are_forwarded_those_of_the_file_and_those_of_a_model() {
    let map = json!({"metadata_map": [
        {"metadata_field_name": "year", "metadata_field_value": 2021, "comparison_operator": "="},
        {"metadata_field_name": "colour", "metadata_field_value": "red", "comparison_operator": "is"}
    ]});
    let path = "/v1/chat/completions";
    let service = service(&[(path, 200, &said(&map.to_string())), (path, 200, &said("?"))]).await;
    let fields = DatasetConfig { metadata_fields: vec!["year".into()], ..service.dataset("a") };
    let all = datasets(vec![("a", fields)], false);
    let conditions = json!({"logical_operator": "and", "conditions": [
        {"id": "1", "name": "year", "comparison_operator": ">", "value": "{{#start.year#}}"},
        {"name": "void", "comparison_operator": "is", "value": null}
    ]});
    let manual = json!({"metadata_filtering_mode": "manual", "metadata_filtering_conditions": conditions});
    let automatic = json!({"metadata_filtering_mode": "automatic", "metadata_model_config": model()});
    let mut sent = Vec::new();
    for changes in [manual, automatic.clone(), automatic] {
        let result = run_node(&service, changes, &all).await;
        assert_eq!(contents(&result), ["both", "apes"]);
        let (_, _, body) = service.seen().pop().unwrap();
        sent.push(body.get("metadata_condition").cloned());
    }
    let condition = |logic: &str, operator: &str, value: u32| {
        let one = json!({"name": "year", "comparison_operator": operator, "value": value});
        Some(json!({"logical_operator": logic, "conditions": [one]}))
    };
    assert_eq!(sent, [condition("and", ">", 2020), condition("or", "=", 2021), None]);
}
