//! Tests of the node with a local server.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::any;
use serde_json::{Value as Json, json};
use tidemill_common::config::HttpConfig;
use tidemill_common::files::{Files, Folder};
use tidemill_common::graph::builder::import;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::nodes::NodeData;
use tokio::net::TcpListener;

use super::*;
use crate::nodes::mock_server::Values;

/// A server and its received requests in order: headers and body.
struct Server {
    base: String,
    seen: Arc<Mutex<Vec<(HeaderMap, String)>>>,
}

async fn png() -> impl IntoResponse {
    ([("content-type", "image/png")], vec![0u8, 1, 2])
}

/// Bytes of an unknown type with the `Content-Disposition` that is its query.
async fn named(uri: Uri) -> impl IntoResponse {
    let disposition = uri.query().unwrap_or_default().replace('+', " ").replace("%27", "'");
    (
        [("content-type", "application/octet-stream".to_owned()), ("content-disposition", disposition)],
        vec![0u8, 255],
    )
}

async fn server() -> Server {
    let seen: Arc<Mutex<Vec<(HeaderMap, String)>>> = Arc::default();
    let noted = seen.clone();
    let take = move |headers: HeaderMap, body: Bytes| async move {
        let text = String::from_utf8_lossy(&body).into_owned();
        noted.lock().unwrap().push((headers, text));
        "ok"
    };
    let router = Router::new()
        .route("/", any(take))
        .route("/busy", any(|| async { (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "7")], "later") }))
        .route("/png", any(png))
        .route("/files/{name}", any(png))
        .route("/folder/", any(png))
        .route("/named", any(named))
        .route("/utf16", any(|| async { ([("content-type", "text/plain; charset=utf-16")], "h\0i\0") }))
        .route("/large", any(|| async { "x".repeat(2000) }))
        .route("/squid", any(|| async { (StatusCode::FORBIDDEN, [("server", "Squid/6")], "no") }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    Server { base, seen }
}

/// The parts for runs of a node.
struct Setting {
    http: Http,
    files: Folder,
    run: RunId,
    rules: AnswerRules,
    _folder: tempfile::TempDir,
}

fn setting() -> Setting {
    let config = HttpConfig {
        allow: vec!["127.0.0.1".into()],
        text_bytes_max: 1000,
        file_bytes_max: 100,
        ..HttpConfig::default()
    };
    let folder = tempfile::tempdir().unwrap();
    Setting {
        http: Http::new(&config).unwrap(),
        files: Folder::at(folder.path().to_str().unwrap()).unwrap(),
        run: RunId::generate(ShardId(0)),
        rules: AnswerRules::default(),
        _folder: folder,
    }
}

async fn run_with(setting: &Setting, changes: Json, values: Json, key: Option<&str>) -> NodeResult {
    let mut data = json!({
        "type": "http-request", "title": "H", "method": "post", "headers": "", "params": "",
        "authorization": {"type": "no-auth"},
    });
    for (name, value) in changes.as_object().unwrap() {
        data[name] = value.clone();
    }
    let document = json!({"graph": {
        "nodes": [{"id": "start", "data": {"type": "start", "title": "S", "variables": []}}, {"id": "h", "data": data}],
        "edges": [{"source": "start", "target": "h"}],
    }});
    let imported = import(document.to_string().as_bytes());
    let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
    let node = graph.node(graph.find("h").unwrap());
    let NodeData::HttpRequest(data) = &node.data else { panic!("{:?}", node.data) };
    let (http, files, run_id, rules) = (&setting.http, &setting.files, &setting.run, setting.rules);
    let means = Means { http, files, run: run_id, idempotency_key: key, rules };
    run(data, node, &Values(values), means).await
}

async fn run_node(changes: Json) -> NodeResult {
    run_with(&setting(), changes, json!({}), None).await
}

fn output(result: &NodeResult, name: &str) -> Json {
    result
        .outputs
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.value.clone())
        .unwrap_or_default()
}

fn failure(result: &NodeResult) -> (&str, &str) {
    let failure = result.failure.as_ref().expect("it failed");
    (&failure.error_type, &failure.message)
}

