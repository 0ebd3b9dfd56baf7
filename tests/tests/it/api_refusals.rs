//! Wrong requests: every refusal has its status, its code, and a message that names the problem.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;

use super::system;

fn refused(what: &str, answer: &HttpResponse, status: u16, code: &str, parts: &[&str]) {
    assert_eq!(
        (answer.status, answer.body["code"].as_str()),
        (status, Some(code)),
        "{what}: {}",
        answer.text
    );
    assert_eq!(answer.body["status"], status, "{what}: the body repeats the status: {}", answer.text);
    let message = answer.body["message"].as_str().unwrap_or_default();
    for part in parts {
        assert!(message.contains(part), "{what}: the message names {part:?}: {message}");
    }
}

/// All cases share one system, one after the other, because no request here changes anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_request_is_refused_with_its_reason() {
    let model = llm::slow(&["x"], 0).await;
    let system = system(&[], &model).await;
    let admin = &system.client;
    keys(admin).await;
    workflows(admin).await;
    runs(admin).await;
    inputs(admin).await;
    paths(admin).await;
    assert_eq!(admin.get("/api/v1/runs").await.body["data"], json!([]), "nothing was created");
}

async fn keys(admin: &Client) {
    for (key, said) in
        [(None, "Bearer"), (Some("wrong"), "invalid"), (Some("app-000000000000000000000000"), "invalid")]
    {
        let client = admin.with_key(key);
        let body = json!({"inputs": {}, "user": "u"});
        let what = format!("key {key:?}");
        refused(&what, &client.get("/api/v1/runs").await, 401, "unauthorized", &[said]);
        refused(&what, &client.post("/v1/workflows/run", &body).await, 401, "unauthorized", &[said]);
    }
    let (_, app) = admin.register(&Flow::new("start -> end")).await;
    refused("an app's key for the admin", &app.get("/api/v1/runs").await, 401, "unauthorized", &[]);
    for open in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(admin.with_key(None).get(open).await.status, 200, "{open} needs no key");
    }
}

async fn workflows(admin: &Client) {
    let import = async |kind: &str, text: Vec<u8>| {
        let request = admin.request(Method::POST, "/api/v1/apps").header("content-type", kind).body(text);
        admin.send(request).await
    };
    let broken = import("text/yaml", b"app:\n  name: [unclosed\nkind: app\n".to_vec()).await;
    refused("broken YAML", &broken, 422, "invalid_workflow", &[]);
    let first = &broken.body["diagnostics"][0];
    assert_eq!(first["code"], "parse.invalid_yaml", "{}", broken.text);
    assert!(
        first["line"].as_u64().is_some_and(|line| line >= 2),
        "the message has the line: {}",
        broken.text
    );

    let large = vec![b'#'; 50 * 1024 * 1024];
    let large = import("text/yaml", large).await;
    refused("50 MB", &large, 413, "request_too_large", &["request_bytes_max"]);

    let cycle = Flow::new("start -> a -> b -> a").text().into_bytes();
    let cycle =
        import("application/json", json!({"workflow": String::from_utf8_lossy(&cycle)}).to_string().into())
            .await;
    refused("a cycle", &cycle, 422, "invalid_workflow", &["cycle"]);
    let first = cycle.body["diagnostics"].as_array().into_iter().flatten().find(|d| d["severity"] == "error");
    assert_eq!(first.map(|d| &d["code"]), Some(&json!("graph.validation_failed")), "{}", cycle.text);
    let binary = import("text/yaml", vec![0xff, 0xfe, 0x00]).await;
    assert_eq!(binary.status, 422, "{}", binary.text);
}

async fn runs(admin: &Client) {
    let flow = Flow::new("start -> end").text();
    let cases: [(Json, u16, &str, &[&str]); 8] = [
        (json!({}), 400, "invalid_param", &["app", "workflow"]),
        (json!({"app": "nobody"}), 404, "not_found", &[]),
        (json!({"workflow": flow, "app": "a"}), 400, "invalid_param", &["exclude"]),
        (json!({"workflow": flow, "input": {}}), 400, "invalid_param", &["input"]),
        (json!({"workflow": flow, "inputs": []}), 400, "invalid_param", &["inputs", "object"]),
        (
            json!({"workflow": flow, "options": {"max_step": 1}}),
            400,
            "invalid_param",
            &["max_step", "max_steps"],
        ),
        (json!({"workflow": flow, "options": {"max_steps": 0}}), 400, "invalid_param", &["max_steps"]),
        (json!({"workflow": 7}), 400, "invalid_param", &["workflow", "string"]),
    ];
    for (body, status, code, parts) in cases {
        refused(&body.to_string(), &admin.post("/api/v1/runs", &body).await, status, code, parts);
    }
    let request = admin.request(Method::POST, "/api/v1/runs").header("content-type", "application/json");
    refused("no JSON", &admin.send(request.body("{\"workflow\": ")).await, 400, "bad_request", &["JSON"]);
}

