//! Workers whose program has node executors of its own, over a real Redis: what their executors say becomes what a node
//! of our own would have said, and nothing is lost when such a worker dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::{Value as Json, json};
use tidemill_common::config::Config;
use tidemill_common::store::Jobs;
use tidemill_common::store::redis::RedisStore;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::wait::{LONG, until};
use tidemill_worker::host::{Hosts, NodeCall, NodeEvent, NodeExecutor, NodeOutcome};
use tidemill_worker::{Worker, start_hosting};

use super::called::file;

/// A lease that ends soon when its worker is gone.
const LEASE_MS: u64 = 1000;

/// An executor that is a function.
struct Function<F>(F);

impl<F: Fn(NodeCall) -> BoxStream<'static, NodeEvent> + Send + Sync + 'static> NodeExecutor for Function<F> {
    fn execute(&self, call: NodeCall) -> BoxStream<'static, NodeEvent> {
        (self.0)(call)
    }
}

fn executor(function: impl Fn(NodeCall) -> Vec<NodeEvent> + Send + Sync + 'static) -> Arc<dyn NodeExecutor> {
    Arc::new(Function(move |call| stream::iter(function(call)).boxed()))
}

fn done(outputs: Json) -> NodeEvent {
    let outputs = outputs.as_object().expect("outputs are an object").clone();
    NodeEvent::Succeeded(NodeOutcome { outputs, ..NodeOutcome::default() })
}

fn piece(text: &str) -> NodeEvent {
    NodeEvent::Chunk { output: "text".into(), text: text.into(), is_final: false }
}

fn failed(class: &str, message: &str) -> NodeEvent {
    NodeEvent::Failed { class: class.into(), message: message.into() }
}

/// Starts a worker of this process.
async fn worker(cluster: &Cluster, hosts: Hosts) -> Worker {
    let mut config = Config::default();
    config.redis.url = cluster.redis.url().into();
    config.worker.listen = String::new();
    config.worker.job_lease_ms = LEASE_MS;
    let (redis, limits) = (config.redis.clone(), config.store_limits());
    let own = move || Ok(RedisStore::new(&redis, limits)? as Arc<dyn Jobs>);
    let store = RedisStore::new(&config.redis, config.store_limits()).expect("the address is right");
    start_hosting(&config, store, Some(Box::new(own)), hosts).await.expect("the worker starts")
}

fn settings() -> [(&'static str, &'static str); 1] {
    [("worker.job_lease_ms", "1000")]
}

/// A node of type `llm`. No provider of models is set.
fn llm() -> Json {
    json!({
        "type": "llm", "title": "L", "context": {"enabled": false}, "vision": {"enabled": false},
        "model": {"provider": "none", "name": "none", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "Say {{#start.q#}}"}],
    })
}

fn tool(provider: &str) -> Json {
    json!({
        "type": "tool", "title": "T", "provider_id": provider, "provider_name": provider, "provider_type": "builtin",
        "tool_name": "t", "tool_label": "T", "tool_configurations": {},
        "tool_parameters": {"city": {"type": "mixed", "value": "in {{#start.q#}}"}},
    })
}

async fn submit(client: &Client, workflow: &str) -> String {
    client.submit(&json!({"workflow": workflow, "inputs": {"q": "hello"}})).await
}

