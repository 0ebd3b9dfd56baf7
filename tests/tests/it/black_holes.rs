//! A worker whose set-up lacks what a job needs hands the job back to a worker that has it. Only when no living worker
//! has it does the node fail, at once.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::called::file;

/// The number of runs: enough that each of two workers gets some.
const RUNS: usize = 40;

/// A worker without any provider of models.
async fn without_providers(cluster: &Cluster) -> Worker {
    let mut command = cluster.command("tidemill-worker");
    command.env_remove("OPENAI_BASE_URL").env_remove("OPENAI_API_KEY");
    cluster.worker_of(command).await
}

fn asking() -> String {
    let ask = json!({"type": "llm", "title": "Ask", "model": {"provider": "openai", "name": "m", "mode": "chat",
        "completion_params": {}}, "prompt_template": [{"role": "user", "text": "hello"}],
        "context": {"enabled": false, "variable_selector": []}});
    file("Asking", &[], &[("ask", ask)], &[("text", ["ask", "text"])])
}

async fn run_many(client: &Client, workflow: &str) -> Vec<Json> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(client.submit(&json!({"workflow": workflow, "inputs": {}, "user": "u"})).await);
    }
    let mut ended = Vec::new();
    for run in runs {
        ended.push(client.ended(&run).await);
    }
    ended
}

/// The log lines of a process with this message.
fn lines(worker: &Worker, message: &str) -> Vec<Json> {
    let text = worker.process.log_text();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
    all.filter(|line| line["message"] == message).collect()
}

/// The text of a worker's `/readyz`.
async fn readyz(worker: &Worker) -> (u16, String) {
    let started = lines(worker, "worker started");
    let address = started[0]["health"].as_str().expect("it serves health");
    let answer = Client::new(address, None).undescribed().get("/readyz").await;
    (answer.status, answer.text)
}

