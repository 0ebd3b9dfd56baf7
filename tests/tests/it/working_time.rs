//! `max_execution_time_s` counts the work of a run. A run that only waits for workers is not ended by it, and one that
//! works too long is.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

const SETTINGS: [(&str, &str); 2] = [("scheduler.shards", "1"), ("worker.job_lease_ms", "1500")];

async fn submitted(client: &Client, seconds: u64) -> String {
    let flow = Flow::new("start -> llm -> end").text();
    client.submit(&json!({"workflow": flow, "options": {"max_execution_time_s": seconds}})).await
}

/// When the scheduler looks at the run's time, in milliseconds.
async fn next_look(cluster: &Cluster, run: &str) -> f64 {
    let member = format!("{run} deadline");
    until("the timer of the run's time", LONG, async || {
        let due: Option<f64> = cluster.redis.ask(&["ZSCORE", "tm:{0}:timers", &member]).await;
        due.ok_or_else(|| format!("no {member}"))
    })
    .await
}

/// Waits until the limit has passed on the wall clock, and the scheduler has found that the run did not work.
async fn limit_passes(cluster: &Cluster, run: &str, first: f64) {
    until("the limit to pass", LONG, async || {
        let due = next_look(cluster, run).await;
        if due > first { Ok(()) } else { Err(format!("{due}")) }
    })
    .await;
}

fn seconds(run: &Json, field: &str) -> f64 {
    run[field].as_f64().unwrap_or_else(|| panic!("no {field} in {run:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_workers_longer_than_it_may_work_goes_on_when_they_come() {
    let model = llm::rules(json!([{"match": {}, "reply": "at last"}])).await;
    let cluster = Cluster::start(&SETTINGS, Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let run = submitted(&client, 2).await;
    let first = next_look(&cluster, &run).await;
    limit_passes(&cluster, &run, first).await;
    let _worker = cluster.worker().await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    assert!(seconds(&ended, "elapsed_time") > 2.0, "{ended:#}");
    assert!(seconds(&ended, "working_time") < seconds(&ended, "elapsed_time") - 1.9, "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_after_the_death_of_a_worker_does_not_count() {
    let model = llm::slow(&["one ", "two ", "three ", "four"], 300).await;
    let cluster = Cluster::start(&SETTINGS, Some(&model)).await;
    let (scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let run = submitted(&client, 3).await;
    let first = next_look(&cluster, &run).await;
    client.node_is(&run, "llm", "running").await;
    worker.process.kill();
    limit_passes(&cluster, &run, first).await;
    let _other = cluster.worker().await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    assert!(seconds(&ended, "elapsed_time") > 3.0, "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_worker_ends_the_attempt_when_the_time_of_the_run_is_over() {
    let model = llm::rules(json!([{"match": {}, "reply": "never", "delay_ms": 600_000}])).await;
    let cluster = Cluster::start(&SETTINGS, Some(&model)).await;
    let (scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let run = submitted(&client, 1).await;
    let ended = client.ended(&run).await;
    let error = ended["error"].as_str().unwrap_or_default();
    assert_eq!(ended["status"], "stopped", "{ended:#}");
    assert!(error.starts_with("Aborted: Maximum execution time exceeded: ") && error.ends_with("s > 1s"));
    assert!(seconds(&ended, "working_time") >= 0.9, "{ended:#}");
    worker.process.wait_for_log("the time of the run is over").await;
    let llm = ended["nodes"].as_array().and_then(|nodes| nodes.iter().find(|node| node["id"] == "llm"));
    assert_eq!(llm.map(|node| &node["status"]), Some(&json!("stopped")), "{ended:#}");
}
