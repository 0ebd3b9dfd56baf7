//! Containers on real processes: many items on several workers, large lists that no scheduler reads, and their data
//! in Redis.

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::Cluster;

const EACH: &str = include_str!("workflows/each_in_parallel.yml");
const COUNT: &str = include_str!("workflows/count_up.yml");

#[tokio::test(flavor = "multi_thread")]
async fn many_items_run_on_all_workers_and_their_outputs_are_in_order() {
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, _one, _two) = (cluster.scheduler().await, cluster.worker().await, cluster.worker().await);
    let client = scheduler.client();
    let items: Vec<String> = (0..400).map(|n| format!("v{n}")).collect();
    let body =
        json!({"workflow": EACH, "inputs": {"items": {"list": items}}, "options": {"max_steps": 1000}});
    let run = client.submit(&body).await;
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    let expected: Vec<Json> = (0..400).map(|n| json!(format!("{n}:v{n}v{n}"))).collect();
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"]["out"], Json::Array(expected), "{}", ended["error"]);
    assert_eq!(told.of_kind("node_run_iteration_next").count(), 400);
    assert_eq!(told.count("node_run_succeeded", "twice"), 400);
    let holders: Vec<Json> =
        told.of_kind("node_run_succeeded").map(|e| e.data["in_iteration_id"].clone()).collect();
    assert_eq!(holders.iter().filter(|of| **of == json!("each")).count(), 400);
    // No frame and no job is left.
    let left = cluster.redis.cli(&["HLEN", &format!("tm:{{{}}}:run:{run}:collected", ended["shard"])]);
    assert_eq!(left.trim(), "0");
    let state = cluster.redis.cli(&["HKEYS", &format!("tm:{{{}}}:run:{run}:state", ended["shard"])]);
    assert!(!state.contains("each#"), "{state}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_and_its_outputs_may_be_larger_than_what_a_scheduler_reads() {
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    // Each item is small enough to be stored in the run, but all of them together are not. Each output is a blob, and
    // a worker makes their list.
    let items: Vec<String> = (0..30).map(|n| format!("{n}").repeat(6_000)).collect();
    let run = client.submit(&json!({"workflow": EACH, "inputs": {"items": {"list": items}}})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let out = ended["outputs"]["out"].as_array().expect("a list");
    assert_eq!(out.len(), 30);
    for (n, text) in out.iter().enumerate() {
        let text = text.as_str().expect("a text");
        let half = format!("{n}").repeat(6_000);
        assert_eq!(text, format!("{n}:{half}{half}"), "item {n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_keeps_the_count_of_a_loop() {
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    for (turn, answer) in [(1, "4 of 4"), (2, "4 of 8"), (3, "4 of 12")] {
        let run = client.submit(&json!({"workflow": COUNT, "inputs": {}, "conversation_id": "chat-7"})).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["outputs"]["answer"], answer, "turn {turn}: {ended:#}");
        assert_eq!(ended["conversation"]["total"], json!(turn * 4));
    }
}
