//! Why does a run not move? The workers, the queues and the waits of nodes, by API and by command.

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::flow::Flow;
use tidemill_tests::wait::{LONG, until};

fn tidemill(cluster: &Cluster, address: &str, arguments: &[&str]) -> String {
    let mut command = cluster.command("tidemill");
    command.args(arguments).env("TIDEMILL_URL", format!("http://{address}")).env("TIDEMILL_KEY", ADMIN_KEY);
    let output = command.output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A flow with a node that waits in the queue `gpu`.
fn on_gpu() -> Flow {
    let code = json!({"type": "code", "code_language": "javascript", "variables": [],
        "code": "function main() { return {x: 'y'} }", "outputs": {"x": {"type": "string", "children": null}},
        "tidemill": {"queue": "gpu"}});
    Flow::new("start -> draw -> end").with("draw", code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_a_queue_that_no_worker_serves_says_so() {
    let cluster = Cluster::start(&[("scheduler.shards", "1")], None).await;
    let (scheduler, worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let mut runs = Vec::new();
    for _ in 0..3 {
        let run = client.submit(&json!({"workflow": on_gpu().text(), "inputs": {}, "user": "u"})).await;
        client.node_is(&run, "draw", "queued").await;
        runs.push(run);
    }
    let last = runs.last().expect("three runs");
    let run = client.run(last).await;
    let node = |run: &Json| {
        let nodes = run["nodes"].as_array().expect("a list");
        nodes.iter().find(|node| node["id"] == "draw").cloned().expect("the node")
    };
    let waits = node(&run)["waits"].clone();
    assert_eq!((&waits["queue"], &waits["served"]), (&json!("gpu"), &json!(false)), "{run:#}");
    assert_eq!((&waits["before"], &waits["held_by"]), (&json!(2), &Json::Null), "{run:#}");
    assert!(waits["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{run:#}");
    assert_eq!(run["warnings"], json!([]), "it has not waited for a minute");
    let shown = tidemill(&cluster, &scheduler.address, &["show", last]);
    assert!(shown.contains("draw waits in queue \"gpu\" for "), "{shown}");
    assert!(shown.contains(", no living worker serves it, 2 jobs before it\n"), "{shown}");

    let queues = client.get("/api/v1/queues").await.body;
    let queue = |name: &str| {
        let all = queues["data"].as_array().expect("a list");
        all.iter().find(|queue| queue["name"] == name).cloned().expect("it is listed")
    };
    let gpu = queue("gpu");
    assert_eq!(
        (&gpu["waiting"], &gpu["held"], &gpu["served"]),
        (&json!(3), &json!(0), &json!(false)),
        "{gpu}"
    );
    assert!(gpu["oldest_seconds"].as_f64().is_some(), "{gpu}");
    assert_eq!(queue("default")["workers"], json!([worker.consumer]), "{queues:#}");
    let shown = tidemill(&cluster, &scheduler.address, &["queues"]);
    assert!(shown.lines().any(|line| line.starts_with("gpu") && line.ends_with("none")), "{shown}");
    let shown = tidemill(&cluster, &scheduler.address, &["workers"]);
    assert!(shown.contains(&worker.consumer) && shown.contains("default"), "{shown}");
    let whole: Json =
        serde_json::from_str(&tidemill(&cluster, &scheduler.address, &["workers", "--json"])).expect("JSON");
    assert_eq!(whole["data"][0]["name"], worker.consumer, "{whole:#}");

    // A worker that serves the queue ends the wait, and the line.
    let _gpu = cluster.worker_with(&["--queues", "gpu"]).await;
    for run in &runs {
        let ended = client.ended(run).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        assert_eq!(node(&ended)["waits"], Json::Null, "{ended:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_leaves_the_list() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let worker = cluster.worker().await;
    let listed = async || {
        let workers = scheduler.client().get("/api/v1/workers").await.body;
        workers["data"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(listed().await, 1);
    worker.process.terminate();
    until("the worker to leave", LONG, async || {
        let count = listed().await;
        if count == 0 { Ok(()) } else { Err(format!("{count} workers")) }
    })
    .await;
}
