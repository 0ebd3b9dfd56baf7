//! A fake scheduler with one run of `hello.yml`. Its event stream breaks once, in the middle of an entry.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json as Body, Router};
use serde_json::{Value as Json, json};

use super::follow::back_off;
use super::*;

/// The requests that the fake scheduler has received.
#[derive(Default)]
struct Seen {
    came_back_after: Vec<String>,
    inputs: Json,
    keys: Vec<String>,
    /// Bodies of commands and answers, with the last part of their path.
    posted: Vec<(String, Json)>,
    answered: bool,
}

type Shared = Arc<Mutex<Seen>>;

pub(crate) struct FakeScheduler {
    pub(crate) url: String,
    seen: Shared,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for FakeScheduler {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeScheduler {
    pub(crate) async fn start() -> Self {
        // In many tests this is the first use of a TLS client.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener =
            tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Shared::default();
        let app = Router::new()
            .route("/api/v1/apps", get(apps).post(refuse_workflow))
            .route("/api/v1/files", post(upload))
            .route("/api/v1/runs", get(runs).post(submit))
            .route("/api/v1/runs/{id}", get(run))
            .route("/api/v1/runs/{id}/events", get(events))
            .route("/api/v1/runs/{id}/commands", post(command))
            .route("/api/v1/runs/{id}/pauses/{pause}/answer", post(answer))
            .route("/api/v1/runs/{id}/snapshot", get(snapshot))
            .route("/api/v1/runs/import", post(import))
            .layer(axum::middleware::from_fn(check_key))
            .with_state(seen.clone());
        let server = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("serves");
        });
        Self { url, seen, server }
    }
    /// The `Last-Event-ID` of each connection to the events of run `r1`.
    pub(crate) fn came_back_after(&self) -> Vec<String> {
        self.seen.lock().expect("not poisoned").came_back_after.clone()
    }
    /// Bodies of commands and answers, with the last part of their path.
    pub(crate) fn posted(&self) -> Vec<(String, Json)> {
        self.seen.lock().expect("not poisoned").posted.clone()
    }
    /// The inputs of the last run.
    pub(crate) fn inputs(&self) -> Json {
        self.seen.lock().expect("not poisoned").inputs.clone()
    }
}

fn refusal(status: u16, code: &str, message: &str) -> Response {
    let body = json!({"code": code, "message": message, "status": status});
    (StatusCode::from_u16(status).expect("a status"), Body(body)).into_response()
}

async fn check_key(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    let key = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if key == Some("Bearer key") {
        next.run(request).await
    } else {
        refusal(401, "unauthorized", "Access token is invalid")
    }
}

async fn apps() -> Body<Json> {
    Body(
        json!({"data": [{"id": "a1", "name": "Hello", "mode": "workflow", "version": "v", "created_at": 1.0}]}),
    )
}

async fn refuse_workflow() -> Response {
    let found = json!({"severity": "error", "code": "graph.odd", "path": "workflow.graph", "line": 3,
        "message": "it is odd", "hint": "mend it"});
    let body = json!({"code": "invalid_workflow", "message": "the workflow is not valid", "status": 422,
        "diagnostics": [found]});
    (StatusCode::UNPROCESSABLE_ENTITY, Body(body)).into_response()
}

async fn runs(Query(query): Query<std::collections::HashMap<String, String>>) -> Body<Json> {
    let status = query.get("status").cloned().unwrap_or_else(|| "succeeded".into());
    Body(json!({"data": [{"id": "r1", "status": status, "workflow": "Hello"}], "next": null}))
}

/// Answers the first try with "inbox full". The second try must use the same idempotency key.
/// The id of an upload has its name.
async fn upload(Query(query): Query<std::collections::HashMap<String, String>>, body: Bytes) -> Response {
    assert!(!body.is_empty() && query["user"] == "u");
    (StatusCode::CREATED, Body(json!({"id": format!("up-{}", query["name"])}))).into_response()
}

async fn submit(State(seen): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let mut seen = seen.lock().expect("not poisoned");
    let key =
        headers.get("idempotency-key").and_then(|value| value.to_str().ok()).expect("a key").to_string();
    seen.keys.push(key.clone());
    if seen.keys.len() == 1 {
        let mut full = refusal(503, "inbox_full", "try later");
        full.headers_mut().insert("retry-after", "0".parse().expect("a header"));
        return full;
    }
    if seen.keys.len() == 2 {
        assert_eq!(seen.keys[0], key);
    }
    let body: Json = serde_json::from_slice(&body).expect("JSON");
    seen.inputs = body["inputs"].clone();
    let id = if seen.inputs["name"] == "wait" { "w1" } else { "r1" };
    (StatusCode::CREATED, Body(json!({"id": id, "status": "scheduled", "version": "v"}))).into_response()
}

/// A run that waits at a form until the form is answered.
fn waiting_run(answered: bool) -> Json {
    json!({"id": "w1", "status": if answered { "succeeded" } else { "paused" }, "workflow": "Hello",
    "outputs": {}, "error": null, "nodes": [], "pauses": [{
        "pause_id": "p", "node_id": "2", "node_title": "Review", "content": "Fine? {{#$output.note#}}",
        "inputs": [{"type": "paragraph", "output_variable_name": "note"}],
        "actions": [{"id": "yes", "title": "Yes"}, {"id": "no", "title": "No"}], "defaults": {},
        "status": if answered { "answered" } else { "pending" }, "opened_at": 1.0,
    }]})
}

