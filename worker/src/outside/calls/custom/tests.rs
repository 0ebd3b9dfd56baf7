//! Tests of registered Calls over HTTP and as programs.

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use tidemill_common::config::{CallsConfig, HttpConfig};
use tidemill_common::store::CatalogKind;

use crate::outside::calls::CallCatalog;
use crate::outside::calls::custom::*;
use crate::outside::calls::tests::key as sealing;
use crate::tests::fake::FakeJobs;

const MARKER: &str = "marker-never-to-be-seen";

fn calls(programs: Vec<String>) -> (Arc<FakeJobs>, Calls) {
    let jobs = FakeJobs::new();
    let environment = |name: &str| (name == "GREET_KEY").then(|| format!("env-{MARKER}"));
    let calls = Calls::new(jobs.clone(), Some(sealing()), environment, Duration::ZERO);
    let config = CallsConfig { programs, seconds_max: 20, ..CallsConfig::default() };
    (jobs, calls.with_client(&config, &HttpConfig::default()).unwrap())
}

fn manifest(transport: Json) -> Manifest {
    let of = json!({
        "info": {"en": {"name": "Greet", "description": "Says hello"}}, "streaming": true,
        "operations": ["init", "exec", "after_exec"], "transport": transport
    });
    serde_json::from_value(of).unwrap()
}

fn custom(transport: Json) -> Custom {
    Custom { id: "greet".into(), manifest: manifest(transport) }
}

async fn exec(custom: &Custom, calls: &Calls, input: Json) -> Result<Vec<Chunk>, CallError> {
    let mut chunks = Vec::new();
    let input = input.as_object().cloned().unwrap();
    let secrets = Secrets::default();
    custom.exec_by(calls, "key".into(), input, (&secrets, &mut |chunk| chunks.push(chunk))).await?;
    Ok(chunks)
}

type Seen = Arc<Mutex<Vec<(Json, HeaderMap)>>>;

