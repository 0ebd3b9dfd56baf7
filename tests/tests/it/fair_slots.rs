//! Apps share the few places for code on a worker: one that keeps all of them busy delays another by one execution.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;

/// Publishes an app with one code node, and returns its id.
async fn publish(client: &Client, code: &str) -> Json {
    let nodes = json!([
        {"id": "start", "data": {"type": "start", "variables": []}},
        {"id": "code", "data": {"type": "code", "code_language": "javascript", "code": code,
            "outputs": {"a": {"type": "number"}}, "variables": []}},
        {"id": "end", "data": {"type": "end", "outputs": [{"variable": "a", "value_selector": ["code", "a"]}]}},
    ]);
    let edges = json!([{"source": "start", "target": "code"}, {"source": "code", "target": "end"}]);
    let workflow = json!({"kind": "app", "app": {"mode": "workflow", "name": "X"},
        "workflow": {"graph": {"nodes": nodes, "edges": edges}}});
    let answer = client.post("/api/v1/apps", &json!({"workflow": workflow.to_string()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body["id"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn four_hogs_of_one_app_delay_the_code_of_another_by_one_execution() {
    let cluster = Cluster::start(&[("code.concurrency", "2"), ("code.timeout_ms", "5000")], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let hog = publish(&client, "function main() { while (true) {} }").await;
    let other = publish(&client, "function main() { return {a: 1} }").await;
    let mut hogs = Vec::new();
    for _ in 0..4 {
        let run = client.submit(&json!({"app": hog, "inputs": {}, "user": "u"})).await;
        client.node_is(&run, "code", "running").await;
        hogs.push(run);
    }
    let run = client.submit(&json!({"app": other, "inputs": {}, "user": "u"})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"], json!({"a": 1}), "{ended:#}");
    let mut busy = 0;
    for hog in &hogs {
        busy += usize::from(client.run(hog).await["status"] == "running");
    }
    // Without turns the other app would come after all of them.
    assert!(busy > 0, "the hogs that waited before it have not ended");
    for hog in &hogs {
        assert_eq!(client.ended(hog).await["status"], "failed");
    }
}
