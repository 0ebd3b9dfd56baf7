//! A scheduler that tells one story: a run of `hello.yml` whose event stream breaks once, within an entry.

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

/// What the scheduler remembers of its clients.
#[derive(Default)]
struct Seen {
    came_back_after: Vec<String>,
    inputs: Json,
    keys: Vec<String>,
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
        // Clients are built here for the first time in many a test.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener =
            tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Shared::default();
        let app = Router::new()
            .route("/api/v1/apps", get(apps).post(refuse_workflow))
            .route("/api/v1/runs", get(runs).post(submit))
            .route("/api/v1/runs/{id}", get(run))
            .route("/api/v1/runs/{id}/events", get(events))
            .route("/api/v1/runs/{id}/commands", post(run_ended))
            .layer(axum::middleware::from_fn(check_key))
            .with_state(seen.clone());
        let server = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("serves");
        });
        Self { url, seen, server }
    }
    /// The `Last-Event-ID` of each connection to the events of the first run.
    pub(crate) fn came_back_after(&self) -> Vec<String> {
        self.seen.lock().expect("not poisoned").came_back_after.clone()
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

/// The first try finds the inbox full; the second must come under the same key.
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
    (StatusCode::CREATED, Body(json!({"id": "r1", "status": "scheduled", "version": "v"}))).into_response()
}

async fn run(Path(id): Path<String>) -> Response {
    if id != "r1" {
        return refusal(404, "not_found", "Workflow run not found.");
    }
    Body(
        json!({"id": "r1", "status": "succeeded", "workflow": "Hello", "total_steps": 2, "elapsed_time": 1.5,
        "outputs": {"greeting": "Hello, Ada!"}, "error": null, "nodes": []}),
    )
    .into_response()
}

async fn run_ended() -> Response {
    refusal(409, "run_ended", "the run has ended")
}

fn entry(seq: u64, id: Option<&str>, kind: &str, data: Json) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let envelope = json!({"type": kind, "data": data, "id": "x", "run_id": "r1", "seq": seq, "ts": 1});
    format!("{id}event: {kind}\ndata: {envelope}\n\n")
}

async fn events(State(seen): State<Shared>, headers: HeaderMap) -> Response {
    let after = headers.get("last-event-id").and_then(|value| value.to_str().ok()).unwrap_or("").to_string();
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
        // Breaks within the third entry, whose first event has been told.
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
