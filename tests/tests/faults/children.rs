//! Nodes inside other nodes whose worker dies: work that has ended inside the job is not repeated, running work is,
//! and earlier tries count.

use serde_json::{Value as Json, json};
use tidemill_common::crash::Program;
use tidemill_mock_llm::Running;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;
use tidemill_tests::patient::{Followed, Patient};
use tidemill_tests::redis::free_port;

use super::QUICK;
use super::crash_points::{Armed, END_MAX, start};

const PROMPT: &str = "Extract keywords";

/// A model that answers a question, and a tool whose input is extracted from the conversation.
fn workflow(tool: Json) -> String {
    let extraction =
        json!({"source_node_id": "llm1", "source_variable": "context", "extraction_prompt": PROMPT});
    let mut data = json!({
        "type": "tool", "title": "Search", "provider_id": "acme", "provider_name": "acme", "provider_type": "builtin",
        "tool_name": "find", "tool_label": "Find", "tool_configurations": {},
        "tool_parameters": {"query": {"type": "extraction", "value": extraction}},
    });
    if let (Some(data), Json::Object(tool)) = (data.as_object_mut(), tool) {
        data.extend(tool);
    }
    json!({
        "nodes": [
            {"id": "start", "data": {"type": "start", "variables": []}},
            {"id": "llm1", "data": {"type": "llm", "title": "Answer", "context": {"enabled": false, "variable_selector": []},
                "model": {"provider": "openai", "name": "gpt-4", "mode": "chat", "completion_params": {}},
                "prompt_template": [{"role": "user", "text": "What is Raft?"}]}},
            {"id": "tool1", "data": data},
            {"id": "end", "data": {"type": "end", "outputs": [{"variable": "keywords", "value_selector": ["tool1_ext_1", "text"]}]}},
        ],
        "edges": [
            {"source": "start", "target": "llm1"}, {"source": "llm1", "target": "tool1"}, {"source": "tool1", "target": "end"},
        ],
    })
    .to_string()
}

async fn model(mut extraction: Json) -> Running {
    extraction["match"] = json!({"equals": PROMPT});
    extraction["usage"] = json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120});
    llm::rules(json!([extraction, {"match": {}, "reply": "Raft is …"}])).await
}

fn asked(model: &Running) -> usize {
    let is_extraction = |request: &&Json| request["messages"].to_string().contains(PROMPT);
    model.requests().iter().filter(is_extraction).count()
}

/// A run whose worker died at a crash point, and the calls that were made.
struct Survived {
    run: Json,
    transcript: tidemill_tests::check::Transcript,
    called: Vec<String>,
    ledger: String,
}

