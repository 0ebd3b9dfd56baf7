//! Tests of webhooks over a fake store: their secret, and the answer when no run can be accepted.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use super::fixtures::{ADMIN, HttpResponse, Server, request};

const HOOK: &str = r#"{"kind": "app", "app": {"mode": "workflow", "name": "Hooked"}, "workflow": {
    "environment_variables": [{"name": "KEY", "value_type": "secret", "value": "hunter2-and-more"}],
    "graph": {"edges": [{"source": "hook", "target": "end"}], "nodes": [
        {"id": "hook", "data": {"type": "trigger-webhook", "method": "POST", "tidemill": {"secret": "KEY"}}},
        {"id": "end", "data": {"type": "end", "outputs": []}}]}}}"#;

async fn hooked(server: &Server) -> String {
    let answer = server.ask(request("POST", ADMIN, "/api/v1/apps", HOOK)).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()["triggers"][0]["path"].as_str().unwrap().to_string()
}

async fn call(server: &Server, path: &str, headers: &[(&str, &str)], body: &str) -> HttpResponse {
    let mut request = Request::builder().method("POST").uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.ask(request.body(Body::from(body.to_string())).unwrap()).await
}

#[tokio::test]
async fn a_webhook_requires_its_secret_and_the_run_does_not_get_it() {
    let server = Server::start();
    let path = hooked(&server).await;
    assert_eq!(call(&server, &path, &[], "{}").await.status, 401);
    assert_eq!(call(&server, &path, &[("x-webhook-secret", "hunter2")], "{}").await.status, 401);
    let sent = [("x-webhook-secret", "hunter2-and-more"), ("x-other", "kept")];
    let taken = call(&server, &path, &sent, "{\"a\": 1}").await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let created = server.store.lock().created.clone();
    assert_eq!(created.len(), 1);
    let said = format!("{:?} {}", created[0].fields, created[0].start);
    assert!(said.contains("X-Other") && !said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn a_webhook_call_to_a_full_shard_can_be_repeated_safely() {
    let server = Server::start();
    let path = hooked(&server).await;
    let headers = [("x-webhook-secret", "hunter2-and-more"), ("idempotency-key", "k")];
    server.store.lock().is_busy = true;
    let refused = call(&server, &path, &headers, "{}").await;
    assert_eq!((refused.status.as_u16(), &refused.headers["retry-after"]), (503, &"1".parse().unwrap()));
    let id = path.rsplit('/').next().unwrap();
    assert!(server.store.lock().fired[id].error.is_some());
    server.store.lock().is_busy = false;
    for _ in 0..2 {
        assert_eq!(call(&server, &path, &headers, "{}").await.status, 200);
    }
    assert_eq!(server.store.lock().created.len(), 1);
    assert_eq!(call(&server, &path, &headers, "{\"b\": 1}").await.status, 409);
}

#[tokio::test]
async fn triggers_are_listed_for_the_admin() {
    let server = Server::start();
    let path = hooked(&server).await;
    assert_eq!(server.get("wrong", "/api/v1/triggers").await.status, 401);
    let listed = server.get(ADMIN, "/api/v1/triggers").await.json();
    let shown = &listed["data"][0];
    assert_eq!((&shown["kind"], &shown["path"]), (&json!("webhook"), &json!(path)));
    assert_eq!((&shown["workflow"], &shown["node_id"]), (&json!("Hooked"), &json!("hook")));
}
