use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tidemill_common::config::Config;

use super::fixtures::{ADMIN, Server, request};

#[tokio::test]
async fn each_api_accepts_only_its_own_kind_of_key() {
    let server = Server::start();
    let (_, app) = server.app().await;
    let missing = "Authorization header must be provided and start with 'Bearer'";
    for (path, header, status, message) in [
        ("/api/v1/apps", None, 401, missing),
        ("/api/v1/apps", Some("Bearer wrong".to_string()), 401, "Access token is invalid"),
        ("/api/v1/apps", Some(format!("Bearer {app}")), 401, "Access token is invalid"),
        ("/api/v1/apps", Some(format!("Bearer {ADMIN}")), 200, ""),
        ("/v1/info", None, 401, missing),
        ("/v1/info", Some(format!("Basic {app}")), 401, "Authorization scheme must be 'Bearer'"),
        ("/v1/info", Some(format!("Bearer {ADMIN}")), 401, "Access token is invalid"),
        ("/v1/info", Some(format!("Bearer {app}")), 200, ""),
    ] {
        let mut request = Request::get(path);
        if let Some(header) = &header {
            request = request.header("authorization", header);
        }
        let answer = server.ask(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, status, "{path} {header:?}");
        if status == 401 {
            assert_eq!(answer.json(), json!({"code": "unauthorized", "message": message, "status": 401}));
            assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"api\"");
        }
    }
}

#[tokio::test]
async fn without_an_admin_key_our_own_api_is_closed() {
    let server = Server::with(Config::default());
    let answer = server.get("", "/api/v1/runs").await;
    assert_eq!((answer.status.as_u16(), answer.json()["code"].as_str()), (403, Some("forbidden")));
}

#[tokio::test]
async fn every_error_is_json_with_code_message_and_status() {
    let server = Server::start();
    let (_, app) = server.app().await;
    let large = "x".repeat(200_001);
    let bad_json = "Invalid JSON payload received or JSON payload is empty.";
    let post = "POST";
    for (method, key, path, body, status, code, message) in [
        ("GET", ADMIN, "/nowhere", "", 404, "not_found", "there is no GET /nowhere"),
        ("GET", ADMIN, "/api/v1/nowhere", "", 404, "not_found", "there is no GET /api/v1/nowhere"),
        ("GET", &app, "/v1/nowhere", "", 404, "not_found", "The requested URL was not found on the server."),
        (
            "DELETE",
            &app,
            "/v1/info",
            "",
            405,
            "method_not_allowed",
            "The method is not allowed for the requested URL.",
        ),
        (
            post,
            &app,
            "/v1/workflows/run",
            &large,
            413,
            "request_entity_too_large",
            "exceeds the capacity limit.",
        ),
        ("DELETE", ADMIN, "/api/v1/runs", "", 405, "method_not_allowed", "/api/v1/runs does not take DELETE"),
        (post, ADMIN, "/api/v1/runs", "{", 400, "bad_request", "the request body is not JSON"),
        (post, ADMIN, "/api/v1/runs", "[]", 400, "bad_request", "the request body must be a JSON object"),
        (post, ADMIN, "/api/v1/runs", "{}", 400, "invalid_param", "app or workflow is required"),
        (
            post,
            ADMIN,
            "/api/v1/runs",
            &large,
            413,
            "request_too_large",
            "scheduler.request_bytes_max (200000 bytes)",
        ),
        (post, ADMIN, "/api/v1/runs", r#"{"app":"none"}"#, 404, "not_found", "there is no app none"),
        (post, ADMIN, "/api/v1/runs", r#"{"app":7}"#, 400, "invalid_param", "app must be a string"),
        (post, ADMIN, "/api/v1/apps", "a: [", 422, "invalid_workflow", ""),
        ("GET", ADMIN, "/api/v1/runs/x", "", 404, "not_found", "Workflow run not found."),
        ("GET", ADMIN, "/api/v1/runs?limit=0", "", 400, "invalid_param", "limit must be 1 to 100"),
        (
            "GET",
            ADMIN,
            "/api/v1/runs?status=odd",
            "",
            400,
            "invalid_param",
            "status must be one of scheduled",
        ),
        (post, &app, "/v1/workflows/run", "", 400, "bad_request", bad_json),
        (post, &app, "/v1/workflows/run", "{}", 400, "invalid_param", "Arg user must be provided."),
        (post, &app, "/v1/workflows/run", r#"{"user":"u"}"#, 400, "invalid_param", "inputs is required"),
        (
            post,
            &app,
            "/v1/workflows/run",
            r#"{"user":"u","inputs":[]}"#,
            400,
            "invalid_param",
            "inputs must be an object",
        ),
        (
            post,
            &app,
            "/v1/workflows/run",
            r#"{"user":"u","inputs":{},"response_mode":"x"}"#,
            400,
            "invalid_param",
            "response_mode",
        ),
        (
            post,
            &app,
            "/v1/workflows/run",
            r#"{"user":"u","inputs":{}}"#,
            400,
            "invalid_param",
            "name is required in input form",
        ),
        ("GET", &app, "/v1/workflows/run/x", "", 404, "not_found", "Workflow run not found."),
        ("GET", &app, "/v1/workflow/x/events", "", 400, "invalid_param", "Arg user must be provided."),
        ("GET", &app, "/v1/workflow/x/events?user=u", "", 404, "not_found", "Workflow run not found"),
    ] {
        let answer = server.ask(request(method, key, path, body)).await;
        let said = answer.json();
        assert_eq!(
            (answer.status.as_u16(), said["code"].as_str()),
            (status, Some(code)),
            "{path} {}",
            answer.text
        );
        assert!(said["message"].as_str().unwrap().contains(message), "{path} {}", answer.text);
        assert_eq!(said["status"], status);
    }
}

#[tokio::test]
async fn a_body_that_is_not_utf_8_is_refused_as_such() {
    let server = Server::start();
    let mut request = request("POST", ADMIN, "/api/v1/runs", "");
    *request.body_mut() = Body::from(vec![b'{', 0xff, b'}']);
    let answer = server.ask(request).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["message"]),
        (400, &json!("the request body is not UTF-8"))
    );
}

#[tokio::test]
async fn a_response_carries_the_clients_request_id_or_a_new_one() {
    let server = Server::start();
    for (given, is_kept) in [("trace-1", true), ("a b", false)] {
        let mut request = request("GET", ADMIN, "/livez", "");
        request.headers_mut().insert("x-request-id", given.parse().unwrap());
        let answer = server.ask(request).await;
        assert_eq!(answer.headers["x-request-id"] == given, is_kept);
    }
}