const PASSED_ON: &str = "this worker cannot do the job and hands it back to others that can";

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_one_worker_cannot_do_are_done_by_the_other() {
    let model = llm::rules(json!([{"match": {}, "reply": "hi"}])).await;
    let cluster = Cluster::start(&[], Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let (lacking, able) = (without_providers(&cluster).await, cluster.worker().await);
    let ended = run_many(&scheduler.client(), &asking()).await;
    assert!(ended.iter().all(|run| run["status"] == "succeeded"), "{ended:#?}");

    let passed = lines(&lacking, PASSED_ON);
    assert!(!passed.is_empty(), "it got no job: {}", lacking.process.log_text());
    let runs: BTreeSet<&str> = ended.iter().filter_map(|run| run["id"].as_str()).collect();
    for line in &passed {
        assert!(runs.contains(line["run"].as_str().expect("a run")), "{line}");
        assert_eq!((&line["level"], &line["node"]), (&json!("WARN"), &json!("ask")), "{line}");
        assert_eq!(line["missing"], "a provider openai for the model m", "{line}");
    }
    assert!(passed.len() <= RUNS, "each job is handed back once");
    assert!(lines(&able, PASSED_ON).is_empty());
    // No delivery was counted.
    let deliveries = |run: &Json| {
        run["nodes"].as_array().expect("a list").iter().map(|n| n["delivery"].clone()).collect::<Vec<_>>()
    };
    assert!(ended.iter().flat_map(deliveries).all(|delivery| delivery.as_u64() <= Some(1)), "{ended:#?}");

    // What it lacks is in its answer to probes, which does not make it unready, and in its record.
    let (status, text) = readyz(&lacking).await;
    assert_eq!(status, 200, "{text}");
    assert!(
        text.contains("missing, and a job has asked for it lately: a provider openai for the model m"),
        "{text}"
    );
    let workers = scheduler.client().get("/api/v1/workers").await.body;
    let of =
        |name: &str| workers["data"].as_array().into_iter().flatten().find(|w| w["name"] == name).cloned();
    let record = of(&lacking.consumer).expect("it is listed");
    let need = json!({"what": "provider", "provider": "openai", "model": "m"});
    assert!(
        record["missing"].as_array().expect("a list").iter().any(|one| one["need"] == need),
        "{record:#}"
    );
    let record = of(&able.consumer).expect("it is listed");
    assert_eq!(
        (&record["providers"][0]["usable"], &record["queues"]),
        (&json!(true), &json!(["default"])),
        "{record:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_no_living_worker_can_run_fails_at_once_and_names_the_worker() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let workers = [cluster.worker().await, cluster.worker().await];
    let client = scheduler.client();
    let run = client.submit(&json!({"workflow": asking(), "inputs": {}, "user": "u"})).await;
    let ended = client.ended(&run).await;
    let error = ended["error"].as_str().expect("it failed");
    assert!(
        error.starts_with("Model m credentials is not initialized. No provider openai is known"),
        "{error}"
    );
    assert!(error.ends_with("No living worker can run it."), "{error}");
    let node =
        ended["nodes"].as_array().expect("a list").iter().find(|node| node["id"] == "ask").expect("a node");
    let worker = node["worker"].as_str().expect("a worker");
    let names: Vec<&str> = workers.iter().map(|worker| worker.consumer.as_str()).collect();
    assert!(names.contains(&worker), "{node:#}");
    assert!(workers.iter().all(|worker| lines(worker, PASSED_ON).is_empty()));

    let events = client.get(&format!("/api/v1/runs/{run}/events?follow=false")).await.text;
    let events = events.lines().filter_map(|line| line.strip_prefix("data:"));
    let events: Vec<Json> = events.filter_map(|line| serde_json::from_str(line).ok()).collect();
    let failed = events.iter().find(|event| event["type"] == "node_run_failed").expect("an event");
    let result = &failed["data"]["node_run_result"];
    assert_eq!(
        (&result["worker"], &result["error_type"]),
        (&json!(worker), &json!("ProviderTokenNotInitError"))
    );

    let shown = command(&cluster, &scheduler.address, &["show", &run]);
    assert!(shown.contains(&format!("ask failed on worker {worker}\n")), "{shown}");

    // One line for the node and one for the run, without the text of the error.
    let text = scheduler.process.log_text();
    let logged: Vec<Json> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of_run: Vec<&Json> =
        logged.iter().filter(|line| line["run"] == *run && line["level"] == "WARN").collect();
    let [node, whole] = of_run.as_slice() else { panic!("{of_run:#?}") };
    assert_eq!((&node["message"], &node["node"]), (&json!("a node failed"), &json!("ask")));
    assert_eq!((&node["class"], &node["worker"]), (&json!("ProviderTokenNotInitError"), &json!(worker)));
    assert_eq!(
        (&whole["message"], &whole["class"]),
        (&json!("a run failed"), &json!("ProviderTokenNotInitError"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_frame_of_dify_names_the_worker() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let worker = cluster.worker().await;
    let flow = Flow::new("start -> ask -> end").with("ask", json!({"type": "llm", "model": {"provider": "openai",
        "name": "m", "mode": "chat", "completion_params": {}}, "prompt_template": [{"role": "user", "text": "x"}],
        "context": {"enabled": false, "variable_selector": []}}));
    let (_, app) = scheduler.client().register(&flow).await;
    let body = json!({"inputs": {}, "user": "u", "response_mode": "streaming"});
    let streamed = app.post("/v1/workflows/run", &body).await.text;
    assert!(streamed.contains("workflow_finished"), "{streamed}");
    assert!(streamed.contains("credentials is not initialized"), "{streamed}");
    assert!(!streamed.contains(&worker.consumer), "{streamed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_another_secret_key_leaves_sealed_workflows_to_others() {
    let cluster = Cluster::start(&[("scheduler.secret_key", "open sesame, open wide")], None).await;
    let scheduler = cluster.scheduler().await;
    let mut command = cluster.command("tidemill-worker");
    command.env("TIDEMILL_SCHEDULER_SECRET_KEY", "another key of another house");
    let (wrong, right) = (cluster.worker_of(command).await, cluster.worker().await);
    let flow = Flow::new("start -> code -> end").with("code", json!({"type": "code", "code_language": "javascript",
        "variables": [{"variable": "k", "value_selector": ["env", "KEY"]}],
        "code": "function main({k}) { return {n: k.length} }", "outputs": {"n": {"type": "number", "children": null}}}));
    let mut document = flow.document();
    document["workflow"]["environment_variables"] = json!([{"id": "e1", "name": "KEY", "value_type": "secret", "value": "sk-0123456789", "description": ""}]);
    let ended = run_many(&scheduler.client(), &document.to_string()).await;
    assert!(ended.iter().all(|run| run["status"] == "succeeded"), "{ended:#?}");
    assert!(!lines(&wrong, PASSED_ON).is_empty(), "it got no job: {}", wrong.process.log_text());
    assert!(lines(&right, PASSED_ON).is_empty());
    let records = scheduler.client().get("/api/v1/workers").await.text;
    assert!(!records.contains("sesame") && !records.contains("house"), "{records}");

    // Alone it fails the node at once.
    right.process.terminate();
    until("the right worker to leave", LONG, async || {
        let workers = scheduler.client().get("/api/v1/workers").await.body;
        let count = workers["data"].as_array().map_or(0, Vec::len);
        if count == 1 { Ok(()) } else { Err(format!("{workers:#}")) }
    })
    .await;
    let client = scheduler.client();
    let run = client.submit(&json!({"workflow": document.to_string(), "inputs": {}, "user": "u"})).await;
    let ended = client.ended(&run).await;
    let error = ended["error"].as_str().expect("it failed");
    assert!(error.contains("the secret \"KEY\" does not open"), "{error}");
}

/// The output of `tidemill` with these arguments.
fn command(cluster: &Cluster, address: &str, arguments: &[&str]) -> String {
    let mut command = cluster.command("tidemill");
    command.args(arguments).env("TIDEMILL_URL", format!("http://{address}")).env("TIDEMILL_KEY", ADMIN_KEY);
    let output = command.output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
