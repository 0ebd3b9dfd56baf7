//! Tests of the node with local services: requests, results, and calls that must not be repeated.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::any;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::config::{HttpConfig, ToolsConfig};
use tidemill_common::files::Folder;
use tidemill_common::graph::builder::import;
use tidemill_common::hidden::Hidden;
use tidemill_common::ids::{Delivery, EntryId, FramePath, ShardId};
use tidemill_common::limits::STEP_INLINE_BYTES_MAX;
use tidemill_common::nodes::NodeData;
use tidemill_common::store::Called;
use tidemill_common::value::Segment;
use tidemill_common::wire::fact::report::JobName;
use tokio::net::TcpListener;

use super::*;
use crate::jobs::handle::JobHandle;
use crate::jobs::in_flight::JobPlace;
use crate::nodes::mock_server::Values;
use crate::tests::fake::{FakeJobs, core, execution, run_id};

/// A received request.
#[derive(Clone)]
struct Seen {
    path: String,
    headers: HeaderMap,
    body: Json,
}

/// An answer: status, type, body.
type Answer = (u16, &'static str, String);

/// A service with scripted answers, and one description of parameters for all tools.
struct Service {
    base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

async fn service(parameters: Option<Json>, answers: Vec<Answer>) -> Service {
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let (noted, answers) = (seen.clone(), Arc::new(Mutex::new(VecDeque::from(answers))));
    let take = move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let reply = |(status, kind, text): Answer| {
            (StatusCode::from_u16(status).unwrap(), [("content-type", kind)], text)
        };
        if uri.path().ends_with("/parameters") {
            return reply(match parameters {
                Some(parameters) => (200, "application/json", json!({"parameters": parameters}).to_string()),
                None => (404, "text/plain", "what?".into()),
            });
        }
        let body = serde_json::from_slice(&body).unwrap_or_default();
        noted.lock().unwrap().push(Seen { path: uri.path().to_owned(), headers, body });
        reply(answers.lock().unwrap().pop_front().expect("another answer"))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/tools", listener.local_addr().unwrap());
    let router = Router::new().fallback(any(take));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Service { base, seen }
}

fn messages(messages: Json) -> Answer {
    (200, "application/json", json!({"messages": messages}).to_string())
}

/// The result of a run of the node.
struct Ran {
    result: NodeResult,
    pieces: Vec<String>,
}

impl Ran {
    fn output(&self, name: &str) -> Json {
        let found = self.result.outputs.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.value.clone()).unwrap_or_default()
    }
    fn failure(&self) -> (&str, &str) {
        let failure = self.result.failure.as_ref().expect("it failed");
        (&failure.error_type, &failure.message)
    }
}

/// Runs a node with these changes; `base` is the service. Without one the job is handed out for the second time.
async fn run_node(base: &str, changes: Json, jobs: Option<&Arc<FakeJobs>>) -> Ran {
    let mut data = json!({
        "type": "tool", "title": "T", "provider_id": "org/weather", "provider_name": "weather",
        "provider_type": "plugin", "tool_name": "look up", "tool_label": "L", "tool_configurations": {},
        "tool_parameters": {},
    });
    for (name, value) in changes.as_object().unwrap() {
        data[name] = value.clone();
    }
    let document = json!({"graph": {
        "nodes": [{"id": "start", "data": {"type": "start", "title": "S", "variables": []}}, {"id": "t", "data": data}],
        "edges": [{"source": "start", "target": "t"}],
    }});
    let imported = import(document.to_string().as_bytes());
    let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
    let node = graph.node(graph.find("t").unwrap());
    let NodeData::Tool(data) = &node.data else { panic!("{:?}", node.data) };
    let config = ToolsConfig {
        endpoint: base.into(),
        api_key: Hidden("hush".into()),
        describe_seconds: 0,
        ..ToolsConfig::default()
    };
    let http = HttpConfig { file_bytes_max: 100, ..HttpConfig::default() };
    let tools = Tools::new(&config, &http).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::at(folder.path().to_str().unwrap()).unwrap();
    let http = Http::new(&http).unwrap();
    let told = Mutex::new(Vec::new());
    let on_piece = |name: &str, text: &str| told.lock().unwrap().push(format!("{name}={text}"));
    let journal =
        jobs.map(|jobs| Journal::new(&handle(jobs, if base.is_empty() { 2 } else { 1 }), execution(5)));
    let means = Means {
        tools: &tools,
        http: &http,
        files: &files,
        run: &run_id(),
        journal: journal.as_ref(),
        on_piece: &on_piece,
    };
    let values = Values(json!({"start": {"city": "Bergen"}}));
    let result = run(data, node, &values, means).await;
    Ran { result, pieces: told.into_inner().unwrap() }
}

fn handle(jobs: &Arc<FakeJobs>, number: u32) -> JobHandle {
    let entry = EntryId::new(5, 0);
    let name = JobName {
        lost_at: None,
        frame: FramePath::root(),
        node: "t".into(),
        attempt: 1,
        entry,
        holder: Delivery { consumer: "w".into(), number },
    };
    let place = JobPlace { shard: ShardId(0), queue: "default".into(), entry };
    let started_at = Timestamp::from_micros(5);
    JobHandle { core: core(jobs, 1), place, number, run: run_id(), app: None, name, started_at }
}

#[tokio::test]
async fn a_service_is_given_the_parameters_and_answers_with_messages() {
    let service = service(
        None,
        vec![messages(json!([
            {"type": "text", "text": "Rain"}, {"type": "json", "json": {"mm": 3}},
            {"type": "variable", "name": "story", "value": "once", "stream": true},
            {"type": "variable", "name": "temp", "value": 4.5},
        ]))],
    )
    .await;
    let parameters = json!({"city": {"type": "mixed", "value": "{{#start.city#}}"}});
    let ran = run_node(&service.base, json!({"tool_parameters": parameters}), None).await;
    assert_eq!(ran.result.failure, None);
    assert_eq!((ran.output("text"), ran.output("json")), (json!("Rain"), json!([{"mm": 3}])));
    assert_eq!((ran.output("temp"), ran.output("files")), (json!(4.5), json!([])));
    assert_eq!(ran.pieces, ["text=Rain", "story=once", "story=", "temp="]);
    let info =
        json!({"provider_type": "plugin", "provider_id": "org/weather", "plugin_unique_identifier": null});
    assert_eq!(ran.result.metadata["tool_info"], info);
    assert_eq!(ran.result.inputs, [("city".to_owned(), Segment::string("Bergen"))]);
    let seen = service.seen.lock().unwrap()[0].clone();
    assert_eq!(seen.path, "/tools/org/weather/look%20up");
    assert_eq!(seen.body, json!({"parameters": {"city": "Bergen"}}));
    assert_eq!(seen.headers["authorization"], "Bearer hush");
    assert_eq!(seen.headers["idempotency-key"], "call");
}

#[tokio::test]
async fn a_service_may_answer_piece_by_piece() {
    let events = concat!(
        "data: {\"type\": \"text\", \"text\": \"Ra\"}\n\n",
        "data: {\"type\": \"text\", \"text\": \"in\"}\n\n",
        "data: [DONE]\n\n",
    );
    let good = service(None, vec![(200, "text/event-stream", events.into())]).await;
    let ran = run_node(&good.base, json!({}), None).await;
    assert_eq!(
        (ran.output("text"), ran.pieces),
        (json!("Rain"), vec!["text=Ra".to_owned(), "text=in".to_owned()])
    );
    let broken = "data: {\"error\": \"sensor offline\"}\n\n";
    let bad = service(None, vec![(200, "text/event-stream", broken.into())]).await;
    let ran = run_node(&bad.base, json!({}), None).await;
    assert_eq!(ran.failure(), ("ToolRuntimeInvocationError", "sensor offline"));
}

#[tokio::test]
async fn what_a_tool_declares_decides_over_its_parameters() {
    let declared = json!([{"name": "n", "type": "number", "required": true}]);
    let parameters = json!({"n": {"type": "constant", "value": 5}, "x": {"type": "constant", "value": 1}});
    let told = service(Some(declared.clone()), vec![messages(json!([]))]).await;
    run_node(&told.base, json!({"tool_parameters": parameters}), None).await;
    assert_eq!(told.seen.lock().unwrap()[0].body, json!({"parameters": {"n": 5, "x": null}}));
    // The editor's schemas count for a service that describes no parameters.
    let silent = service(None, vec![messages(json!([]))]).await;
    let noted = json!({"tool_parameters": parameters, "paramSchemas": declared});
    run_node(&silent.base, noted, None).await;
    assert_eq!(silent.seen.lock().unwrap()[0].body, json!({"parameters": {"n": 5, "x": null}}));
    let missing = json!({"tool_parameters": {"n": {"type": "variable", "value": ["ghost", "y"]}}});
    let ran = run_node(&told.base, missing, None).await;
    assert_eq!(ran.failure(), ("WorkflowNodeError", "Variable ['ghost', 'y'] does not exist"));
    assert!(ran.result.inputs.is_empty() && ran.result.metadata.is_empty());
}

#[tokio::test]
async fn failures_have_the_words_of_their_stage() {
    let failed = |status, body: Json| (status, "application/json", body.to_string());
    for (answer, declared, expected, passing) in [
        (
            failed(500, json!({"error": "sensor offline"})),
            None,
            "Failed to invoke tool: sensor offline",
            true,
        ),
        (failed(400, json!({"message": "no"})), None, "Failed to invoke tool: no", false),
        (
            failed(404, json!({"error": "x"})),
            None,
            "Failed to get tool runtime: tool org/weather/look up is not available",
            false,
        ),
        (failed(404, json!({"error": "x"})), Some(json!([])), "Failed to invoke tool: x", false),
        (failed(200, json!({})), None, "the tool service answered without `messages`", false),
        (messages(json!([{"type": "dance"}])), None, "unknown tool message dance", false),
        (
            messages(json!([{"type": "blob", "base64": "QQ==", "meta": {"tool_file_id": "x"}}])),
            None,
            "tool file x not exists",
            false,
        ),
    ] {
        let service = service(declared, vec![answer]).await;
        let ran = run_node(&service.base, json!({}), None).await;
        assert_eq!(ran.failure().1, expected);
        assert_eq!(ran.result.failure.as_ref().map(|it| it.retryable), Some(passing), "{expected}");
        assert!(ran.result.metadata.contains_key("tool_info"), "{expected}");
    }
}

#[tokio::test]
async fn a_tool_that_nobody_has_names_the_setting() {
    for (kind, setting) in [
        ("plugin", "tools.endpoint"),
        ("builtin", "tools.endpoint"),
        ("api", "[tools.api.\"org/weather\"]"),
        ("mcp", "[tools.mcp.\"org/weather\"]"),
    ] {
        let ran = run_node("", json!({"provider_type": kind}), None).await;
        let (class, message) = ran.failure();
        assert_eq!(class, "ToolRuntimeResolutionError");
        assert!(
            message.starts_with("Failed to get tool runtime: ") && message.contains(setting),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_tool_of_this_program_needs_no_service() {
    let time = json!({
        "provider_id": "langgenius/time/time", "provider_name": "time", "tool_name": "weekday",
        "tool_parameters": {
            "year": {"type": "constant", "value": 2024}, "month": {"type": "mixed", "value": "2"},
            "day": {"type": "constant", "value": 29},
        },
    });
    let ran = run_node("", time.clone(), None).await;
    assert_eq!(ran.output("text"), json!("February 29, 2024 is Thursday."));
    let mut other = time.clone();
    other["tool_name"] = json!("dance");
    let ran = run_node("", other, None).await;
    let message = "Failed to get tool runtime: provider langgenius/time/time has no tool dance";
    assert_eq!(ran.failure(), ("ToolRuntimeResolutionError", message));
    let mut wrong = time;
    wrong["tool_name"] = json!("timestamp_to_localtime");
    wrong["tool_parameters"] = json!({"timestamp": {"type": "constant", "value": 99999999999999999_u64}});
    let ran = run_node("", wrong, None).await;
    assert!(
        ran.failure().1.starts_with("Failed to invoke tool time: Invalid timestamp"),
        "{:?}",
        ran.failure()
    );
}

#[tokio::test]
async fn files_of_an_answer_are_kept() {
    let blob =
        json!({"type": "blob", "base64": "YWJj", "meta": {"mime_type": "image/png", "filename": "a.png"}});
    let large = json!({"type": "blob", "base64": "YWJj".repeat(40)});
    let service = service(None, vec![messages(json!([blob])), messages(json!([large]))]).await;
    let ran = run_node(&service.base, json!({}), None).await;
    let file = ran.output("files")[0].clone();
    assert_eq!(
        (&file["type"], &file["filename"], &file["size"]),
        (&json!("image"), &json!("a.png"), &json!(3))
    );
    assert!(file["reference"].as_str().is_some_and(|reference| reference.starts_with("runs/")), "{file}");
    let ran = run_node(&service.base, json!({}), None).await;
    assert_eq!(ran.failure().0, "ToolFileError");
    assert!(ran.failure().1.contains("http.file_bytes_max"), "{}", ran.failure().1);
}

#[tokio::test]
async fn a_job_that_is_handed_out_again_does_not_call_again() {
    let jobs = FakeJobs::new();
    let service = service(None, vec![messages(json!([{"type": "text", "text": "once"}]))]).await;
    let first = run_node(&service.base, json!({}), Some(&jobs)).await;
    let second = run_node(&service.base, json!({}), Some(&jobs)).await;
    assert_eq!(first.result, second.result);
    assert_eq!(first.pieces, second.pieces);
    let seen = service.seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    let key = seen[0].headers["idempotency-key"].to_str().unwrap();
    assert!(key.ends_with(":call:1"), "{key}");
}

#[tokio::test]
async fn a_call_that_has_ended_is_known_where_nothing_can_run_the_tool() {
    let jobs = FakeJobs::new();
    let missing = run_node("", json!({}), Some(&jobs)).await;
    assert!(missing.result.failure.is_some(), "nothing is known yet: {:?}", missing.result);
    let service = service(None, vec![messages(json!([{"type": "text", "text": "once"}]))]).await;
    let first = run_node(&service.base, json!({}), Some(&jobs)).await;
    let second = run_node("", json!({}), Some(&jobs)).await;
    assert_eq!(second.result.failure, None);
    assert_eq!((first.result.outputs, first.pieces), (second.result.outputs, second.pieces));
}

#[tokio::test]
async fn what_failed_is_called_again_and_a_large_answer_is_not() {
    let jobs = FakeJobs::new();
    let large = "x".repeat(STEP_INLINE_BYTES_MAX);
    let service = service(
        None,
        vec![
            (500, "text/plain", "no".into()),
            messages(json!([{"type": "text", "text": large}])),
            messages(json!([{"type": "text", "text": "another"}])),
        ],
    )
    .await;
    assert!(run_node(&service.base, json!({}), Some(&jobs)).await.result.failure.is_some());
    assert_eq!(run_node(&service.base, json!({}), Some(&jobs)).await.output("text"), json!(large));
    assert_eq!(run_node(&service.base, json!({}), Some(&jobs)).await.output("text"), json!(large));
    assert_eq!(service.seen.lock().unwrap().len(), 2, "what is known is not asked for again");
    let kept = jobs.state().journal.values().map(String::len).max();
    assert!(kept.is_some_and(|bytes| bytes < 100), "the answer is a blob: {kept:?}");
}

/// Runs a node that calls the app `greeter` as a tool.
async fn call_workflow(jobs: &Arc<FakeJobs>, changes: Json) -> Ran {
    let mut node = json!({"provider_type": "workflow", "provider_id": "greeter", "provider_name": "Greeter"});
    for (name, value) in changes.as_object().unwrap() {
        node[name] = value.clone();
    }
    run_node("", node, Some(jobs)).await
}

fn called_run() -> RunId {
    run_id().called_by(&execution(5), "call", 1)
}

fn knows(jobs: &FakeJobs, fields: &[(&str, &str)]) {
    let fields = fields.iter().map(|(name, text)| ((*name).to_string(), (*text).to_string())).collect();
    jobs.state().called.insert(called_run(), Called::Ended(fields));
}

#[tokio::test]
async fn a_called_workflow_answers_with_its_outputs_and_its_cost() {
    let jobs = FakeJobs::new();
    let outputs = r#"{"hi":"Ünal","text":"x"}"#;
    knows(
        &jobs,
        &[
            ("status", "succeeded"),
            ("outputs", outputs),
            ("tokens", "7"),
            ("price", "0.5"),
            ("currency", "EUR"),
        ],
    );
    let ran = call_workflow(&jobs, json!({})).await;
    let shown = r#"{"hi": "Ünal", "text": "x"}"#;
    assert_eq!((ran.output("hi"), ran.output("text")), (json!("Ünal"), json!(shown)));
    assert_eq!(ran.output("json"), json!([{"hi": "Ünal", "text": "x"}]));
    assert_eq!(ran.result.metadata["total_tokens"], 7);
    let usage = ran.result.usage.as_ref().unwrap();
    assert_eq!((usage.total_tokens, usage.total_price.as_str()), (7, "0.5"));
    // A repetition takes result and cost from the journal.
    jobs.state().called.clear();
    let again = call_workflow(&jobs, json!({})).await;
    assert_eq!((again.output("hi"), again.result.usage.unwrap().total_tokens), (json!("Ünal"), 7));
}

#[tokio::test]
async fn a_called_workflow_that_fails_is_the_tools_failure_and_is_paid_for() {
    let jobs = FakeJobs::new();
    knows(&jobs, &[("status", "failed"), ("error", "boom"), ("tokens", "7")]);
    let ran = call_workflow(&jobs, json!({})).await;
    let expected = ("ToolRuntimeInvocationError", "Failed to invoke tool Greeter: boom");
    assert_eq!((ran.failure(), ran.result.usage.as_ref().unwrap().total_tokens), (expected, 7));
    jobs.state().called.insert(called_run(), Called::Refused("app not found".into()));
    let ran = call_workflow(&jobs, json!({})).await;
    assert_eq!(ran.failure(), ("ToolRuntimeInvocationError", "app not found"));
}

#[tokio::test]
async fn a_call_is_put_down_with_its_order_and_ordered_once() {
    for (known, is_ordered) in [(Called::Unknown, true), (Called::Waits, false)] {
        let jobs = FakeJobs::new();
        jobs.state().called.insert(called_run(), known);
        let parameters = json!({
            "city": {"type": "variable", "value": ["start", "city"]},
            "docs": {"type": "variable", "value": ["start", "city"]},
        });
        let declared = json!([{"name": "city", "type": "string"}, {"name": "docs", "type": "system-files"}]);
        let changes = json!({"tool_parameters": parameters, "paramSchemas": declared});
        let working = call_workflow(&jobs, changes);
        let done = tokio::time::timeout(Duration::from_millis(200), working).await;
        assert!(done.is_err(), "no worker holds the job then");
        let state = jobs.state();
        let (kind, parked) =
            state.batches.iter().flatten().map(|done| (done.kind, done.body.clone())).next().unwrap();
        let parked: Json = serde_json::from_str(&parked).unwrap();
        assert_eq!((kind, &parked["call"]["run"]), ("parked", &json!(called_run())));
        let given = json!({"inputs": {"city": "Bergen"}, "files": ["Bergen"]});
        assert_eq!(parked["call"].get("given"), is_ordered.then_some(&given), "{parked:#}");
    }
}