async fn inputs(admin: &Client) {
    let form = json!([
        {"variable": "name", "label": "Name", "type": "text-input", "required": true, "max_length": 5},
        {"variable": "count", "label": "Count", "type": "number", "required": false},
        {"variable": "color", "label": "Color", "type": "select", "required": false, "options": ["red"]},
    ]);
    let flow = Flow::new("start -> end").with("start", json!({"variables": form}));
    let (_, app) = admin.register(&flow).await;
    let cases: [(Json, &[&str]); 4] = [
        (json!({}), &["name"]),
        (json!({"name": "too long a name"}), &["name", "5"]),
        (json!({"name": "a", "count": "many"}), &["count"]),
        (json!({"name": "a", "color": "blue"}), &["color"]),
    ];
    for (inputs, parts) in cases {
        let what = inputs.to_string();
        let own =
            admin.post("/api/v1/runs", &json!({"workflow": flow.text(), "inputs": inputs.clone()})).await;
        refused(&what, &own, 400, "invalid_param", parts);
        let body = json!({"inputs": inputs.clone(), "user": "u", "response_mode": "blocking"});
        refused(&what, &app.post("/v1/workflows/run", &body).await, 400, "invalid_param", parts);
        // On Dify the stream is already open when inputs are checked.
        let body = json!({"inputs": inputs, "user": "u", "response_mode": "streaming"});
        let streamed = app.post("/v1/workflows/run", &body).await.text;
        let said = streamed.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
        let event: Json = serde_json::from_str(said).unwrap_or_default();
        let message = event["message"].as_str().unwrap_or_default();
        assert!(event["event"] == "error" && parts.iter().all(|p| message.contains(p)), "{what}: {streamed}");
    }
    let nobody =
        app.post("/v1/workflows/run", &json!({"inputs": {"name": "a"}, "response_mode": "blocking"})).await;
    assert_eq!(nobody.status, 400, "user is required: {}", nobody.text);
}

async fn paths(admin: &Client) {
    let (_, app) = admin.register(&Flow::new("start -> end")).await;
    for id in ["0199c0de-0000-7000-8000-000000000001", "no-uuid"] {
        refused(id, &admin.get(&format!("/api/v1/runs/{id}")).await, 404, "not_found", &["not found"]);
        refused(id, &admin.get(&format!("/api/v1/runs/{id}/events")).await, 404, "not_found", &[]);
        refused(id, &app.get(&format!("/v1/workflows/run/{id}")).await, 404, "not_found", &[]);
        let stop = admin.post(&format!("/api/v1/runs/{id}/commands"), &json!({"command": "stop"})).await;
        refused(id, &stop, 404, "not_found", &[]);
    }
    refused("no route", &admin.get("/api/v2/runs").await, 404, "not_found", &["/api/v2/runs"]);
    let method = admin.send(admin.request(Method::DELETE, "/api/v1/runs")).await;
    refused("a wrong method", &method, 405, "method_not_allowed", &["DELETE"]);
    let method = app.get("/v1/workflows/run").await;
    let dify = "The method is not allowed for the requested URL.";
    refused("a wrong method", &method, 405, "method_not_allowed", &[dify]);
    let nowhere = app.get("/v1/nowhere").await;
    refused("no route", &nowhere, 404, "not_found", &["The requested URL was not found on the server."]);
    let large =
        app.post("/v1/workflows/run", &json!({"inputs": {"a": "x".repeat(20 << 20)}, "user": "u"})).await;
    let dify = "The data value transmitted exceeds the capacity limit.";
    refused("20 MB", &large, 413, "request_entity_too_large", &[dify]);
}
