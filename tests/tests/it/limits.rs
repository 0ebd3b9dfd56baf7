//! Limits of models over several workers: a throttled job waits in Redis and says why, and all other work continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use super::called;

fn asking(model: &str) -> Flow {
    let model = json!({"provider": "openai", "name": model, "mode": "chat", "completion_params": {}});
    Flow::new("start -> llm -> end").with("llm", json!({"model": model}))
}

/// Starts a scheduler and two workers whose profiles have these limits.
async fn fleet(model: &Running, limits: &str) -> (Cluster, Scheduler, [Worker; 2]) {
    let cluster = Cluster::start(&[], None).await;
    let path = cluster.logs().join("limits.toml");
    let profile = format!("[providers.openai]\nbase_url = \"{}\"\napi_key = \"none\"\n", model.base_url());
    std::fs::write(&path, format!("{profile}{limits}")).expect("the folder exists");
    let scheduler = cluster.scheduler().await;
    let arguments = ["--config", path.to_str().expect("it is a text")];
    let workers = [cluster.worker_with(&arguments).await, cluster.worker_with(&arguments).await];
    (cluster, scheduler, workers)
}

fn requests_of(model: &Running, name: &str) -> usize {
    model.requests().iter().filter(|request| request["model"] == name).count()
}

fn llm_node(run: &Json) -> &Json {
    let nodes = run["nodes"].as_array().expect("a run has nodes");
    nodes.iter().find(|node| node["id"] == "llm").expect("it has a model")
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_model_that_refuses_wait_in_redis_and_other_jobs_continue() {
    let model = llm::rules(json!([
        {"match": {"model": "busy"}, "fail_times": 1, "status": 429, "headers": {"Retry-After": "4"}, "reply": "ok"},
        {"match": {}, "reply": "ok"},
    ]))
    .await;
    let (_cluster, scheduler, _workers) = fleet(&model, "[providers.openai.models.busy.limits]\n").await;
    let client = scheduler.client();
    let first = client.start(&asking("busy"), &[]).await;
    let why = "the model busy of openai: its provider asks to wait";
    let parked = |run: String| {
        let client = &client;
        async move {
            until("the job to be parked", LONG, async || {
                let shown = client.run(&run).await;
                if llm_node(&shown)["parked"] == why { Ok(()) } else { Err(shown.to_string()) }
            })
            .await;
        }
    };
    parked(first.clone()).await;
    let others = [client.start(&asking("busy"), &[]).await, client.start(&asking("busy"), &[]).await];
    for other in &others {
        parked(other.clone()).await;
    }
    let free = client.start(&asking("free"), &[]).await;
    assert_eq!(client.ended(&free).await["status"], "succeeded");
    assert_eq!(requests_of(&model, "busy"), 1, "no worker calls the model while it rests");
    for run in [first].iter().chain(&others) {
        let ended = client.ended(run).await;
        assert_eq!((&ended["status"], &llm_node(&ended)["parked"]), (&json!("succeeded"), &Json::Null));
        assert_eq!(llm_node(&ended)["attempt"], 1, "the attempt is the same");
    }
    assert_eq!(requests_of(&model, "busy"), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_limits_that_asks_to_wait_holds_no_worker_meanwhile() {
    let model = llm::rules(json!([
        {"match": {"model": "busy"}, "fail_times": 1, "status": 429, "headers": {"Retry-After": "4"}, "reply": "ok"},
        {"match": {"model": "full"}, "fail_times": 1, "status": 529, "headers": {"Retry-After": "4"}, "reply": "ok"},
    ]))
    .await;
    let (_cluster, scheduler, _workers) = fleet(&model, "").await;
    let client = scheduler.client();
    for name in ["busy", "full"] {
        let run = client.start(&asking(name), &[]).await;
        let why = format!("the model {name} of openai: its provider asks to wait");
        until("the job to be parked", LONG, async || {
            let shown = client.run(&run).await;
            if llm_node(&shown)["parked"] == why { Ok(()) } else { Err(shown.to_string()) }
        })
        .await;
        assert_eq!(requests_of(&model, name), 1, "no worker calls the model meanwhile");
        let ended = client.ended(&run).await;
        assert_eq!((&ended["status"], &llm_node(&ended)["attempt"]), (&json!("succeeded"), &json!(1)));
        assert_eq!(requests_of(&model, name), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_calls_run_at_the_same_time_than_a_model_allows() {
    let model = llm::slow(&["a", "b"], 300).await;
    let limits = "[providers.openai.limits]\nconcurrency = 1\n";
    let (_cluster, scheduler, _workers) = fleet(&model, limits).await;
    let client = scheduler.client();
    let mut runs = Vec::new();
    for name in ["one", "two", "one", "two"] {
        runs.push(client.start(&asking(name), &[]).await);
    }
    let mut times = Vec::new();
    for run in &runs {
        let ended = client.ended(run).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
    }
    for request in model.requests() {
        let at = request["time"].as_str().expect("requests have a time").to_owned();
        times.push(
            chrono::DateTime::parse_from_rfc3339(&at).expect("as the mock writes it").timestamp_millis(),
        );
    }
    assert_eq!(times.len(), 4);
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= 290, "one call after the other: {times:?}");
    }
}

/// Starts a knowledge service that refuses its first search and asks the client to wait for this many seconds.
/// Returns its address and the number of searches.
async fn knowledge(seconds: u32) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let asked: Arc<AtomicUsize> = Arc::default();
    let counted = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (mut stream, mut line, mut length) = (BufReader::new(stream), String::new(), 0);
            while stream.read_line(&mut line).await.is_ok_and(|count| count > 2) {
                let head = line.to_ascii_lowercase();
                length =
                    head.strip_prefix("content-length:").map_or(length, |it| it.trim().parse().unwrap_or(0));
                line.clear();
            }
            let mut body = vec![0; length];
            // An error only means that the client has ended.
            let _ = stream.read_exact(&mut body).await;
            let (status, more, body) = match counted.fetch_add(1, Ordering::SeqCst) {
                0 => ("429 Too Many Requests", format!("retry-after: {seconds}\r\n"), "{}"),
                _ => ("200 OK", String::new(), r#"{"records": [{"content": "leave is paid"}]}"#),
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_knowledge_service_that_asks_to_wait_holds_no_worker_meanwhile() {
    let (url, asked) = knowledge(4).await;
    let cluster = Cluster::start(&[], None).await;
    let path = cluster.logs().join("knowledge.toml");
    let settings = format!(
        "[knowledge.datasets.handbook]\nname = \"Handbook\"\nendpoint = \"{url}\"\nknowledge_id = \"h\"\n"
    );
    std::fs::write(&path, settings).expect("the folder exists");
    let scheduler = cluster.scheduler().await;
    let _worker = cluster.worker_with(&["--config", path.to_str().expect("it is a text")]).await;
    let client = scheduler.client();
    let search = json!({
        "type": "knowledge-retrieval", "title": "K", "query_variable_selector": ["start", "q"],
        "dataset_ids": ["handbook"], "retrieval_mode": "multiple",
        "multiple_retrieval_config": {"top_k": 4, "reranking_enable": false},
    });
    let text = called::file("Search", &["q"], &[("k", search)], &[("found", ["k", "result"])]);
    let run = client.submit(&json!({"workflow": text, "inputs": {"q": "leave?"}})).await;
    let node = |shown: &Json| {
        shown["nodes"].as_array().and_then(|nodes| nodes.iter().find(|node| node["id"] == "k").cloned())
    };
    let why = "the knowledge base Handbook: its service asks to wait, or has failed";
    until("the job to be parked", LONG, async || {
        let shown = client.run(&run).await;
        if node(&shown).is_some_and(|node| node["parked"] == why) { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    assert_eq!(asked.load(Ordering::SeqCst), 1, "no worker calls it meanwhile");
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"]["found"][0]["content"], "leave is paid", "{ended:#}");
    let node = node(&ended).expect("it ran");
    assert_eq!((&node["attempt"], &node["parked"]), (&json!(1), &Json::Null), "{node:#}");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}