#[tokio::test]
async fn a_status_is_a_failure_only_where_failures_are_handled() {
    let Server { base, .. } = server().await;
    let url = format!("{base}/busy");
    let plain = run_node(json!({"url": url})).await;
    assert!(plain.failure.is_none());
    assert_eq!((output(&plain, "status_code"), output(&plain, "body")), (json!(503), json!("later")));
    let retried = json!({"url": url, "retry_config": {"retry_enabled": true, "max_retries": 1}});
    let retried = run_node(retried).await;
    assert_eq!(failure(&retried), ("HTTPResponseCodeError", "Request failed with status code 503"));
    assert_eq!(retried.failure.as_ref().and_then(|failure| failure.retry_after_ms), Some(7000));
    assert_eq!(output(&retried, "status_code"), 503);
    assert!(retried.process_data.contains_key("request"));
}

#[tokio::test]
async fn an_answer_that_is_a_file_is_kept_and_can_be_sent_on() {
    let Server { base, seen } = server().await;
    let setting = setting();
    let answered = run_with(&setting, json!({"url": format!("{base}/png")}), json!({}), None).await;
    let file = output(&answered, "files")[0].clone();
    assert_eq!(
        (&file["mime_type"], &file["size"], &file["type"]),
        (&json!("image/png"), &json!(3), &json!("image"))
    );
    let bytes = setting.files.read(file["reference"].as_str().unwrap(), 3).await.unwrap();
    assert_eq!((&bytes[..], output(&answered, "body")), (&[0u8, 1, 2][..], json!("")));
    let item = json!({"key": "f", "type": "file", "file": ["n", "file"]});
    let form = json!({"url": base, "body": {"type": "form-data", "data": [item, {"key": "t", "type": "text", "value": "v"}]}});
    let sent = run_with(&setting, form, json!({"n": {"file": file}}), None).await;
    assert!(sent.failure.is_none(), "{:?}", sent.failure);
    let (headers, body) = seen.lock().unwrap()[0].clone();
    assert!(headers["content-type"].to_str().unwrap().starts_with("multipart/form-data; boundary="));
    assert!(
        body.contains("name=\"t\"\r\n\r\nv\r\n--")
            && body.contains(
                "name=\"f\"; filename=\"png\"\r\nContent-Type: image/png\r\n\r\n\u{0}\u{1}\u{2}\r\n--"
            ),
        "{body:?}"
    );
}

#[tokio::test]
async fn a_file_has_the_name_that_its_server_gives() {
    let Server { base, seen } = server().await;
    let setting = setting();
    const DISPOSITION: &str = "attachment; filename=x.txt; filename*=UTF-8''%E6%B8%AF%E5%8F%A3.pdf";
    for (path, name, extension, kind) in [
        ("/png", "png", ".png", "image"),
        ("/files/%E6%B8%AF.png?x=1", "港.png", ".png", "image"),
        (&format!("/named?{}", DISPOSITION.replace(' ', "+")), "港口.pdf", ".pdf", "document"),
        ("/named?attachment;+filename=../a.DOCX", "a.DOCX", ".docx", "document"),
        ("/named?attachment;+filename=a.png", "a.png", ".png", "image"),
        ("/named?attachment", "named", ".bin", "document"),
    ] {
        let answered = run_with(&setting, json!({"url": format!("{base}{path}")}), json!({}), None).await;
        let file = output(&answered, "files")[0].clone();
        let have = json!([file["filename"], file["extension"], file["type"]]);
        assert_eq!(have, json!([name, extension, kind]), "{path} {:?}", answered.failure);
        let form = json!({"url": base, "body": {"type": "form-data", "data": [{"key": "f", "type": "file", "file": ["n", "file"]}]}});
        run_with(&setting, form, json!({"n": {"file": file}}), None).await;
        let (_, body) = seen.lock().unwrap().pop().unwrap();
        assert!(body.contains(&format!("name=\"f\"; filename=\"{name}\"\r\n")), "{body}");
    }
}

#[tokio::test]
async fn a_file_without_any_name_gets_one_with_the_ending_of_its_type() {
    let Server { base, .. } = server().await;
    let answered = run_node(json!({"url": format!("{base}/folder/")})).await;
    let name = output(&answered, "files")[0]["filename"].as_str().unwrap().to_owned();
    assert!(name.len() == 36 && name.ends_with(".png"), "{name}");
}

