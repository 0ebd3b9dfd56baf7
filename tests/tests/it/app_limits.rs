//! Limits of apps and keys with two schedulers, and submissions that wait for their run.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::wait::{LONG, until};

const ASK: &str = include_str!("workflows/ask_twice.yml");
const MAX: u64 = 4;

async fn put(client: &Client, path: &str, body: &Json) -> HttpResponse {
    let request = client.request(Method::PUT, path).header("content-type", "application/json");
    client.send(request.body(body.to_string())).await
}

async fn set(client: &Client, of: &str, body: Json) {
    let answer = put(client, &format!("/api/v1/{of}/limits"), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

/// Waits until the app is shown with these limits.
async fn until_limits(client: &Client, app: &str, expected: Json) {
    until("the limits of the app", LONG, async || {
        let shown = client.get(&format!("/api/v1/apps/{app}")).await.body["limits"].clone();
        if shown == expected { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
}

fn limits(runs_max: Option<u64>, runs: Option<u64>) -> Json {
    json!({"requests_per_second": null, "runs_max": runs_max, "runs": runs})
}

async fn submit(client: &Client, app: &str) -> HttpResponse {
    client.post("/api/v1/runs", &json!({"app": app})).await
}

/// Submits so many runs at the same time, one by one to each of the clients. Returns how many were accepted; the others were
/// refused with this code.
async fn submit_all(clients: &[&Client], count: usize, app: &str) -> usize {
    let all = (0..count).map(|number| submit(clients[number % clients.len()], app));
    let answers = futures_util::future::join_all(all).await;
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!((answer.status, &answer.body["code"]), (429, &json!("too_many_runs")), "{}", answer.text);
        assert!(answer.headers.contains_key("retry-after"), "{:?}", answer.headers);
        assert!(answer.text.contains("runs_max, set for the app"), "{}", answer.text);
    }
    answers.iter().filter(|answer| answer.status == 201).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_schedulers_hold_the_runs_of_an_app_to_one_limit_and_a_killed_one_leaks_no_place() {
    let cluster = Cluster::start(&[], None).await;
    let (mut one, two) = (cluster.scheduler().await, cluster.scheduler().await);
    let (first, second) = (one.client(), two.client());
    let (app, key) = first.register(&Flow::new("start -> a -> end")).await;
    set(&first, &format!("apps/{app}"), json!({"runs_max": MAX})).await;
    until_limits(&second, &app, limits(Some(MAX), Some(0))).await;

    // No worker: the runs go on.
    let accepted = submit_all(&[&first, &second], 20, &app).await;
    assert_eq!(accepted as u64, MAX);
    until_limits(&second, &app, limits(Some(MAX), Some(MAX))).await;
    let refused = key.post("/v1/workflows/run", &json!({"inputs": {}, "user": "u"})).await;
    let said = json!({"code": "too_many_requests", "message": "Too many requests. Please try again later.", "status": 429});
    assert_eq!((refused.status, refused.body), (429, said));

    // A process took a place two minutes ago and died before it created the run.
    let lost = RunId::new(1, 2, ShardId(0)).to_string();
    cluster.redis.cli(&["ZADD", &format!("tm:limits:{{{app}}}:runs"), "1000", &lost]);
    one.process.kill();
    let _worker = cluster.worker().await;
    until_limits(&second, &app, limits(Some(MAX), Some(0))).await;
    let mut again = 0;
    for _ in 0..MAX {
        again += usize::from(submit(&second, &app).await.status == 201);
    }
    assert_eq!(again as u64, MAX, "every place is free again");
    until_limits(&second, &app, limits(Some(MAX), Some(0))).await;
    let removed = second.send(second.request(Method::DELETE, &format!("/api/v1/apps/{app}/limits"))).await;
    assert_eq!(removed.status, 204);
    until_limits(&second, &app, limits(None, None)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_wait_hold_no_place_and_runs_from_before_the_limit_do() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let published = admin.post("/api/v1/apps", &json!({"workflow": ASK})).await;
    let waits = published.body["id"].as_str().unwrap_or_else(|| panic!("{}", published.text)).to_owned();
    let (works, _) = admin.register(&Flow::new("start -> a -> end")).await;
    assert_eq!(submit(&admin, &works).await.status, 201);
    for app in [&waits, &works] {
        set(&admin, &format!("apps/{app}"), json!({"runs_max": 1})).await;
    }
    until_limits(&admin, &works, limits(Some(1), Some(1))).await;
    assert_eq!(submit(&admin, &works).await.status, 429);

    let _worker = cluster.worker().await;
    let body = json!({"app": waits, "inputs": {"name": "Ada"}});
    for _ in 0..2 {
        let answer = admin.post("/api/v1/runs?wait=30", &body).await;
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("paused")), "{}", answer.text);
        assert_eq!(answer.body["pauses"].as_array().map(Vec::len), Some(2), "{}", answer.text);
        until_limits(&admin, &waits, limits(Some(1), Some(0))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_schedulers_count_the_requests_of_a_key_together() {
    let cluster = Cluster::start(&[], None).await;
    let (one, two) = (cluster.scheduler().await, cluster.scheduler().await);
    let admin = one.client();
    let (_, app) = admin.register(&Flow::new("start -> end")).await;
    let keys = admin.get("/api/v1/keys").await.body;
    let id = keys["data"][0]["id"].as_str().expect("a key").to_owned();
    set(&admin, &format!("keys/{id}"), json!({"requests_per_second": 3})).await;
    until("the other scheduler to know the limit", LONG, async || {
        let keys = two.client().get("/api/v1/keys").await.body;
        let shown = &keys["data"][0]["limits"]["requests_per_second"];
        if shown == 3 { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    let clients = [app.clone(), two.client().with_key(app.key())];
    let began = Instant::now();
    let all = (0..60).map(|number| clients[number % 2].get("/v1/info"));
    let answers = futures_util::future::join_all(all).await;
    let most = 3 + (began.elapsed().as_secs_f64() * 3.0).ceil() as usize;
    let taken = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((3..=most).contains(&taken), "{taken} of at most {most}");
    for refused in answers.iter().filter(|answer| answer.status != 200) {
        let is_it = (refused.status, &refused.body["code"]) == (429, &json!("rate_limit_error"));
        assert!(is_it && refused.headers.contains_key("retry-after"), "{}", refused.text);
    }
    assert!(admin.get("/api/v1/apps").await.status == 200, "the API of operators is not limited");
    let metrics = [one.client(), two.client()].map(|client| async move { client.get("/metrics").await.text });
    let metrics = futures_util::future::join_all(metrics).await.concat();
    assert!(
        metrics.contains("tidemill_over_limit_total{limit=\"requests_per_second\",of=\"key\"}"),
        "{metrics}"
    );

    let unknown = put(&admin, "/api/v1/keys/0000000000000000/limits", &json!({})).await;
    assert_eq!(unknown.status, 404, "{}", unknown.text);
    let wrong = put(&admin, &format!("/api/v1/keys/{id}/limits"), &json!({"runs": 1})).await;
    assert_eq!((wrong.status, &wrong.body["code"]), (400, &json!("invalid_param")), "{}", wrong.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_waits_for_its_run_and_no_longer_than_it_says() {
    let cluster = Cluster::start(&[("scheduler.wait_seconds_max", "60")], None).await;
    let mut scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let flow = Flow::new("start -> a -> end").text();
    let body = json!({"workflow": flow});
    let long = client.post("/api/v1/runs?wait=61", &body).await;
    assert_eq!(long.status, 400, "{}", long.text);
    assert!(long.text.contains("0 to 60 (scheduler.wait_seconds_max)"), "{}", long.text);

    let late = client.post("/api/v1/runs?wait=1", &body).await;
    assert_eq!((late.status, &late.body["status"]), (202, &json!("running")), "{}", late.text);
    let id = late.body["id"].as_str().expect("an id").to_owned();

    // A client that goes away changes nothing.
    let gone = client.request(Method::POST, "/api/v1/runs?wait=60").header("idempotency-key", "gone");
    let gone = gone.header("content-type", "application/json").body(body.to_string());
    assert!(gone.timeout(Duration::from_millis(500)).send().await.is_err(), "the client does not wait");

    let _worker = cluster.worker().await;
    assert_eq!(client.ended(&id).await["status"], "succeeded");
    let again = client.request(Method::POST, "/api/v1/runs?wait=30").header("idempotency-key", "gone");
    let again = client.send(again.header("content-type", "application/json").body(body.to_string())).await;
    assert_eq!((again.status, &again.body["status"]), (200, &json!("succeeded")), "{}", again.text);
    let ended = client.post("/api/v1/runs?wait=30", &body).await;
    assert_eq!((ended.status, &ended.body["status"]), (200, &json!("succeeded")), "{}", ended.text);
    let shown = client.get(&format!("/api/v1/runs/{}", ended.body["id"].as_str().expect("an id"))).await.body;
    let names = |body: &Json| body.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&ended.body), names(&shown));
    scheduler.process.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_stops_answers_a_waiting_submission() {
    let cluster = Cluster::start(&[("scheduler.grace_seconds", "2")], None).await;
    let mut scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let body = json!({"workflow": Flow::new("start -> a -> end").text()});
    let waiting = client.post("/api/v1/runs?wait=100", &body);
    let stop = async {
        until("the run to exist", LONG, async || {
            let runs = client.get("/api/v1/runs").await.body;
            if runs["data"].as_array().is_some_and(|runs| runs.len() == 1) {
                Ok(())
            } else {
                Err(runs.to_string())
            }
        })
        .await;
        scheduler.process.terminate();
    };
    let (answer, ()) = tokio::join!(waiting, stop);
    assert_eq!((answer.status, &answer.body["status"]), (202, &json!("running")), "{}", answer.text);
    scheduler.process.ended(LONG).await;
}
