//! Pauses on real processes: a paused run needs only its keys in Redis, so all processes may be replaced. It
//! continues once.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::wait::{LONG, until};

const ASK: &str = include_str!("workflows/ask_twice.yml");

async fn paused(client: &Client, run: &str) -> Json {
    until("the run to pause", LONG, async || {
        let shown = client.run(run).await;
        if shown["status"] == "paused" { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}

fn pause_of(shown: &Json, node: &str) -> Json {
    let pauses = shown["pauses"].as_array().into_iter().flatten();
    let mut found = pauses.filter(|pause| pause["node_id"] == node && pause["status"] == "pending");
    found.next_back().unwrap_or_else(|| panic!("{node} does not wait: {shown:#}")).clone()
}

async fn answer(client: &Client, run: &str, pause: &Json, body: Json) -> (u16, Json) {
    let id = pause["pause_id"].as_str().expect("a pause has an id");
    let answer = client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &body).await;
    (answer.status, answer.body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_outlives_the_whole_fleet_and_continues_once() {
    let cluster = Cluster::start(&[], None).await;
    let (mut scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let run = client.submit(&json!({"workflow": ASK, "inputs": {"name": "Ada"}})).await;
    let shown = paused(&client, &run).await;
    assert_eq!(shown["pauses"].as_array().map(Vec::len), Some(2), "{shown:#}");
    let left = pause_of(&shown, "left");
    assert_eq!(left["content"], "Left of Ada: {{#$output.word#}}");
    let of_side = shown["nodes"].as_array().into_iter().flatten().find(|n| n["id"] == "side").cloned();
    assert_eq!(of_side.unwrap_or_default()["status"], "succeeded", "a form holds up only its own branch");
    scheduler.process.kill();
    worker.process.kill();

    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let wrong = answer(&client, &run, &left, json!({"action": "maybe", "inputs": {}})).await;
    assert_eq!((wrong.0, &wrong.1["code"]), (400, &json!("pause_input_invalid")), "{}", wrong.1);
    let said = json!({"action": "ok", "inputs": {"word": "deep", "more": 1}, "key": "k1"});
    for _ in 0..2 {
        let (status, body) = answer(&client, &run, &left, said.clone()).await;
        assert!(status < 300, "the same answer under the same key counts once: {status} {body}");
    }
    let late = answer(&client, &run, &left, json!({"action": "no", "inputs": {"word": "x"}})).await;
    assert_eq!((late.0, &late.1["code"]), (409, &json!("pause_already_answered")), "{}", late.1);
    let again = paused(&client, &run).await;
    let (status, body) = answer(&client, &run, &pause_of(&again, "right"), json!({"action": "go"})).await;
    assert!(status < 300, "{body}");
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"], json!({"out": "deep/Go", "side": "side"}), "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    assert_eq!(told.count("node_run_succeeded", "left"), 1);
    let gone = answer(&client, &run, &left, json!({"action": "ok", "inputs": {"word": "x"}})).await;
    assert!(gone.0 == 409, "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_run_with_a_pause_and_a_queued_job_at_once() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    // No worker runs, so the side branch is queued.
    let run = client.submit(&json!({"workflow": ASK, "inputs": {"name": "x"}})).await;
    client.node_is(&run, "side", "queued").await;
    let stop = json!({"command": "stop", "reason": "enough"});
    let path = format!("/api/v1/runs/{run}/commands");
    assert_eq!(client.post(&path, &stop).await.status, 202);
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], &ended["error"]), (&json!("stopped"), &json!("Aborted: enough")));
    assert_eq!(ended["pauses"][0]["status"], "cancelled", "{ended:#}");
    let late = client.post(&path, &stop).await;
    assert_eq!((late.status, &late.body["code"]), (409, &json!("run_over")), "{}", late.text);
    let jobs = cluster.redis.cli(&["XLEN", &format!("tm:{{{}}}:jobs:default", ended["shard"])]);
    assert_eq!(jobs.trim(), "0", "the queued job is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_shown_and_answered_over_difys_api() {
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let registered = client.post("/api/v1/apps", &json!({"workflow": ASK})).await;
    let app = client.with_key(registered.body["key"].as_str());
    let body = json!({"inputs": {"name": "Bo"}, "user": "u1", "response_mode": "blocking"});
    let blocked = app.post("/v1/workflows/run", &body).await;
    assert_eq!(
        (blocked.status, &blocked.body["data"]["status"]),
        (200, &json!("paused")),
        "{}",
        blocked.text
    );
    let reasons = blocked.body["data"]["reasons"].as_array().cloned().unwrap_or_default();
    assert_eq!(reasons.len(), 2, "{}", blocked.text);
    for (node, action, inputs) in [("left", "ok", json!({"word": "w"})), ("right", "go", json!({}))] {
        let reason = reasons.iter().find(|reason| reason["node_id"] == node).expect("both wait");
        let token = reason["form_token"].as_str().unwrap_or_else(|| panic!("{reason:#}"));
        let form = app.get(&format!("/v1/form/human_input/{token}")).await;
        assert_eq!(form.status, 200, "{}", form.text);
        assert!(
            form.body["form_content"].is_string() && form.body["user_actions"].is_array(),
            "{}",
            form.text
        );
        for part in [json!({"inputs": inputs, "user": "u1"}), json!({"action": action, "user": "u1"})] {
            for token in [token, "nothing"] {
                let refused = app.post(&format!("/v1/form/human_input/{token}"), &part).await;
                assert_eq!((refused.status, &refused.body["code"]), (400, &json!("invalid_param")), "{part}");
            }
        }
        let body = json!({"inputs": inputs, "action": action, "user": "u1"});
        let answered = app.post(&format!("/v1/form/human_input/{token}"), &body).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
        let again = app.post(&format!("/v1/form/human_input/{token}"), &body).await;
        assert_eq!(
            (again.status, &again.body["code"]),
            (412, &json!("human_input_form_submitted")),
            "{}",
            again.text
        );
    }
    let run = blocked.body["workflow_run_id"].as_str().expect("the run is named");
    assert_eq!(client.ended(run).await["outputs"]["out"], "w/Go");
    let unknown = app.get("/v1/form/human_input/nothing").await;
    assert_eq!(unknown.status, 404, "{}", unknown.text);
}
