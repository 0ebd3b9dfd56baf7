//! A registered Call whose worker dies around the call for its input: a recorded input is not requested again.

use serde_json::{Value as Json, json};
use tidemill_common::crash::Program;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::llm;
use tidemill_tests::outside::{Outside, OutsideCall};
use tidemill_tests::patient::Patient;
use tidemill_tests::redis::free_port;
use tidemill_tests::wait::{LONG, until};

use super::QUICK;
use super::crash_points::{END_MAX, start};

/// Runs a node with workers that die at these crash points, one after the other. Returns the operations that the Call
/// received, each with its key, and the record of the node.
async fn asked(places: &[&str]) -> (Vec<(String, String)>, Json) {
    let model = llm::rules(json!([{"match": {}, "reply": "{}"}])).await;
    let outside = Outside::start().await;
    let mut settings = QUICK.to_vec();
    settings.extend([("scheduler.shards", "1"), ("http.allow", "127.0.0.1")]);
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let mut scheduler = start(&cluster, Program::Scheduler, &scheduler_at, None);
    scheduler.wait_for_log("scheduler started").await;
    let client = Client::new(&scheduler_at, Some(ADMIN_KEY));
    let manifest = json!({
        "id": "greet", "info": {"en": {"name": "Greet", "description": "Says hello"}}, "streaming": true,
        "operations": ["init", "exec"],
        "transport": {"type": "http", "url": format!("{}/calls/greet", outside.base_url)},
    });
    let kept = client.post("/api/v1/calls", &manifest).await;
    assert_eq!(kept.status, 201, "{}", kept.text);
    let begin = |at: Option<&str>| start(&cluster, Program::Worker, &worker_at, at);
    let first = begin(places.first().copied());
    let workflow = json!({
        "nodes": [
            {"id": "start", "data": {"type": "start", "variables": []}},
            {"id": "g", "data": {"type": "call", "node": "greet", "params": {"who": "you"}}},
            {"id": "end", "data": {"type": "end", "outputs": [{"variable": "said", "value_selector": ["g", "text"]}]}},
        ],
        "edges": [{"source": "start", "target": "g"}, {"source": "g", "target": "end"}],
    });
    let patient = Patient::new(vec![scheduler_at]);
    let body = json!({"workflow": workflow.to_string(), "inputs": {}, "user": "tester"});
    let acting = async {
        let run = patient.submit(&body, "once").await.expect("it is accepted");
        let followed = patient.follow(&run, END_MAX).await.map_err(|(_, trouble)| trouble).expect("it ends");
        let mut ends =
            followed.transcript.of_kind("node_run_succeeded").filter(|event| event.data["node_id"] == "g");
        let did = ends.next().expect("it ran").data["node_run_result"]["process_data"].clone();
        let shown = patient.run(&run).await.expect("it exists");
        assert_eq!(shown["outputs"], json!({"said": "noted"}), "{shown:#}");
        did
    };
    let dying = async {
        let mut process = first;
        for (nth, at) in places.iter().enumerate() {
            until(&format!("{at} to be passed"), LONG, async || process.end().ok_or_else(|| process.tail()))
                .await;
            process = begin(places.get(nth + 1).copied());
        }
        process
    };
    let (did, _last) = tokio::join!(acting, dying);
    let one = |call: OutsideCall| {
        let body: Json = serde_json::from_str(&call.body).unwrap_or_default();
        (body["operation"].as_str().unwrap_or_default().to_owned(), call.key.unwrap_or_default())
    };
    (outside.take().into_iter().map(one).collect(), did)
}

fn names(asked: &[(String, String)]) -> Vec<&str> {
    asked.iter().map(|(operation, _)| operation.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn se_36_an_input_that_was_recorded_is_not_requested_again() {
    let (asked, did) = asked(&["worker.step_kept:1"]).await;
    assert_eq!(names(&asked), ["init", "exec"]);
    assert!(asked[0].1.ends_with(":init:1") && asked[1].1.ends_with(":call:1"), "{asked:?}");
    assert_eq!(did.get("possible_duplicates"), None, "{did:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_was_not_recorded_is_requested_again_with_the_same_key_and_marked_as_a_possible_duplicate()
 {
    let (asked, did) = asked(&["worker.step_made:1"]).await;
    assert_eq!(names(&asked), ["init", "init", "exec"]);
    assert_eq!(asked[0].1, asked[1].1);
    assert_eq!(did["possible_duplicates"], json!(["init"]), "{did:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_possible_duplicate_stays_marked_when_a_later_worker_finds_it_recorded() {
    let (asked, did) = asked(&["worker.step_made:1", "worker.step_kept:1"]).await;
    assert_eq!(names(&asked), ["init", "init", "exec"]);
    assert_eq!(did["possible_duplicates"], json!(["init"]), "{did:#}");
}