#[tokio::test]
async fn files_are_nameless_where_the_settings_say_so() {
    let Server { base, .. } = server().await;
    let setting =
        Setting { rules: AnswerRules { named_files: false, ..AnswerRules::default() }, ..setting() };
    let answered = run_with(&setting, json!({"url": format!("{base}/png")}), json!({}), None).await;
    let file = output(&answered, "files")[0].clone();
    assert_eq!(json!([file["filename"], file["extension"]]), json!([null, null]));
}

#[tokio::test]
async fn utf_16_without_a_mark_fails_as_on_dify() {
    let Server { base, .. } = server().await;
    let answered = run_node(json!({"url": format!("{base}/utf16")})).await;
    let message = "'utf-16' codec can't decode bytes in position 0-1: Stream does not start with BOM";
    assert_eq!(failure(&answered), ("WorkflowNodeError", message));
}

#[tokio::test]
async fn a_form_without_files_has_the_placeholder() {
    let Server { base, seen } = server().await;
    run_node(json!({"url": base, "body": {"type": "form-data", "data": [{"key": "a\"b", "type": "text", "value": "v"}]}})).await;
    let body = seen.lock().unwrap()[0].1.clone();
    assert!(
        body.contains("name=\"a%22b\"\r\n\r\nv\r\n") && body.contains("__multipart_placeholder__"),
        "{body:?}"
    );
}

#[tokio::test]
async fn the_key_of_an_attempt_is_sent_unless_the_workflow_has_one() {
    let Server { base, seen } = server().await;
    let setting = setting();
    run_with(&setting, json!({"url": base}), json!({}), Some("e-1")).await;
    run_with(&setting, json!({"url": base, "headers": "idempotency-key: own"}), json!({}), Some("e-1")).await;
    run_with(&setting, json!({"url": base}), json!({}), None).await;
    let seen = seen.lock().unwrap();
    let keys: Vec<_> = seen
        .iter()
        .map(|(headers, _)| headers.get("idempotency-key").map(|key| key.to_str().unwrap()))
        .collect();
    assert_eq!(keys, [Some("e-1"), Some("own"), None]);
}

#[tokio::test]
async fn failures_are_told_in_difys_classes() {
    let Server { base, .. } = server().await;
    for (changes, class, message, shown) in [
        (json!({"url": "", "method": "get"}), "InvalidURLError", "url is required", false),
        (
            json!({"url": base, "method": "OPTIONS"}),
            "InvalidHttpMethodError",
            "Invalid http method OPTIONS",
            true,
        ),
        (json!({"url": base, "headers": ": x"}), "HttpRequestNodeError", "Illegal header name b''", true),
        (
            json!({"url": format!("{base}/large")}),
            "ResponseSizeError",
            "Text size is too large, max size is 0.00 MB, but current size is 1.95 KB.",
            true,
        ),
        (
            json!({"url": "http://10.0.0.1/x"}),
            "WorkflowNodeError",
            "Access to 'http://10.0.0.1/x' was blocked by SSRF protection. 10.0.0.1 is a private address; http.allow names what the guard lets through (http.guard)",
            false,
        ),
    ] {
        let result = run_node(changes.clone()).await;
        assert_eq!(failure(&result), (class, message), "{changes}");
        assert_eq!(result.process_data.contains_key("request"), shown, "{changes}");
    }
}

#[tokio::test]
async fn users_of_an_address_become_a_header_and_framing_is_ours() {
    let Server { base, seen } = server().await;
    let url = base.replace("http://", "http://u%40x:p+w@");
    run_node(json!({"url": url, "headers": "Content-Length: 99\nTransfer-Encoding: chunked", "body": {"type": "raw-text", "data": "hi"}})).await;
    let (headers, body) = seen.lock().unwrap()[0].clone();
    assert_eq!((headers["authorization"].to_str().unwrap(), body.as_str()), ("Basic dUB4OnArdw==", "hi"));
    assert_eq!(headers["content-length"], "2");
}
