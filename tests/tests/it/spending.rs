//! What runs and keys spend on models, and what they may: on real processes.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::system;

/// A workflow that asks twice.
fn asks_twice() -> Flow {
    Flow::new("start -> llm1 -> llm2 -> end").with("end", json!({"outputs": []}))
}

async fn model() -> tidemill::mock_llm::Running {
    llm::rules(json!([{"match": {}, "reply": "well", "usage": {"prompt_tokens": 8, "completion_tokens": 2}}]))
        .await
}

async fn keys(client: &Client) -> Vec<Json> {
    client.get("/api/v1/keys").await.body["data"].as_array().cloned().unwrap_or_default()
}

fn asked() -> Json {
    json!({"inputs": {}, "user": "u", "response_mode": "blocking"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_spent_too_much_fails_before_it_asks_again() {
    let model = model().await;
    let system = system(&[], &model).await;
    let body = json!({"workflow": asks_twice().text(), "inputs": {}, "options": {"budget_tokens": 9}});
    let ended = system.client.ended(&system.client.submit(&body).await).await;
    let error = "BudgetExceededError: 10 tokens are spent, and the run may spend 9 (budget_tokens, set by the request)";
    assert_eq!((&ended["status"], &ended["error"]), (&json!("failed"), &json!(error)), "{ended:#}");
    assert_eq!((&ended["total_tokens"], model.take_requests().len()), (&json!(10), 1));
    let body = json!({"workflow": asks_twice().text(), "inputs": {}, "options": {"budget_tokens": 20}});
    assert_eq!(system.client.ended(&system.client.submit(&body).await).await["status"], "succeeded");
}

/// Waits until the run shows these tokens.
async fn has_spent(client: &Client, run: &str, tokens: u64) -> Json {
    until(&format!("{tokens} tokens to be shown"), LONG, async || {
        let shown = client.run(run).await;
        if shown["total_tokens"] == tokens { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a27_what_was_recorded_before_a_stop_is_counted_when_it_is_heard_of_behind_it() {
    let model = llm::rules(json!([{"match": {}, "reply": "late", "delay_ms": 60_000}])).await;
    let system = system(&[("scheduler.shards", "1")], &model).await;
    let client = &system.client;
    let run = client.start(&Flow::new("start -> llm -> end"), &[]).await;
    let node = client.node_is(&run, "llm", "running").await;
    let stop = json!({"command": "stop", "reason": "enough"});
    assert_eq!(client.post(&format!("/api/v1/runs/{run}/commands"), &stop).await.status, 202);
    assert_eq!(client.ended(&run).await["total_tokens"], 0);
    // As its worker would have written it, had the stop come a moment later.
    let told = async |key: &str, price: &str| {
        let usage = json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "total_price": price, "currency": "USD"});
        let fact = json!({
            "node": "llm", "attempt": 1, "job": node["job"], "holder": "w", "delivery": 1, "started_at": 0,
            "charge": {"key": key, "provider": "openai", "model": "m", "usage": usage},
        });
        let fact = fact.to_string();
        let words = ["XADD", "tm:{0}:inbox", "*", "kind", "step", "run", &run, "fact", &fact];
        let _: String = system.cluster.redis.ask(&words).await;
    };
    told("llm:1/1", "0.25").await;
    let shown = has_spent(client, &run, 7).await;
    assert_eq!((&shown["status"], &shown["total_price"]), (&json!("stopped"), &json!("0.25")), "{shown:#}");
    let of_models: Vec<&Json> = shown["models"].as_array().into_iter().flatten().collect();
    assert_eq!((of_models.len(), &of_models[0]["total_tokens"]), (1, &json!(7)), "{shown:#}");
    // And once more, when nobody has the run in memory any more.
    told("llm:2/1", "0.5").await;
    let shown = has_spent(client, &run, 14).await;
    assert_eq!((&shown["status"], &shown["total_price"]), (&json!("stopped"), &json!("0.75")), "{shown:#}");
    let ledger = format!("tm:{{0}}:run:{run}:ledger");
    let left: i64 = system.cluster.redis.ask(&["TTL", &ledger]).await;
    assert!(left > 0, "it goes with its run: {left}");
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    assert_eq!(told.events.last().map(|event| event.kind.as_str()), Some("graph_run_aborted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_key_spends_is_told_and_bounded() {
    let model = model().await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let (app_id, app) = client.register(&asks_twice()).await;
    let answer = app.post("/v1/workflows/run", &asked()).await;
    assert_eq!(answer.body["data"]["status"], "succeeded", "{}", answer.text);
    let [key] = <[Json; 1]>::try_from(keys(client).await).expect("one key");
    assert_eq!(
        (&key["app"], &key["spent"]["calls"], &key["spent"]["tokens"]),
        (&json!(app_id), &json!(2), &json!(20)),
        "{key:#}"
    );
    assert_eq!(key["today"]["prompt_tokens"], 16, "{key:#}");
    let id = key["id"].as_str().unwrap();
    let metrics = client.get("/metrics").await.text;
    let labels = [
        r#"provider="langgenius/openai/openai""#,
        r#"model="mock""#,
        r#"kind="prompt""#,
        &format!(r#"key="{id}""#),
    ];
    let spent: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("tidemill_model_tokens_total")).collect();
    let told = |line: &&&str| labels.iter().all(|label| line.contains(label)) && line.ends_with(" 16");
    assert!(spent.iter().any(|line| told(&line)), "{labels:?} in {spent:#?}");

    let path = format!("/api/v1/keys/{id}/budget");
    let put = async |budget: Json| {
        let request = client.request(Method::PUT, &path).header("content-type", "application/json");
        client.send(request.body(budget.to_string())).await
    };
    assert_eq!(put(json!({"token": 1})).await.status, 400);
    assert_eq!(put(json!({"tokens": 20})).await.status, 200);
    let refused = until("the key to be refused", LONG, async || {
        let answer = app.post("/v1/workflows/run", &asked()).await;
        if answer.status == 402 { Ok(answer) } else { Err(answer.text) }
    })
    .await;
    assert_eq!(refused.body["code"], "budget_exceeded", "{}", refused.text);
    assert!(
        refused.body["message"].as_str().unwrap().contains(&format!("key {id} has spent")),
        "{}",
        refused.text
    );
    assert!(keys(client).await[0]["exceeded"].is_string());
    let request = client.request(Method::DELETE, &path);
    assert_eq!(client.send(request).await.status, 204);
    until("the key to be taken again", LONG, async || {
        let answer = app.post("/v1/workflows/run", &asked()).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_key_that_has_spent_too_much_end_while_they_wait() {
    let model = model().await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let waits = Flow::new("start -> llm -> human_input -> end").with(
        "human_input",
        json!({"type": "human-input", "required_variables": ["conversation.x"], "pause_reason": "x"}),
    );
    let (_, app) = client.register(&waits).await;
    let answer = app.post("/v1/workflows/run", &asked()).await;
    let run =
        answer.body["workflow_run_id"].as_str().unwrap_or_else(|| panic!("{}", answer.text)).to_string();
    let id = keys(client).await[0]["id"].as_str().unwrap().to_string();
    let request = client.request(Method::PUT, &format!("/api/v1/keys/{id}/budget"));
    let request =
        request.header("content-type", "application/json").body(json!({"tokens_per_day": 5}).to_string());
    assert_eq!(client.send(request).await.status, 200);
    let ended = client.ended(&run).await;
    let error =
        format!("BudgetExceededError: key {id} has spent 10 tokens of 5 (tokens_per_day, set for the key)");
    assert_eq!((&ended["status"], &ended["error"]), (&json!("failed"), &json!(error)), "{ended:#}");
}
