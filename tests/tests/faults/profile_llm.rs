//! An `llm` node with a profile whose worker dies between any two of its calls: recorded calls are not made or paid
//! for again.

use serde_json::json;
use tidemill_common::crash::Program;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;
use tidemill_tests::patient::Patient;
use tidemill_tests::redis::free_port;

use super::QUICK;
use super::crash_points::{Armed, END_MAX, start};

fn workflow() -> String {
    json!({
        "nodes": [
            {"id": "start", "data": {"type": "start", "variables": []}},
            {"id": "llm", "data": {"type": "llm", "profile_id": "fast", "prompt": "look", "tools": ["acme/one", "acme/two"]}},
            {"id": "end", "data": {"type": "end", "outputs": [
                {"variable": "content", "value_selector": ["llm", "content"]},
                {"variable": "results", "value_selector": ["llm", "tool_results"]},
            ]}},
        ],
        "edges": [{"source": "start", "target": "llm"}, {"source": "llm", "target": "end"}],
    })
    .to_string()
}

/// Runs the node with a worker that dies at this crash point. Returns the number of calls to the model and to tools,
/// the entries of the history and of the ledger in Redis, and the run.
async fn goes_on(at: &str) -> (usize, usize, Vec<String>, Vec<String>, serde_json::Value) {
    let call = |name: &str| json!({"name": name, "arguments": "{}"});
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 2});
    let rules =
        json!([{"match": {}, "reply": "Looking", "tool_calls": [call("one"), call("two")], "usage": usage}]);
    let (model, outside) = (llm::rules(rules).await, Outside::start().await);
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("tidemill.toml");
    let profile = "[profiles.fast]\nprovider = \"default\"\nmodel = \"m\"\n";
    std::fs::write(&file, profile).expect("it is written");
    let endpoint = format!("{}/tools", outside.base_url);
    let mut settings = QUICK.to_vec();
    settings.extend([("scheduler.shards", "1"), ("tools.endpoint", endpoint.as_str())]);
    settings.push(("config", file.to_str().expect("a text")));
    // The profile needs a provider of the settings: the environment makes one named `default`.
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let _scheduler = start(&cluster, Program::Scheduler, &scheduler_at, None);
    let process = start(&cluster, Program::Worker, &worker_at, Some(at));
    let mut armed = Armed { cluster: &cluster, program: Program::Worker, address: worker_at, process };
    let patient = Patient::new(vec![scheduler_at]);
    let body = json!({"workflow": workflow(), "inputs": {}, "user": "tester"});
    let acting = async {
        let run = patient.submit(&body, "once").await.expect("it is accepted");
        let followed = patient.follow(&run, END_MAX).await.map_err(|(_, trouble)| trouble).expect("it ends");
        let mut ends =
            followed.transcript.of_kind("node_run_succeeded").filter(|event| event.data["node_id"] == "llm");
        let did = ends.next().expect("it ran").data["node_run_result"]["process_data"].clone();
        (run, did)
    };
    let ((run, did), died) = tokio::join!(acting, armed.until_dead(at));
    died.expect("the worker dies");
    let mut shown = patient.run(&run).await.expect("it exists");
    shown["did"] = did;
    let keys = async |part: &str| -> String {
        let keys: Vec<String> = cluster.redis.ask(&["KEYS", &format!("*{run}*:{part}")]).await;
        keys.into_iter().next().unwrap_or_else(|| panic!("no {part}: {shown:#}"))
    };
    let history: Vec<String> = cluster.redis.ask(&["LRANGE", &keys("history").await, "0", "-1"]).await;
    let ledger: Vec<String> = cluster.redis.ask(&["HVALS", &keys("ledger").await]).await;
    (model.take_requests().len(), outside.take().len(), history, ledger, shown)
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a22_after_the_first_tool_is_recorded_only_the_second_is_called() {
    // The reply and the result of the first tool are recorded.
    let (asked, called, history, ledger, shown) = goes_on("worker.step_kept:2").await;
    assert_eq!((asked, called, history.len(), ledger.len()), (1, 2, 1, 1), "{shown:#}");
    assert_eq!(shown["outputs"]["content"], "Looking");
    assert_eq!(shown["outputs"]["results"].as_array().map(Vec::len), Some(2), "{shown:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lp_a23_a_reply_that_was_not_recorded_is_requested_again_and_charged_once() {
    let (asked, called, history, ledger, shown) = goes_on("worker.step_made:1").await;
    assert_eq!((asked, called, history.len(), ledger.len()), (2, 2, 1, 1), "{shown:#}");
    assert_eq!(shown["did"]["possible_duplicates"], json!(["llm:1"]), "{shown:#}");
}