/// Answers with the lines of the input, and with its status, if any.
async fn answer(State(seen): State<Seen>, headers: HeaderMap, body: String) -> impl IntoResponse {
    let body: Json = serde_json::from_str(&body).unwrap();
    seen.lock().unwrap().push((body.clone(), headers));
    let status = body["input"]["status"]
        .as_u64()
        .and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
    let text = match body["operation"].as_str() {
        Some("init") => json!({"input": {"greeting": body["params"]["who"]}}).to_string(),
        Some("exec") => body["input"]["lines"].as_str().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    (status.unwrap_or(StatusCode::OK), text)
}

async fn serve() -> (String, Seen) {
    let seen = Seen::default();
    let app = Router::new().route("/greet", post(answer)).with_state(seen.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/greet", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, seen)
}

#[tokio::test]
async fn se_34_a_call_over_http_makes_its_input_and_sends_pieces() {
    let (_, calls) = calls(Vec::new());
    let (url, seen) = serve().await;
    let greet = custom(
        json!({"type": "http", "url": url, "headers": {"X-Key": MARKER}, "headers_env": {"X-Other": "GREET_KEY"}}),
    );
    let body = json!({"operation": "init", "params": {"who": "you"}});
    let input = greet.init_by(&calls, "key".into(), body, &Secrets::default()).await.unwrap();
    assert_eq!(Json::Object(input), json!({"greeting": "you"}));
    let lines = format!(
        "{{\"type\":\"text\",\"content\":\"Hello \"}}\n{{\"type\":\"text\",\"content\":\"{MARKER}\"}}\n{{\"type\":\"data\",\"content\":{{\"a\":1}}}}\n"
    );
    let chunks = exec(&greet, &calls, json!({"lines": lines})).await.unwrap();
    let data = JsonMap::from_iter([("a".to_owned(), json!(1))]);
    assert_eq!(chunks, [Chunk::Text("Hello ".into()), Chunk::Text("***".into()), Chunk::Data(data)]);
    let seen = seen.lock().unwrap();
    let operations: Vec<&str> = seen.iter().map(|(body, _)| body["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["init", "exec", "after_exec"]);
    let header = |name: &str| seen[1].1[name].to_str().unwrap().to_owned();
    assert_eq!((header("x-key"), header("x-other")), (MARKER.to_owned(), format!("env-{MARKER}")));
    assert_eq!(header("idempotency-key"), "key");
    assert_eq!(seen[2].1["idempotency-key"], "key:after_exec", "no operation has the key of another");
}

#[tokio::test]
async fn se_a11_a_call_that_sends_42_is_a_type_error() {
    let (_, calls) = calls(Vec::new());
    let (url, _) = serve().await;
    let greet = custom(json!({"type": "http", "url": url}));
    let error = exec(&greet, &calls, json!({"lines": "42\n"})).await.unwrap_err();
    assert_eq!((error.error_type.as_str(), error.retryable), ("TypeError", false));
    let error = greet
        .init_by(&calls, "key".into(), json!({"operation": "other"}), &Secrets::default())
        .await
        .unwrap_err();
    assert_eq!(error.error_type, "TypeError");
}

#[tokio::test]
async fn a_call_that_is_away_may_be_tried_again_and_one_that_refuses_not() {
    let (_, calls) = calls(Vec::new());
    let (url, _) = serve().await;
    let greet = custom(json!({"type": "http", "url": url}));
    for (status, retryable) in [(503, true), (429, true), (400, false), (500, false)] {
        let lines = json!({"err_msg": "bad", "data": {"k": 1}}).to_string();
        let error = exec(&greet, &calls, json!({"status": status, "lines": lines})).await.unwrap_err();
        assert_eq!(error.retryable, retryable, "{status}");
        assert_eq!(error.object(), json!({"err_msg": "bad", "data": {"k": 1}}));
    }
    let gone = custom(json!({"type": "http", "url": "http://127.0.0.1:1/"}));
    assert!(exec(&gone, &calls, json!({})).await.unwrap_err().retryable);
}

/// A program that answers as its input says.
fn program(folder: &tempfile::TempDir) -> String {
    let file = folder.path().join("greet.py");
    let text = r#"#!/usr/bin/env python3
import json, os, sys
asked = json.loads(sys.stdin.readline())
if asked["operation"] == "init":
    print(json.dumps({"input": {"greeting": asked["params"]["who"]}}))
elif asked["operation"] == "exec":
    given = asked["input"]
    print("standard error", os.environ.get("TOKEN"), file=sys.stderr)
    for word in given.get("words", []):
        print(json.dumps({"type": "text", "content": word}), flush=True)
    if given.get("nonsense"):
        print("42", flush=True)
        while True:
            print("{}" * 100, flush=True)
    print(json.dumps({"type": "data", "content": {"token": os.environ.get("TOKEN"), "home": "REDIS" in os.environ}}))
    sys.exit(given.get("code", 0))
"#;
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    file.display().to_string()
}

#[tokio::test]
async fn se_34_a_program_is_a_call_where_the_worker_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(&folder);
    let transport = json!({"type": "process", "command": [file], "env": {"TOKEN": MARKER}});
    let greet = custom(transport);
    let (_, forbidden) = calls(Vec::new());
    let error = exec(&greet, &forbidden, json!({})).await.unwrap_err();
    assert_eq!(error.error_type, "ValueError");
    assert!(error.message.contains("calls.programs"), "{error}");

    let (_, calls) = calls(vec![file]);
    let body = json!({"operation": "init", "params": {"who": "you"}});
    assert_eq!(
        Json::Object(greet.init_by(&calls, "key".into(), body, &Secrets::default()).await.unwrap()),
        json!({"greeting": "you"})
    );
    let chunks = exec(&greet, &calls, json!({"words": ["a", "b"]})).await.unwrap();
    let data = json!({"token": "***", "home": false}).as_object().cloned().unwrap();
    assert_eq!(chunks, [Chunk::Text("a".into()), Chunk::Text("b".into()), Chunk::Data(data)]);
    let error = exec(&greet, &calls, json!({"code": 3})).await.unwrap_err();
    assert!(error.message.contains("exit status: 3"), "{error}");
    let error = exec(&greet, &calls, json!({"nonsense": true})).await.unwrap_err();
    assert_eq!(error.error_type, "TypeError", "it is not waited for: {error}");
}

#[tokio::test]
async fn xc_06_a_changed_manifest_serves_the_next_and_has_another_version() {
    let (jobs, calls) = calls(Vec::new());
    let keep = |name: &str| {
        let of = json!({
            "info": {"en": {"name": name, "description": "d"}}, "streaming": true, "operations": ["init", "exec"],
            "transport": {"type": "http", "url": "http://calls/greet"}, "branch": name == "second"
        });
        jobs.keep(CatalogKind::Call, "greet", of, &sealing());
    };
    keep("first");
    let (first, version) = calls.call("greet").await.unwrap().unwrap();
    assert_eq!((first.info(Language::Zh).name.as_str(), first.chooses()), ("first", false));
    keep("second");
    let (second, newer) = calls.call("greet").await.unwrap().unwrap();
    assert_eq!((second.info(Language::Zh).name.as_str(), second.chooses()), ("second", true));
    assert!(newer > version);
}