async fn run(State(seen): State<Shared>, Path(id): Path<String>) -> Response {
    if id == "w1" {
        return Body(waiting_run(seen.lock().expect("not poisoned").answered)).into_response();
    }
    if id != "r1" {
        return refusal(404, "not_found", "Workflow run not found.");
    }
    Body(
        json!({"id": "r1", "status": "succeeded", "workflow": "Hello", "total_steps": 2, "elapsed_time": 1.5,
        "outputs": {"greeting": "Hello, Ada!"}, "error": null, "nodes": []}),
    )
    .into_response()
}

async fn command(State(seen): State<Shared>, Path(id): Path<String>, Body(body): Body<Json>) -> Response {
    if id == "r1" {
        return refusal(409, "run_over", "the run is over: succeeded");
    }
    seen.lock().expect("not poisoned").posted.push(("commands".into(), body));
    (StatusCode::ACCEPTED, Body(json!({"accepted": true}))).into_response()
}

/// Accepts an answer only if its note is "fine".
async fn answer(
    State(seen): State<Shared>,
    Path((_, pause)): Path<(String, String)>,
    Body(body): Body<Json>,
) -> Response {
    if !body["inputs"].is_null() && body["inputs"]["note"] != "fine" {
        return refusal(400, "pause_input_invalid", "say that it is fine");
    }
    let mut seen = seen.lock().expect("not poisoned");
    seen.posted.push((pause, body));
    seen.answered = true;
    (StatusCode::ACCEPTED, Body(json!({"accepted": true}))).into_response()
}

/// Contains a number that does not fit into a double.
async fn snapshot(Path(id): Path<String>) -> Response {
    if id == "r1" {
        return refusal(409, "run_over", "the run is over: succeeded");
    }
    let text = r#"{"tidemill_snapshot":1,"run_id":"w1","big":123456789012345678901}"#;
    ([("content-type", "application/json")], text).into_response()
}

async fn import(State(seen): State<Shared>, body: Bytes) -> Response {
    let Ok(Json::Object(map)) = serde_json::from_slice(&body) else {
        return refusal(400, "invalid_param", "no snapshot");
    };
    seen.lock().expect("not poisoned").posted.push(("import".into(), map["run_id"].clone()));
    (StatusCode::CREATED, Body(json!({"id": "r2", "status": "scheduled"}))).into_response()
}

fn entry(seq: u64, id: Option<&str>, kind: &str, data: Json) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let envelope = json!({"type": kind, "data": data, "id": "x", "run_id": "r1", "seq": seq, "ts": 1});
    format!("{id}event: {kind}\ndata: {envelope}\n\n")
}

fn events_of_waiting_run(answered: bool, after: &str) -> Response {
    let reason = json!({"TYPE": "hitl_required", "session_id": "p", "node_id": "2", "node_title": "Review"});
    let text = match after {
        "" => [
            entry(1, None, "node_run_pause_requested", json!({"pause": {"node_title": "Review"}})),
            entry(2, Some("1-0"), "graph_run_paused", json!({"reasons": [reason]})),
        ]
        .concat(),
        _ if answered => entry(3, Some("2-0"), "graph_run_succeeded", json!({"outputs": {}})),
        _ => ": ping\n\n".into(),
    };
    ([("content-type", "text/event-stream")], text).into_response()
}

async fn events(State(seen): State<Shared>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let after = headers.get("last-event-id").and_then(|value| value.to_str().ok()).unwrap_or("").to_string();
    if id == "w1" {
        return events_of_waiting_run(seen.lock().expect("not poisoned").answered, &after);
    }
    let node = |id: &str, title: &str, kind: &str| json!({"id": id, "node_id": id, "node_title": title, "node_type": kind});
    let done = |node: Json, seconds: f64| {
        let mut data = node;
        data["start_at"] = 1.0.into();
        data["finished_at"] = (1.0 + seconds).into();
        data
    };
    let (start, greet) = (node("1", "Start", "start"), node("2", "Greet", "template-transform"));
    let second = [
        entry(2, None, "node_run_started", start.clone()),
        entry(3, Some("2-0"), "node_run_succeeded", done(start, 0.001)),
    ];
    let third = [
        entry(4, None, "node_run_started", greet.clone()),
        entry(5, None, "node_run_succeeded", done(greet, 0.5)),
        entry(6, Some("3-0"), "graph_run_succeeded", json!({"outputs": {}})),
    ];
    let text = match after.as_str() {
        // The connection breaks within the third entry, after its first event.
        "" => format!(
            ": ping\n\n{}{}{}",
            entry(1, Some("1-0"), "graph_run_started", json!({})),
            second.concat(),
            third[0]
        ),
        "2-0" => third.concat(),
        _ => ": ping\n\n".into(),
    };
    seen.lock().expect("not poisoned").came_back_after.push(after);
    ([("content-type", "text/event-stream")], text).into_response()
}

#[test]
fn waits_double_and_are_bounded() {
    let waits: Vec<u128> = [1, 2, 3, 7, 100].map(|tries| back_off(tries).as_millis()).into();
    assert_eq!(waits, [100, 200, 400, 5000, 5000]);
}

#[test]
fn ids_cannot_leave_their_segment_of_the_path() {
    assert_eq!(segment("019-aB_"), "019-aB_");
    assert_eq!(segment("../a?b#ä"), "%2E%2E%2Fa%3Fb%23%C3%A4");
}