/// A chatflow whose answer shows the text of the node.
fn chat(node: &Json) -> String {
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "advanced-chat", "name": "Chat"},
        "workflow": {"graph": {
            "nodes": [
                {"id": "start", "data": {"type": "start", "title": "S", "variables": [
                    {"variable": "q", "label": "q", "type": "text-input", "required": false}]}},
                {"id": "n", "data": node},
                {"id": "answer", "data": {"type": "answer", "title": "A", "answer": "> {{#n.text#}}"}},
            ],
            "edges": [{"source": "start", "target": "n"}, {"source": "n", "target": "answer"}],
        }},
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_streams_pieces_and_an_answer_shows_each_once() {
    let cluster = Cluster::start(&settings(), None).await;
    let scheduler = cluster.scheduler().await;
    let says = executor(|call| {
        assert_eq!((call.node_type.as_str(), call.render("{{#start.q#}}!").as_str()), ("llm", "hello!"));
        assert_eq!(call.messages.len(), 1, "{call:?}");
        assert_eq!(call.messages[0].text, "Say hello");
        assert_eq!(call.config["model"]["provider"], "none");
        let outcome = NodeOutcome { tokens: Some((3, 4)), ..NodeOutcome::default() };
        vec![NodeEvent::Started, piece("One "), piece("two"), NodeEvent::Succeeded(outcome)]
    });
    let _worker = worker(&cluster, Hosts::default().node_type("llm", says).expect("llm is a type")).await;
    let client = scheduler.client();
    let body = json!({"workflow": chat(&llm()), "inputs": {"q": "hello"}, "query": "?"});
    let run = client.submit(&body).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    assert_eq!(ended["outputs"]["answer"], "> One two");
    assert_eq!(ended["total_tokens"], 7, "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    let shown: String =
        told.of_kind("node_run_stream_chunk").filter_map(|event| event.data["chunk"].as_str()).collect();
    assert_eq!(shown, "> One two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_retried_and_the_last_one_takes_the_fail_branch_with_its_class() {
    let cluster = Cluster::start(&settings(), None).await;
    let scheduler = cluster.scheduler().await;
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let fails = executor(move |call| {
        counted.fetch_add(1, Ordering::SeqCst);
        match call.attempt {
            1 => panic!("the executor is broken"),
            2 => Vec::new(),
            attempt => vec![piece("half"), failed("QuotaError", &format!("attempt {attempt}: no more"))],
        }
    });
    let _worker = worker(&cluster, Hosts::default().node("n", fails)).await;
    let mut node = llm();
    node["error_strategy"] = json!("fail-branch");
    node["retry_config"] = json!({"retry_enabled": true, "max_retries": 2, "retry_interval": 10});
    let mut workflow: Json =
        serde_json::from_str(&file("F", &["q"], &[("n", node)], &[("e", ["n", "error_message"])]))
            .expect("JSON");
    workflow["workflow"]["graph"]["edges"][1]["sourceHandle"] = json!("fail-branch");
    let client = scheduler.client();
    let run = submit(&client, &workflow.to_string()).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"]["e"], "attempt 3: no more", "{ended:#}");
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
    let told = client.follow(&run, None).await.to_the_end().await;
    let errors: Vec<&str> =
        told.of_kind("node_run_retry").filter_map(|event| event.data["error"].as_str()).collect();
    assert_eq!(errors[0], "the executor of node n panicked: the executor is broken");
    assert_eq!(errors[1], "the executor of node n has ended without a result");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_waits_for_a_person_and_another_worker_executes_the_node_with_the_answer() {
    let cluster = Cluster::start(&settings(), None).await;
    let scheduler = cluster.scheduler().await;
    let asks = || {
        executor(|call| match call.answers.as_slice() {
            [] => vec![NodeEvent::PauseRequested {
                message: format!("May I say {}?", call.inputs["start.q"]),
                schema: Some(json!({"type": "object", "required": ["yes"]})),
            }],
            [_] => vec![NodeEvent::PauseRequested { message: "Really?".into(), schema: None }],
            [first, ..] => vec![done(json!({"text": [first, call.answer]}))],
        })
    };
    let client = scheduler.client();
    let first = worker(&cluster, Hosts::default().node("n", asks())).await;
    let run = submit(&client, &file("P", &["q"], &[("n", llm())], &[("said", ["n", "text"])])).await;
    let pending = async |prompt: &str| {
        until("the run to ask", LONG, async || {
            let shown = client.run(&run).await;
            let pauses = shown["pauses"].as_array().into_iter().flatten();
            let mut open = pauses.filter(|pause| pause["status"] == "pending" && pause["prompt"] == prompt);
            open.next().cloned().ok_or_else(|| shown.to_string())
        })
        .await
    };
    let answer = async |pause: &Json, input: Json| {
        let id = pause["pause_id"].as_str().expect("a pause has an id");
        client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &json!({ "input": input })).await
    };
    let pause = pending("May I say \"hello\"?").await;
    assert_eq!(answer(&pause, json!({"no": 1})).await.status, 400, "the answer does not fit the schema");
    drop(first);
    let _second = worker(&cluster, Hosts::default().node("n", asks())).await;
    assert!(answer(&pause, json!({"yes": true})).await.status < 300);
    assert!(answer(&pending("Really?").await, json!("yes")).await.status < 300);
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"]["said"], json!([{"yes": true}, "yes"]), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_worker_dies_is_done_again_by_another_worker() {
    let cluster = Cluster::start(&settings(), None).await;
    let scheduler = cluster.scheduler().await;
    let executions = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = executions.clone();
    let hangs: Arc<dyn NodeExecutor> = Arc::new(Function(move |call: NodeCall| {
        noted.lock().expect("no test panics here").push(call.execution.clone());
        stream::iter([piece("half")]).chain(stream::pending()).boxed()
    }));
    let client = scheduler.client();
    let dies = worker(&cluster, Hosts::default().node("n", hangs)).await;
    let body = json!({"workflow": chat(&llm()), "inputs": {"q": "hello"}, "query": "?"});
    let run = client.submit(&body).await;
    let mut follower = client.follow(&run, None).await;
    follower.until_text("half").await;
    drop(dies);
    let noted = executions.clone();
    let says = executor(move |call| {
        noted.lock().expect("no test panics here").push(call.execution.clone());
        vec![piece("whole"), done(json!({}))]
    });
    let _worker = worker(&cluster, Hosts::default().node("n", says)).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"]["answer"], "> whole", "{ended:#}");
    let executions = executions.lock().expect("no test panics here").clone();
    assert_eq!((executions.len(), &executions[0]), (2, &executions[1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_goes_to_the_worker_whose_program_has_it_and_records_show_it() {
    let cluster = Cluster::start(&settings(), None).await;
    let (scheduler, plain) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let acme = executor(|call| vec![done(json!({"text": call.inputs["city"]}))]);
    let _worker = worker(&cluster, Hosts::default().tool("acme", acme)).await;
    let shown = client.get("/api/v1/workers").await.body;
    let hosted: Vec<&Json> =
        shown["data"].as_array().into_iter().flatten().map(|worker| &worker["hosted"]["tools"]).collect();
    assert!(hosted.contains(&&json!(["acme"])), "{shown:#}");
    let workflow = file("T", &["q"], &[("t", tool("acme"))], &[("said", ["t", "text"])]);
    for _ in 0..20 {
        let run = submit(&client, &workflow).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["outputs"]["said"], "in hello", "{ended:#}");
    }
    let other = submit(&client, &file("U", &["q"], &[("t", tool("unknown"))], &[])).await;
    let ended = client.ended(&other).await;
    assert!(ended["error"].as_str().is_some_and(|error| error.contains("no living worker")), "{ended:#}");
    drop(plain);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_and_pure_nodes_that_ask_for_a_worker_reach_the_program() {
    let cluster = Cluster::start(&settings(), None).await;
    let (scheduler, _plain) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let gpu = executor(|call| {
        let big = "x".repeat(call.inputs["q"].as_str().map_or(0, str::len) * 100_000);
        vec![done(json!({"output": big}))]
    });
    let _worker = worker(&cluster, Hosts::default().queue("gpu", gpu)).await;
    let node = json!({"type": "template-transform", "title": "G", "template": "{{ q }}",
        "variables": [{"variable": "q", "value_selector": ["start", "q"]}],
        "tidemill": {"queue": "gpu", "runs_on": "worker"}});
    let length = json!({"type": "template-transform", "title": "C", "template": "{{ o | length }}",
        "variables": [{"variable": "o", "value_selector": ["g", "output"]}]});
    let workflow = file("G", &["q"], &[("g", node), ("c", length)], &[("n", ["c", "output"])]);
    let ended = client.ended(&submit(&client, &workflow).await).await;
    assert_eq!(ended["outputs"]["n"], "500000", "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_of_the_run_drops_the_stream_of_the_executor() {
    /// Counts its drops.
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let cluster = Cluster::start(&settings(), None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let dropped = Arc::new(AtomicUsize::new(0));
    let counts = dropped.clone();
    let hangs: Arc<dyn NodeExecutor> = Arc::new(Function(move |_: NodeCall| {
        let mark = Dropped(counts.clone());
        stream::once(async move {
            let _mark = mark;
            std::future::pending().await
        })
        .boxed()
    }));
    let _worker = worker(&cluster, Hosts::default().node("n", hangs)).await;
    let run = submit(&client, &file("S", &["q"], &[("n", llm())], &[])).await;
    client.node_is(&run, "n", "running").await;
    client
        .post(&format!("/api/v1/runs/{run}/commands"), &json!({"command": "stop", "reason": "enough"}))
        .await;
    assert_eq!(client.ended(&run).await["status"], "stopped");
    until("the stream to be dropped", LONG, async || match dropped.load(Ordering::SeqCst) {
        1 => Ok(()),
        count => Err(format!("{count} drops")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_in_what_an_executor_says_are_masked() {
    const SECRET: &str = "sk-1234567890abcdef";
    let cluster =
        Cluster::start(&[("scheduler.secret_key", "open sesame, open wide"), settings()[0]], None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let mut config = Config::default();
    config.redis.url = cluster.redis.url().into();
    config.worker.listen = String::new();
    config.scheduler.secret_key = "open sesame, open wide".into();
    let leaks = executor(|call| {
        assert_eq!(call.render("{{#env.KEY#}}"), SECRET);
        vec![failed("LeakError", &format!("{SECRET} is refused"))]
    });
    let store = RedisStore::new(&config.redis, config.store_limits()).expect("the address is right");
    let hosts = Hosts::default().node("n", leaks);
    let _worker = start_hosting(&config, store, None, hosts).await.expect("the worker starts");
    let mut node = llm();
    node["prompt_template"][0]["text"] = json!("{{#env.KEY#}}");
    let mut workflow: Json = serde_json::from_str(&file("M", &["q"], &[("n", node)], &[])).expect("JSON");
    workflow["workflow"]["environment_variables"] =
        json!([{"id": "k", "name": "KEY", "value_type": "secret", "value": SECRET}]);
    let run = submit(&client, &workflow.to_string()).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    assert!(!ended.to_string().contains(SECRET) && ended.to_string().contains("is refused"), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_the_program_is_registered_and_runs_where_it_is() {
    let cluster = Cluster::start(&settings(), None).await;
    let (scheduler, _plain) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let greet = || {
        executor(|call| match call.config["operation"].as_str() {
            Some("init") => vec![done(json!({"who": call.inputs["who"], "seen": true}))],
            _ => vec![piece("Hello "), piece(call.inputs["who"].as_str().unwrap_or("?")), done(json!({}))],
        })
    };
    let manifest = json!({
        "info": {"en": {"name": "Greet", "description": "Says hello"}},
        "input_schema": {"type": "object", "required": ["who"], "properties": {"who": {"type": "string"}}},
    });
    let manifest = manifest.as_object().expect("an object");
    let _one = worker(&cluster, Hosts::default().call("greet", manifest.clone(), greet())).await;
    let shown = client.get("/api/v1/calls/greet").await.body;
    assert_eq!(shown["transport"], json!({"type": "worker"}), "{shown:#}");
    let _two = worker(&cluster, Hosts::default().call("greet", manifest.clone(), greet())).await;
    let again = client.get("/api/v1/calls/greet").await.body;
    assert_eq!(again["version"], shown["version"], "the same Call is not written again");
    let node = json!({"type": "call", "title": "G", "node": "greet", "params": {"who": "{{#start.q#}}"}});
    let workflow = file("C", &["q"], &[("g", node)], &[("said", ["g", "text"])]);
    for _ in 0..10 {
        let ended = client.ended(&submit(&client, &workflow).await).await;
        assert_eq!(ended["outputs"]["said"], "Hello hello", "{ended:#}");
    }
}
