//! Runs over HTTP: submitted, followed, read and stopped, over Dify's API and our own.

use std::collections::HashSet;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::system;

fn greeting() -> Flow {
    Flow::new("start -> a -> llm -> end")
        .inputs(&["name"])
        .template("a", "Hi {{ x }}", "name")
        .prompt("llm", "{{#a.output#}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_can_be_waited_for_and_read_afterwards() {
    let model = llm::rules(json!([{"match": {"contains": "Zoë"}, "reply": "hello Zoë"}])).await;
    let system = system(&[], &model).await;
    let (id, app) = system.client.register(&greeting()).await;

    let body = json!({"inputs": {"name": "Zoë"}, "user": "u1", "response_mode": "blocking"});
    let answer = app.post("/v1/workflows/run", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let data = &answer.body["data"];
    assert_eq!(
        (&data["status"], &data["outputs"]),
        (&json!("succeeded"), &json!({"llm": "hello Zoë"})),
        "{}",
        answer.text
    );
    assert_eq!(data["total_tokens"].as_u64().map(|n| n > 0), Some(true), "{}", answer.text);
    assert_eq!(data["total_steps"], 4, "{}", answer.text);

    let run = answer.body["workflow_run_id"].as_str().expect("the answer names the run");
    let detail = app.get(&format!("/v1/workflows/run/{run}")).await;
    assert_eq!((detail.status, &detail.body["status"]), (200, &json!("succeeded")), "{}", detail.text);

    let own = system.client.run(run).await;
    assert_eq!((&own["app"], &own["user"]), (&json!(id), &json!("u1")), "{own:#}");
    let statuses: Vec<_> =
        own["nodes"].as_array().into_iter().flatten().map(|n| (&n["id"], &n["status"])).collect();
    let all = ["start", "a", "llm", "end"].map(|id| (json!(id), json!("succeeded")));
    assert_eq!(statuses, all.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>(), "in file order: {own:#}");
    let times = |key: &str| own[key].as_f64().unwrap_or_else(|| panic!("{key} of {own:#}"));
    assert!(
        times("created_at") <= times("started_at") && times("started_at") <= times("finished_at"),
        "{own:#}"
    );

    let listed = system.client.get("/api/v1/runs?status=succeeded").await;
    assert_eq!(listed.body["data"][0]["id"], run, "{}", listed.text);
    assert_eq!(system.client.get("/api/v1/runs?status=failed").await.body["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_streams_its_events_like_dify() {
    let pieces = llm::many_pieces(6);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 30).await;
    let system = system(&[], &model).await;
    let (_, app) = system.client.register(&greeting()).await;

    let body = json!({"inputs": {"name": "x"}, "user": "u1", "response_mode": "streaming"});
    let request = app.request(Method::POST, "/v1/workflows/run").header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let first = stream.next().await.expect("a ping comes at once");
    assert_eq!((first.event.as_deref(), &first.data), (Some("ping"), &None));
    let (mut events, mut text) = (Vec::new(), String::new());
    while let Some(message) = stream.next().await {
        let Some(data) = message.data else { continue };
        let event: Json = serde_json::from_str(&data).expect("events are JSON");
        text.push_str(event["data"]["text"].as_str().unwrap_or_default());
        events.push(event);
    }
    assert_eq!(text, pieces.concat());
    let names: Vec<&str> =
        events.iter().filter_map(|event| event["event"].as_str()).filter(|n| *n != "text_chunk").collect();
    let node = ["node_started", "node_finished"];
    assert_eq!(
        names,
        [&["workflow_started"][..], &node, &node, &node, &node, &["workflow_finished"]].concat(),
        "{events:#?}"
    );
    let runs: HashSet<&str> = events.iter().filter_map(|event| event["workflow_run_id"].as_str()).collect();
    assert_eq!(runs.len(), 1, "all events are about one run");
    let last = events.last().expect("there are events");
    assert_eq!(last["data"]["outputs"], json!({"llm": pieces.concat()}), "{last:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_run_stops_at_once_and_says_why() {
    let model = llm::slow(&llm::many_pieces(400).iter().map(String::as_str).collect::<Vec<_>>(), 100).await;
    let system = system(&[], &model).await;
    let client = &system.client;

    let run = client.start(&Flow::new("start -> llm -> answer"), &[]).await;
    let mut follower = client.follow(&run, None).await;
    follower.until_text("<2>").await;
    let commands = format!("/api/v1/runs/{run}/commands");
    let answer = client.post(&commands, &json!({"command": "stop", "reason": "enough"})).await;
    assert_eq!((answer.status, &answer.body), (202, &json!({"accepted": true})));
    let ended = client.ended_within(&run, Duration::from_secs(5)).await;
    assert_eq!(
        (&ended["status"], &ended["error"]),
        (&json!("stopped"), &json!("Aborted: enough")),
        "{ended:#}"
    );
    let told = follower.to_the_end().await;
    told.is_whole();
    let again = client.post(&commands, &json!({"command": "stop"})).await;
    assert_eq!((again.status, &again.body["code"]), (409, &json!("run_over")), "{}", again.text);
    let other = client.post(&commands, &json!({"command": "dance"})).await;
    assert_eq!((other.status, &other.body["code"]), (400, &json!("invalid_param")), "{}", other.text);

    // The worker can take another job at once, although the model would stream for another half minute.
    until("the job to be removed", LONG, async || {
        let shard = ended["shard"].to_string();
        let pending =
            system.cluster.redis.cli(&["XPENDING", &format!("tm:{{{shard}}}:jobs:default"), "workers"]);
        if pending.starts_with('0') { Ok(()) } else { Err(pending) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stop_request_of_difys_api_stops_a_run() {
    let model = llm::slow(&llm::many_pieces(400).iter().map(String::as_str).collect::<Vec<_>>(), 100).await;
    let system = system(&[], &model).await;
    let (_, app) = system.client.register(&greeting()).await;
    let body = json!({"inputs": {"name": "x"}, "user": "u1", "response_mode": "streaming"});
    let request = app.request(Method::POST, "/v1/workflows/run").header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let (mut stopped, mut last) = (false, Json::Null);
    while let Some(message) = stream.next().await {
        let Some(data) = message.data else { continue };
        last = serde_json::from_str(&data).expect("events are JSON");
        if !stopped && last["event"] == "text_chunk" {
            let task = last["task_id"].as_str().expect("events name their task");
            let answer = app.post(&format!("/v1/workflows/tasks/{task}/stop"), &json!({"user": "u1"})).await;
            assert_eq!((answer.status, &answer.body["result"]), (200, &json!("success")), "{}", answer.text);
            stopped = true;
        }
    }
    assert_eq!(
        (&last["event"], &last["data"]["status"]),
        (&json!("workflow_finished"), &json!("stopped")),
        "{last:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_repeated_under_its_key_makes_one_run() {
    let model = llm::slow(&["x"], 0).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let submit = async |key: &str, name: &str| {
        let body = json!({"workflow": greeting().text(), "inputs": {"name": name}});
        let request = client.request(Method::POST, "/api/v1/runs").header("content-type", "application/json");
        client.send(request.header("idempotency-key", key).body(body.to_string())).await
    };
    let (first, again) = (submit("k1", "a").await, submit("k1", "a").await);
    assert_eq!((first.status, again.status), (201, 200), "{} {}", first.text, again.text);
    assert_eq!(first.body["id"], again.body["id"]);
    let other = submit("k1", "b").await;
    assert_eq!((other.status, &other.body["code"]), (409, &json!("idempotency_conflict")), "{}", other.text);
    assert_ne!(submit("k2", "a").await.body["id"], first.body["id"]);
    let listed = client.get("/api/v1/runs").await;
    assert_eq!(listed.body["data"].as_array().map(Vec::len), Some(2), "{}", listed.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_runs_at_once_all_end_with_their_own_answer() {
    let model = llm::rules(json!([{"match": {}, "echo": "last_user"}])).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let mut runs = Vec::new();
    for n in 0..100 {
        runs.push(client.start(&greeting(), &[("name", &format!("number {n}"))]).await);
    }
    for (n, run) in runs.iter().enumerate() {
        let ended = client.ended(run).await;
        assert_eq!(ended["outputs"], json!({"llm": format!("Hi number {n}")}), "{ended:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_megabytes_passes_through_unchanged() {
    let model = llm::rules(json!([{"match": {}, "echo": "last_user"}])).await;
    let system = system(&[], &model).await;
    let text = "Größe ".repeat(300_000);
    let flow = Flow::new("start -> llm -> end").with(
        "start",
        json!({"variables": [{"variable": "t", "label": "t", "type": "paragraph", "required": true}]}),
    );
    let run = system.client.start(&flow.prompt("llm", "{{#start.t#}}"), &[("t", &text)]).await;
    let ended = system.client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{}", ended["error"]);
    assert!(ended["outputs"]["llm"].as_str() == Some(&*text), "the text has changed");
}
