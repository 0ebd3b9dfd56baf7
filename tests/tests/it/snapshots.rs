//! Runs that are exported from one installation and imported into another, on real processes.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::wait::{LONG, until};

const ASK: &str = include_str!("workflows/ask_twice.yml");
const EACH: &str = include_str!("workflows/each_in_parallel.yml");

async fn status_is(client: &Client, run: &str, status: &str) -> Json {
    until(&format!("the run to be {status}"), LONG, async || {
        let shown = client.run(run).await;
        if shown["status"] == status { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}

async fn export(client: &Client, run: &str) -> Json {
    let answer = client.get(&format!("/api/v1/runs/{run}/snapshot")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

async fn import(client: &Client, snapshot: &Json) -> String {
    let answer = client.post("/api/v1/runs/import", snapshot).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body["id"].as_str().expect("a run has an id").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn tc_ser_003_an_exported_run_ends_in_the_same_way_elsewhere() {
    let (here, there) = (Cluster::start(&[], None).await, Cluster::start(&[], None).await);
    let (scheduler, _worker) = (here.scheduler().await, here.worker().await);
    let client = scheduler.client();
    let run = client.submit(&json!({"workflow": ASK, "inputs": {"name": "Ada"}})).await;
    status_is(&client, &run, "paused").await;
    let snapshot = export(&client, &run).await;
    let pool = &snapshot["variable_pool"]["variable_dictionary"];
    assert_eq!(pool["side"]["output"]["value"], "side", "{snapshot:#}");
    assert_eq!(pool["start"]["name"]["value_type"], "string", "{snapshot:#}");

    let (scheduler, _worker) = (there.scheduler().await, there.worker().await);
    let client = scheduler.client();
    let run = import(&client, &snapshot).await;
    let shown = status_is(&client, &run, "paused").await;
    for (node, body) in [
        ("left", json!({"action": "ok", "inputs": {"word": "far"}})),
        ("right", json!({"action": "go", "inputs": {}})),
    ] {
        let pauses = shown["pauses"].as_array().into_iter().flatten();
        let pause = pauses.clone().find(|p| p["node_id"] == node).expect("it waits here, too");
        let id = pause["pause_id"].as_str().expect("it has an id");
        let answered = client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &body).await;
        assert!(answered.status < 300, "{}", answered.text);
    }
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"], json!({"out": "far/Go", "side": "side"}), "{ended:#}");
    client.follow(&run, None).await.to_the_end().await.is_whole();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_can_be_exported_in_the_middle_of_an_iteration_over_large_values() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let items: Vec<String> = (0..20).map(|n| format!("{n}-").repeat(3_000)).collect();
    let body = json!({"workflow": EACH, "inputs": {"items": {"list": items}}, "commands": [{"after": "twice", "command": "pause"}]});
    let run = client.submit(&body).await;
    let worker = cluster.worker().await;
    status_is(&client, &run, "paused").await;
    let snapshot = export(&client, &run).await;
    let other = import(&client, &snapshot).await;
    for run in [&run, &other] {
        status_is(&client, run, "paused").await;
        let resumed =
            client.post(&format!("/api/v1/runs/{run}/commands"), &json!({"command": "resume"})).await;
        assert_eq!(resumed.status, 202, "{}", resumed.text);
    }
    let (one, two) = (client.ended(&run).await, client.ended(&other).await);
    assert_eq!(one["status"], "succeeded", "{}", one["error"]);
    assert_eq!(one["outputs"], two["outputs"]);
    assert_eq!(two["outputs"]["out"].as_array().map(Vec::len), Some(20));
    let over = client.get(&format!("/api/v1/runs/{run}/snapshot")).await;
    assert_eq!((over.status, &over.body["code"]), (409, &json!("run_over")), "{}", over.text);
    let wrong = client.post("/api/v1/runs/import", &json!({"tidemill_snapshot": 99})).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text);
    drop(worker);
}
