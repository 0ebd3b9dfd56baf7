//! A workflow step whose worker dies around its call: recorded calls are not made again, and possible duplicates are
//! marked.

use serde_json::{Value as Json, json};
use tidemill_common::crash::Program;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;
use tidemill_tests::patient::Patient;
use tidemill_tests::redis::free_port;

use super::QUICK;
use super::crash_points::{Armed, END_MAX, start};

/// The results of a run whose worker died once.
struct Aftermath {
    /// The number of calls to the model.
    asked: usize,
    /// The key of each call.
    keys: Vec<Option<String>>,
    run: Json,
    /// The record of the node.
    did: Json,
}

/// Runs a step whose worker dies at this crash point. The step posts a city; when `city` is `None`, a model must find
/// it first.
async fn goes_on(at: &str, city: Option<&str>) -> Aftermath {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 2});
    let found = json!({"query": {"city": "Paris"}}).to_string();
    let model = llm::rules(json!([{"match": {}, "reply": found, "usage": usage}])).await;
    let outside = Outside::start().await;
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("tidemill.toml");
    std::fs::write(&file, "[profiles.fast]\nprovider = \"default\"\nmodel = \"m\"\n").expect("it is written");
    let mut settings = QUICK.to_vec();
    settings.extend([("scheduler.shards", "1"), ("http.allow", "127.0.0.1")]);
    settings.push(("config", file.to_str().expect("a text")));
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let _scheduler = start(&cluster, Program::Scheduler, &scheduler_at, None);
    let process = start(&cluster, Program::Worker, &worker_at, Some(at));
    let mut armed = Armed { cluster: &cluster, program: Program::Worker, address: worker_at, process };
    let query = city.map_or_else(|| json!({}), |city| json!({"city": city}));
    let workflow = json!({
        "nodes": [
            {"id": "start", "data": {"type": "start", "variables": []}},
            {"id": "w", "data": {
                "type": "api", "url": format!("{}/weather", outside.base_url), "method": "post", "query": query,
                "content_type": "application/json", "body": {"a": 1}, "accept_text": true, "profile_id": "fast",
                "override_input": {"query": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}},
                "tidemill": {"idempotency_key": true},
            }},
            {"id": "end", "data": {"type": "end", "outputs": [{"variable": "said", "value_selector": ["w", "result"]}]}},
        ],
        "edges": [{"source": "start", "target": "w"}, {"source": "w", "target": "end"}],
    });
    let patient = Patient::new(vec![scheduler_at]);
    let body = json!({"workflow": workflow.to_string(), "inputs": {}, "user": "tester"});
    let acting = async {
        let run = patient.submit(&body, "once").await.expect("it is accepted");
        let followed = patient.follow(&run, END_MAX).await.map_err(|(_, trouble)| trouble).expect("it ends");
        let mut ends =
            followed.transcript.of_kind("node_run_succeeded").filter(|event| event.data["node_id"] == "w");
        let did = ends.next().expect("it ran").data["node_run_result"]["process_data"].clone();
        (run, did)
    };
    let ((run, did), died) = tokio::join!(acting, armed.until_dead(at));
    died.expect("the worker dies");
    let run = patient.run(&run).await.expect("it exists");
    let keys = outside.take().into_iter().map(|call| call.key).collect();
    Aftermath { asked: model.take_requests().len(), keys, run, did }
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a23_a_recorded_call_is_not_repeated() {
    let left = goes_on("worker.step_kept:1", Some("Rome")).await;
    assert_eq!((left.asked, left.keys.len()), (0, 1), "{:#}", left.run);
    assert_eq!(left.run["outputs"], json!({"said": "noted"}), "{:#}", left.run);
    assert_eq!(left.did.get("possible_duplicate"), None, "{:#}", left.did);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a23_a_call_whose_answer_was_lost_is_repeated_with_the_same_key_and_marked_as_a_possible_duplicate()
 {
    let left = goes_on("worker.step_made:1", Some("Rome")).await;
    assert_eq!((left.asked, left.keys.len()), (0, 2), "{:#}", left.run);
    assert!(left.keys[0].as_ref().is_some_and(|key| key.ends_with(":call:1")), "{:?}", left.keys);
    assert_eq!(left.keys[0], left.keys[1]);
    assert_eq!(left.did["possible_duplicate"], true, "{:#}", left.did);
    assert_eq!(left.run["outputs"], json!({"said": "noted"}), "{:#}", left.run);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a23_a_value_that_was_found_before_the_call_is_not_searched_again() {
    // The journal has the model's reply, then the value that was found in it.
    let left = goes_on("worker.step_kept:2", None).await;
    assert_eq!((left.asked, left.keys.len()), (1, 1), "{:#}", left.run);
    assert_eq!(left.run["total_tokens"], 12, "{:#}", left.run);
}
