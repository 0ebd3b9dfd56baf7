//! Stops, clients that go, time limits with retries, and repeated requests.

use std::time::{Duration, Instant};

use serde_json::json;
use tidemill_tests::wait::{LONG, until};

use super::workflow::{Sketch, answer, code, end, get, retried, start, template};
use super::{Desk, begin, status_is};

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_calls_and_code_at_once_and_nothing_later_begins() {
    let desk = Desk::without_model().await;
    let base = &desk.server.base;
    let sleeps = code(
        "import time\ndef main():\n    time.sleep(20)\n    return {\"r\": 1}\n",
        &[("r", "number")],
        &[],
    );
    let coded = Sketch::workflow("start > slow > later > end")
        .node("start", start(&[]))
        .node("slow", sleeps)
        .node("later", get(&format!("{base}/later")))
        .node("end", end(&[("r", "slow.r")]));
    let called = Sketch::chat("start > first > slow > later > last")
        .node("start", start(&[]))
        .node("first", answer("begin "))
        .node("slow", get(&format!("{base}/slow/20000/call")))
        .node("later", get(&format!("{base}/later")))
        .node("last", answer("end"));
    for (sketch, path, of) in
        [(coded, "/v1/workflows/run", "workflows/tasks"), (called, "/v1/chat-messages", "chat-messages")]
    {
        let (_, app) = desk.publish(&sketch).await;
        let body = json!({"query": "q", "inputs": {}, "user": "field", "response_mode": "streaming"});
        let (id, event) = begin(&app, path, body).await;
        desk.admin().node_is(&id, "slow", "running").await;
        let task = event["task_id"].as_str().expect("events name the task");
        let asked = Instant::now();
        let stopped = app.post(&format!("/v1/{of}/{task}/stop"), &json!({"user": "field"})).await;
        assert_eq!(stopped.status, 200, "{}", stopped.text);
        assert_eq!(desk.admin().ended(&id).await["status"], "stopped");
        assert!(asked.elapsed() < Duration::from_secs(10), "the node itself takes 20 s");
    }
    assert_eq!(desk.server.calls("/later"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_although_its_client_has_gone() {
    let desk = Desk::without_model().await;
    let sketch = Sketch::workflow("start > slow > done > end")
        .node("start", start(&[]))
        .node("slow", get(&format!("{}/slow/600", desk.server.base)))
        .node("done", template("done", &[]))
        .node("end", end(&[("t", "done.output")]));
    let (_, app) = desk.publish(&sketch).await;
    // `begin` closes the stream after the first event.
    let body = json!({"inputs": {}, "user": "field", "response_mode": "streaming"});
    let (id, _) = begin(&app, "/v1/workflows/run", body).await;
    let ended = status_is(desk.admin(), &id, "succeeded").await;
    assert_eq!(ended["outputs"], json!({"t": "done"}), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_too_long_is_made_once_for_each_try() {
    let desk = Desk::without_model().await;
    let mut call = retried(get(&format!("{}/slow/20000/late", desk.server.base)), 2, 20);
    call["tidemill"] = json!({"execution_timeout_ms": 300});
    call["error_strategy"] = "default-value".into();
    call["default_value"] = json!([{"key": "body", "type": "string", "value": "gave up"}]);
    let sketch = Sketch::workflow("start > call > end")
        .node("start", start(&[]))
        .node("call", call)
        .node("end", end(&[("b", "call.body")]));
    let ended = desk.run(&sketch, json!({})).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]),
        (&json!("partial-succeeded"), &json!({"b": "gave up"})),
        "{ended:#}"
    );
    assert_eq!(desk.server.calls("/late"), 3, "a first try and two retries");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_run_that_waits_for_its_next_try() {
    let desk = Desk::without_model().await;
    let sketch = Sketch::workflow("start > call > end")
        .node("start", start(&[]))
        .node("call", retried(get(&format!("{}/fail/503/back", desk.server.base)), 10, 2000))
        .node("end", end(&[("b", "call.body")]));
    let (_, app) = desk.publish(&sketch).await;
    let body = json!({"inputs": {}, "user": "field", "response_mode": "streaming"});
    let (id, _) = begin(&app, "/v1/workflows/run", body).await;
    desk.admin().node_is(&id, "call", "retrying").await;
    let stopped = app.post(&format!("/v1/workflows/tasks/{id}/stop"), &json!({"user": "field"})).await;
    assert_eq!(stopped.status, 200, "{}", stopped.text);
    let shown = desk.admin().ended(&id).await;
    assert_eq!(shown["status"], "stopped", "{shown:#}");
    let calls = desk.server.calls("/back");
    // A later run shows that time has passed without a further call.
    let key = format!("tm:{{{}}}:timers", shown["shard"]);
    until("the timer of the next try to be gone", LONG, async || {
        let left = desk.system.cluster.redis.cli(&["ZCARD", &key]);
        if left.trim() == "0" { Ok(()) } else { Err(left) }
    })
    .await;
    assert_eq!(desk.server.calls("/back"), calls);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_sent_three_times_at_once_under_one_key_makes_one_run() {
    let desk = Desk::without_model().await;
    let sketch = Sketch::workflow("start > call > end")
        .node("start", start(&[("n", "number")]))
        .node("call", get(&format!("{}/slow/200/once", desk.server.base)))
        .node("end", end(&[("b", "call.body")]));
    let (_, app) = desk.publish(&sketch).await;
    let send = async |key: &str, n: u32| {
        let body = json!({"inputs": {"n": n}, "user": "field", "response_mode": "blocking"}).to_string();
        let request = app.request(reqwest::Method::POST, "/v1/workflows/run").header("idempotency-key", key);
        app.send(request.header("content-type", "application/json").body(body)).await
    };
    let (one, two, three) = tokio::join!(send("k", 1), send("k", 1), send("k", 1));
    let ids = [&one, &two, &three].map(|answer| answer.body["workflow_run_id"].clone());
    assert!(ids[0].is_string() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(desk.server.calls("/once"), 1);
    assert_eq!((send("k", 2).await.status, send("", 1).await.status), (409, 400));
}
