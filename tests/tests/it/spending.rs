//! The spending of runs and keys on models, and their budgets, on real processes.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{called, system};

/// A workflow that calls a model twice.
fn asks_twice() -> Flow {
    Flow::new("start -> llm1 -> llm2 -> end").with("end", json!({"outputs": []}))
}

async fn model() -> tidemill_mock_llm::Running {
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
async fn a_run_that_has_spent_too_much_fails_before_its_next_call() {
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
async fn ve_a27_a_charge_from_before_a_stop_counts_even_if_its_fact_arrives_later() {
    let model = llm::rules(json!([{"match": {}, "reply": "late", "delay_ms": 60_000}])).await;
    let system = system(&[("scheduler.shards", "1")], &model).await;
    let client = &system.client;
    let run = client.start(&Flow::new("start -> llm -> end"), &[]).await;
    let node = client.node_is(&run, "llm", "running").await;
    let stop = json!({"command": "stop", "reason": "enough"});
    assert_eq!(client.post(&format!("/api/v1/runs/{run}/commands"), &stop).await.status, 202);
    assert_eq!(client.ended(&run).await["total_tokens"], 0);
    // As its worker would have written it, if the stop had come a moment later.
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
    // Once more, when no scheduler has the run in memory any more.
    told("llm:2/1", "0.5").await;
    let shown = has_spent(client, &run, 14).await;
    assert_eq!((&shown["status"], &shown["total_price"]), (&json!("stopped"), &json!("0.75")), "{shown:#}");
    let ledger = format!("tm:{{0}}:run:{run}:ledger");
    let left: i64 = system.cluster.redis.ask(&["TTL", &ledger]).await;
    assert!(left > 0, "it expires with its run: {left}");
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    assert_eq!(told.events.last().map(|event| event.kind.as_str()), Some("graph_run_aborted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spending_of_a_key_is_shown_and_limited() {
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
        if answer.status == 400 { Ok(answer) } else { Err(answer.text) }
    })
    .await;
    assert_eq!(refused.body["code"], "provider_quota_exceeded", "{}", refused.text);
    assert!(
        refused.body["message"].as_str().unwrap().contains(&format!("key {id} has spent")),
        "{}",
        refused.text
    );
    assert!(keys(client).await[0]["exceeded"].is_string());
    let request = client.request(Method::DELETE, &path);
    assert_eq!(client.send(request).await.status, 204);
    until("the key to be accepted again", LONG, async || {
        let answer = app.post("/v1/workflows/run", &asked()).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_runs_of_a_key_that_has_spent_too_much_end() {
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

/// A scheduler and a worker whose model has a price: a call with 8 and 2 tokens costs 0.012 EUR.
async fn priced(model: &tidemill_mock_llm::Running) -> (Cluster, Scheduler, Worker) {
    let cluster = Cluster::start(&[], None).await;
    let path = cluster.logs().join("priced.toml");
    let settings = format!(
        "[providers.openai]\nbase_url = \"{}\"\napi_key = \"none\"\n[providers.openai.models.mock]\n\
         pricing = {{ input = \"1\", output = \"2\", unit = \"0.001\", currency = \"EUR\" }}\n",
        model.base_url()
    );
    std::fs::write(&path, settings).expect("the folder is there");
    let scheduler = cluster.scheduler().await;
    let worker = cluster.worker_with(&["--config", path.to_str().expect("it is a text")]).await;
    (cluster, scheduler, worker)
}

/// The output of `tidemill show` for a run.
fn shown(cluster: &Cluster, scheduler: &Scheduler, run: &str) -> String {
    let mut command = cluster.command("tidemill");
    command.args(["show", run]).env("TIDEMILL_URL", format!("http://{}", scheduler.address));
    command.env("TIDEMILL_KEY", tidemill_tests::cluster::ADMIN_KEY);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a text")
}

/// The value of a metric's only series with these labels.
fn counted(metrics: &str, name: &str, labels: &[String]) -> Option<u64> {
    let of = |line: &&str| {
        line.split('{').next() == Some(name) && labels.iter().all(|label| line.contains(label.as_str()))
    };
    metrics.lines().find(of)?.rsplit(' ').next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_price_of_a_call_is_shown_everywhere_and_counts_against_the_budget_of_the_run() {
    let model = model().await;
    let (cluster, scheduler, _worker) = priced(&model).await;
    let client = &scheduler.client();
    let (_, app) = client.register(&asks_twice()).await;
    let answer = app.post("/v1/workflows/run", &asked()).await;
    let run = client.run(answer.body["workflow_run_id"].as_str().unwrap()).await;
    assert_eq!(
        (&run["status"], &run["total_price"], &run["currency"]),
        (&json!("succeeded"), &json!("0.0240000"), &json!("EUR")),
        "{run:#}"
    );
    let nodes = run["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|node| node["id"] == "llm1").unwrap();
    assert_eq!((&node["tokens"], &node["price"]), (&json!(10), &json!("0.0120000")), "{node:#}");
    let [line] = <&[Json; 1]>::try_from(run["models"].as_array().unwrap().as_slice()).expect("one model");
    assert_eq!((&line["calls"], &line["total_price"]), (&json!(2), &json!("0.0240000")), "{line:#}");
    let [key] = <[Json; 1]>::try_from(keys(client).await).expect("one key");
    assert_eq!((&run["key"], &key["spent"]["price"]["EUR"]), (&key["id"], &json!("0.0240000")), "{key:#}");
    let metrics = client.get("/metrics").await.text;
    let labels = [
        r#"provider="langgenius/openai/openai""#.to_owned(),
        r#"model="mock""#.to_owned(),
        r#"currency="EUR""#.to_owned(),
        format!("key={}", key["id"]),
    ];
    assert_eq!(counted(&metrics, "tidemill_model_price_nano_total", &labels), Some(24_000_000), "{metrics}");
    let said = shown(&cluster, &scheduler, run["id"].as_str().unwrap());
    let row =
        |of: &str| said.lines().find(|line| line.starts_with(of)).unwrap_or_else(|| panic!("{of}: {said}"));
    assert!(row("cost").ends_with("0.0240000 EUR") && row("llm1").contains("0.0120000 EUR"), "{said}");
    assert!(row("langgenius/openai/openai mock").ends_with("0.0240000 EUR"), "{said}");

    model.take_requests();
    let body =
        json!({"workflow": asks_twice().text(), "inputs": {}, "options": {"budget_price": "0.01 EUR"}});
    let ended = client.ended(&client.submit(&body).await).await;
    let error = "BudgetExceededError: 0.0120000 EUR are spent, and the run may spend 0.01 EUR (budget_price, set by the request)";
    assert_eq!((&ended["status"], &ended["error"]), (&json!("failed"), &json!(error)), "{ended:#}");
    assert_eq!(model.take_requests().len(), 1, "no model is called any more");
}

/// A workflow whose model never answers by its schema, with this many retries.
fn asks_in_vain(retries: u32) -> Flow {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    Flow::new("start -> llm -> end").with("end", json!({"outputs": []})).with(
        "llm",
        json!({
            "structured_output_enabled": true, "structured_output": {"schema": schema},
            "retry_config": {"retry_enabled": true, "max_retries": retries, "retry_interval": 10},
        }),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_fit_no_schema_are_charged_to_run_and_key() {
    let usage = json!({"prompt_tokens": 8, "completion_tokens": 2});
    let model = llm::rules(json!([{"match": {}, "reply": "{}", "usage": usage}])).await;
    let (cluster, scheduler, _worker) = priced(&model).await;
    let client = &scheduler.client();
    let (_, app) = client.register(&asks_in_vain(2)).await;
    let answer = app.post("/v1/workflows/run", &asked()).await;
    // Dify's totals do not contain them.
    assert_eq!(answer.body["data"]["total_tokens"], 0, "{}", answer.text);
    let run = client.run(answer.body["workflow_run_id"].as_str().unwrap()).await;
    assert_eq!((&run["status"], &run["total_tokens"]), (&json!("failed"), &json!(0)), "{run:#}");
    assert_eq!(
        (&run["wasted_tokens"], &run["wasted_price"], &run["wasted_currency"]),
        (&json!(30), &json!("0.0360000"), &json!("EUR")),
        "{run:#}"
    );
    let told = client.follow(run["id"].as_str().unwrap(), None).await.to_the_end().await;
    let wasted: Vec<&Json> =
        told.of_kind("node_run_retry").map(|event| &event.data["node_run_result"]["wasted"]).collect();
    assert_eq!(wasted.len(), 2, "{told:#?}");
    assert_eq!((&wasted[0]["model"], &wasted[0]["usage"]["total_tokens"]), (&json!("mock"), &json!(10)));
    let [line] = <&[Json; 1]>::try_from(run["models"].as_array().unwrap().as_slice()).expect("one model");
    let line =
        ["calls", "wasted_calls", "total_tokens", "wasted_tokens"].map(|key| line[key].as_u64().unwrap());
    assert_eq!(line, [3, 3, 30, 30]);
    let [key] = <[Json; 1]>::try_from(keys(client).await).expect("one key");
    assert_eq!(
        (&key["spent"]["calls"], &key["spent"]["tokens"], &key["spent"]["price"]["EUR"]),
        (&json!(3), &json!(30), &json!("0.0360000")),
        "{key:#}"
    );
    let metrics = client.get("/metrics").await.text;
    let labels = [r#"model="mock""#.to_owned(), format!("key={}", key["id"])];
    assert_eq!(counted(&metrics, "tidemill_model_calls_total", &labels), Some(3), "{metrics}");
    let said = shown(&cluster, &scheduler, run["id"].as_str().unwrap());
    assert!(said.contains("30 tokens, 0.0360000 EUR") && said.contains("3 (3 wasted)"), "{said}");

    model.take_requests();
    let body = json!({"workflow": asks_in_vain(9).text(), "inputs": {}, "options": {"budget_tokens": 15}});
    let ended = client.ended(&client.submit(&body).await).await;
    let error = "BudgetExceededError: 20 tokens are spent, and the run may spend 15 (budget_tokens, set by the request)";
    assert_eq!((&ended["error"], model.take_requests().len()), (&json!(error), 2), "{ended:#}");

    // A key that has spent its budget on such replies is refused.
    let path = format!("/api/v1/keys/{}/budget", key["id"].as_str().unwrap());
    let request = client.request(Method::PUT, &path).header("content-type", "application/json");
    assert_eq!(client.send(request.body(json!({"tokens": 30}).to_string())).await.status, 200);
    until("the key to be refused", LONG, async || {
        let answer = app.post("/v1/workflows/run", &asked()).await;
        if answer.status == 400 { Ok(()) } else { Err(answer.text) }
    })
    .await;
}

/// A run whose only call is a sub-workflow run of `asks_in_vain`.
#[tokio::test(flavor = "multi_thread")]
async fn wasted_calls_of_a_called_workflow_count_against_the_budget_of_its_caller() {
    let usage = json!({"prompt_tokens": 8, "completion_tokens": 2});
    let model = llm::rules(json!([{"match": {}, "reply": "{}", "usage": usage}])).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let (called, _) = client.register(&asks_in_vain(1)).await;
    let calls = called::file("Caller", &[], &[("t", called::tool(&called, "x", ""))], &[]);
    let ended = client.ended(&client.submit(&json!({"workflow": calls, "inputs": {}})).await).await;
    assert_eq!(
        (&ended["status"], &ended["total_tokens"], &ended["wasted_tokens"]),
        (&json!("failed"), &json!(0), &json!(20)),
        "{ended:#}"
    );
    assert_eq!(ended["models"][0]["wasted_tokens"], 20, "{ended:#}");
}
