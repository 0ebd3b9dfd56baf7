//! A run whose branch led nowhere says so: over our API, in the last event and in the command, but not over Dify's API.

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::flow::Flow;

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_without_an_edge_is_a_warning_of_the_run_and_of_no_frame_of_dify() {
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let flow = Flow::new("start -> if; if[true] -> a -> end").inputs(&["x"]).when("if", "x", "yes");
    let (_, app) = scheduler.client().register(&flow).await;
    let body = |mode: &str, x: &str| json!({"inputs": {"x": x}, "user": "u", "response_mode": mode});

    let answer = app.post("/v1/workflows/run", &body("blocking", "no")).await;
    assert_eq!(answer.body["data"]["status"], "succeeded", "{}", answer.text);
    assert!(!answer.text.contains("warnings"), "{}", answer.text);
    let id = answer.body["workflow_run_id"].as_str().expect("a text").to_string();
    let again = app.get(&format!("/v1/workflow/{id}/events?user=u")).await;
    assert!(again.text.contains("workflow_finished") && !again.text.contains("warnings"), "{}", again.text);

    let run = scheduler.client().run(&id).await;
    let [warning] = run["warnings"].as_array().expect("a list").as_slice() else { panic!("{run:#}") };
    let told = (&warning["code"], &warning["node_id"], &warning["handle"]);
    assert_eq!(told, (&json!("run.branch_without_edge"), &json!("if"), &json!("false")), "{warning}");

    let events = scheduler.client().get(&format!("/api/v1/runs/{id}/events?follow=false")).await.text;
    let last = events.lines().filter_map(|line| line.strip_prefix("data:")).next_back().expect("an event");
    let last: Json = serde_json::from_str(last).expect("events are JSON");
    assert_eq!((&last["type"], &last["data"]["warnings"]), (&json!("graph_run_succeeded"), &run["warnings"]));

    let mut show = cluster.command("tidemill");
    show.args(["show", &id]).env("TIDEMILL_URL", format!("http://{}", scheduler.address));
    let shown = show.env("TIDEMILL_KEY", ADMIN_KEY).output().expect("it starts");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let text = |key: &str| warning[key].as_str().expect("a text");
    let line = format!("warning: {} ({})\n", text("message"), text("hint"));
    assert!(shown.contains(&line), "{shown}");

    let answer = app.post("/v1/workflows/run", &body("blocking", "yes")).await;
    let run = scheduler.client().run(answer.body["workflow_run_id"].as_str().expect("a text")).await;
    assert_eq!((&run["status"], &run["warnings"]), (&json!("succeeded"), &json!([])), "{run:#}");
}
