//! Commands to runs on real processes.

use std::time::{Duration, Instant};

use serde_json::json;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::system;

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_call_of_the_model_within_a_second() {
    let model = llm::slow(&["a", "b", "c"], 60_000).await;
    let system = system(&[], &model).await;
    let run = system
        .client
        .start(&Flow::new("start -> llm -> answer").answer("answer", "{{#llm.text#}}"), &[])
        .await;
    system.client.node_is(&run, "llm", "running").await;
    let asked = Instant::now();
    let path = format!("/api/v1/runs/{run}/commands");
    assert_eq!(system.client.post(&path, &json!({"command": "stop"})).await.status, 202);
    let ended = system.client.ended_within(&run, Duration::from_secs(1)).await;
    assert_eq!(ended["status"], "stopped", "{ended:#}");
    assert!(asked.elapsed() < Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_lets_running_nodes_end_and_a_resume_continues_the_run() {
    let model = llm::slow(&["one ", "two"], 300).await;
    let system = system(&[], &model).await;
    let flow = Flow::new("start -> llm -> b -> end");
    let run = system.client.start(&flow, &[]).await;
    system.client.node_is(&run, "llm", "running").await;
    let path = format!("/api/v1/runs/{run}/commands");
    let pause = json!({"command": "pause", "reason": "lunch", "key": "p1"});
    for _ in 0..2 {
        assert_eq!(system.client.post(&path, &pause).await.status, 202, "the same key is the same command");
    }
    let other = system.client.post(&path, &json!({"command": "resume", "key": "p1"})).await;
    assert_eq!((other.status, &other.body["code"]), (409, &json!("key_taken")), "{}", other.text);
    let shown = until("the run to pause", LONG, async || {
        let shown = system.client.run(&run).await;
        if shown["status"] == "paused" { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    let status = |id: &str| {
        let found = shown["nodes"].as_array().into_iter().flatten().find(|n| n["id"] == id);
        found.map(|n| n["status"].to_string()).unwrap_or_default()
    };
    assert_eq!((status("llm"), status("b")), ("\"succeeded\"".into(), "\"ready\"".into()), "{shown:#}");
    let set = json!({"command": "update_variables", "updates": {"llm.text": "changed"}});
    assert_eq!(system.client.post(&path, &set).await.status, 202);
    assert_eq!(system.client.post(&path, &json!({"command": "resume"})).await.status, 202);
    let ended = system.client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let told = system.client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    told.nodes_end_once();
    let paused: Vec<_> = told.of_kind("graph_run_paused").collect();
    assert_eq!(paused.len(), 1);
    assert_eq!(paused[0].data["reasons"], json!([{"TYPE": "scheduled_pause", "message": "lunch"}]));
    assert_eq!(told.of_kind("graph_run_variables_updated").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tc_b_003_a_call_that_is_nested_too_deep_is_refused() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let flow = Flow::new("start -> end");
    let submit = async |depth: u64| {
        let body = json!({"workflow": flow.text(), "inputs": {}, "call_depth": depth});
        scheduler.client().post("/api/v1/runs", &body).await
    };
    assert_eq!(submit(5).await.status, 201);
    let refused = submit(6).await;
    let message = "Max workflow call depth 5 reached.";
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.body["message"].as_str().is_some_and(|m| m.contains(message)), "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_no_worker_takes_in_time_fails_its_node() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let flow = Flow::new("start -> a -> end")
        .with("a", json!({"tidemill": {"runs_on": "worker", "queue": "nobody", "queue_timeout_ms": 200}}));
    let run = scheduler.client().start(&flow, &[]).await;
    let ended = scheduler.client().ended(&run).await;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    assert!(ended["error"].as_str().is_some_and(|e| e.contains("queue_timeout_ms")), "{ended:#}");
}