/// Runs a workflow whose worker dies at this crash point and is replaced.
async fn survives(at: &str, model: &Running, tool: Json) -> Survived {
    let outside = Outside::start().await;
    let endpoint = format!("{}/tools", outside.base_url);
    let mut settings = QUICK.to_vec();
    settings.extend([("scheduler.shards", "1"), ("tools.endpoint", endpoint.as_str())]);
    let cluster = Cluster::start(&settings, Some(model)).await;
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let _scheduler = start(&cluster, Program::Scheduler, &scheduler_at, None);
    let process = start(&cluster, Program::Worker, &worker_at, Some(at));
    let mut armed = Armed { cluster: &cluster, program: Program::Worker, address: worker_at, process };
    let patient = Patient::new(vec![scheduler_at]);
    let body = json!({"workflow": workflow(tool), "inputs": {}, "user": "tester"});
    let acting = async {
        let run = patient.submit(&body, "once").await.expect("it is accepted");
        let followed = patient.follow(&run, END_MAX).await.map_err(|(_, trouble)| trouble);
        (run, followed.expect("it ends"))
    };
    let ((run, Followed { transcript, .. }), died) = tokio::join!(acting, armed.until_dead(at));
    died.expect("the worker dies");
    let shown = patient.run(&run).await.expect("it exists");
    let called = outside.take().into_iter().map(|call| call.body).collect();
    let ledger = cluster.redis.cli(&["HGETALL", &format!("tm:{{0}}:run:{run}:ledger")]);
    Survived { run: shown, transcript, called, ledger }
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a23_a_child_that_has_ended_is_not_repeated_when_its_worker_dies() {
    let model = model(json!({"chunks": ["Raft", ", consensus"]})).await;
    let Survived { run, transcript, called, ledger } =
        survives("worker.step_kept:1", &model, json!({})).await;
    assert_eq!(
        (&run["status"], &run["outputs"]["keywords"]),
        (&json!("succeeded"), &json!("Raft, consensus")),
        "{run:#}"
    );
    assert_eq!((asked(&model), transcript.count("node_run_succeeded", "tool1_ext_1")), (1, 1));
    assert_eq!(called, [r#"{"parameters":{"query":"Raft, consensus"}}"#]);
    assert_eq!(ledger.matches("\"total_tokens\":120").count(), 1, "{ledger}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a24_a_child_whose_worker_dies_while_it_streams_starts_again() {
    let model = model(json!({"chunks": ["Raft", ", con", "sensus"], "chunk_delay_ms": 400})).await;
    let outside = Outside::start().await;
    let endpoint = format!("{}/tools", outside.base_url);
    let settings = [&QUICK[..], &[("scheduler.shards", "1"), ("tools.endpoint", endpoint.as_str())]].concat();
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let (scheduler, mut first) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let run = client.submit(&json!({"workflow": workflow(json!({})), "inputs": {}, "user": "tester"})).await;
    let mut follower = client.follow(&run, None).await;
    follower.until_text("Raft").await;
    first.process.kill();
    let _second = cluster.worker().await;
    let transcript = follower.to_the_end().await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]["keywords"]),
        (&json!("succeeded"), &json!("Raft, consensus")),
        "{ended:#}"
    );
    let replaced: Vec<&Json> =
        transcript.of_kind("node_run_stream_replaced").map(|event| &event.data["selector"]).collect();
    assert_eq!(replaced, [&json!(["tool1_ext_1", "text"])]);
    assert_eq!(
        (transcript.text(), asked(&model), outside.take().len()),
        ("Raft, consensus".to_owned(), 2, 1)
    );
    assert_eq!(transcript.count("node_run_started", "tool1_ext_1"), 1);
    let ledger = cluster.redis.cli(&["HGETALL", &format!("tm:{{0}}:run:{run}:ledger")]);
    assert_eq!(ledger.matches("\"total_tokens\":120").count(), 1, "{ledger}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a25_tries_before_a_worker_died_still_count() {
    let refused = json!({"status": 500, "error": "down", "fail_times": 2, "headers": {"x-should-retry": "false"}, "reply": "Raft"});
    let model = model(refused).await;
    let retry = json!({"retry_config": {"max_retries": 2, "retry_interval": 800, "retry_enabled": true}});
    let Survived { run, transcript, called, .. } = survives("worker.step_kept:2", &model, retry).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    assert_eq!((asked(&model), called.len()), (3, 1));
    let indexes: Vec<&Json> =
        transcript.of_kind("node_run_retry").map(|event| &event.data["retry_index"]).collect();
    assert_eq!(indexes, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a25_a_long_wait_between_tries_needs_no_worker() {
    let refused = json!({"status": 500, "error": "down", "fail_times": 1, "headers": {"x-should-retry": "false"}, "reply": "Raft"});
    let model = model(refused).await;
    let outside = Outside::start().await;
    let endpoint = format!("{}/tools", outside.base_url);
    let settings =
        [&QUICK[..], &[("tools.endpoint", endpoint.as_str()), ("worker.job_wait_max_ms", "100")]].concat();
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let (scheduler, mut first) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let retry = json!({"retry_config": {"max_retries": 1, "retry_interval": 3000, "retry_enabled": true}});
    let run = client.submit(&json!({"workflow": workflow(retry), "inputs": {}, "user": "tester"})).await;
    client.node_is(&run, "tool1", "retrying").await;
    first.process.kill();
    let _second = cluster.worker().await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]["keywords"]),
        (&json!("succeeded"), &json!("Raft")),
        "{ended:#}"
    );
    assert_eq!((asked(&model), outside.take().len()), (2, 1));
}
