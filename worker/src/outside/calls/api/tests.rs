//! Tests of `API` with a server that records its requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::IntoResponse;
use tidemill_common::config::{CallsConfig, HttpConfig};
use tidemill_common::store::CatalogKind;

use crate::outside::calls::api::*;
use crate::outside::calls::tests::key;
use crate::tests::fake::FakeJobs;

const MARKER: &str = "marker-never-to-be-seen";

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Request>>>);

/// A received request.
type Request = (Method, Uri, HeaderMap, String);

/// Answers by path: `/404/gone` returns 404 with `gone`, `/echo` the request's body, `/token` a token.
async fn answer(
    State(seen): State<Seen>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let body = String::from_utf8_lossy(&body).into_owned();
    seen.0.lock().unwrap().push((method.clone(), uri.clone(), headers.clone(), body.clone()));
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    match uri.path().split('/').nth(1) {
        Some("echo") => {
            let all: Vec<String> =
                ["x-key", "cookie", "access-token"].iter().map(|name| header(name)).collect();
            let text = json!({"query": uri.query(), "headers": all, "body": body});
            (StatusCode::OK, text.to_string())
        }
        Some("openapi") => (
            StatusCode::OK,
            json!({"openapi": "3.0.0", "paths": {"/echo/{id}": {"get": {"operationId": "one"}}}}).to_string(),
        ),
        Some("token") => (
            StatusCode::OK,
            json!({"access_token": format!("given-{MARKER}"), "expires_in": 3600}).to_string(),
        ),
        Some(code) => {
            let code = StatusCode::from_bytes(code.as_bytes()).unwrap_or(StatusCode::OK);
            (code, uri.path().split('/').nth(2).unwrap_or_default().replace("%3C", "<").replace("%3E", ">"))
        }
        None => (StatusCode::OK, String::new()),
    }
}

struct Bench {
    seen: Seen,
    server: String,
    jobs: Arc<FakeJobs>,
    calls: Calls,
    http: Http,
}

impl Bench {
    async fn new() -> Self {
        let seen = Seen::default();
        let app = Router::new().fallback(answer).with_state(seen.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let jobs = FakeJobs::new();
        let environment = |name: &str| (name == "SVC_KEY").then(|| format!("env-{MARKER}"));
        let calls = Calls::new(jobs.clone(), Some(key()), environment, Duration::ZERO);
        let config = HttpConfig { guard: false, ..HttpConfig::default() };
        let calls = calls.with_client(&CallsConfig::default(), &config).unwrap();
        Self { seen, server, jobs, calls, http: Http::new(&config).unwrap() }
    }
    async fn call(&self, input: Json) -> Result<Json, CallError> {
        self.by(input, None).await
    }
    async fn by(&self, mut input: Json, service: Option<&str>) -> Result<Json, CallError> {
        if let Some(path) = input["url"].as_str().filter(|url| url.starts_with('/') && service.is_none()) {
            input["url"] = format!("{}{path}", self.server).into();
        }
        let means = Means { calls: &self.calls, http: &self.http, service, key: None };
        perform(means, input.as_object().unwrap()).await.map(Json::Object)
    }
    async fn refused(&self, input: Json) -> CallError {
        self.call(input).await.unwrap_err()
    }
    fn count(&self) -> usize {
        self.seen.0.lock().unwrap().len()
    }
}

#[tokio::test]
async fn se_a16_an_answer_is_its_json_or_an_error_of_its_kind() {
    let bench = Bench::new().await;
    let gone = bench.refused(json!({"url": "/404/gone"})).await;
    assert_eq!((gone.error_type.as_str(), gone.retryable), ("ApiStatusError", false));
    assert_eq!((&gone.data["api_response_data"], &gone.data["http_code"]), (&json!("gone"), &json!(404)));
    assert_eq!(bench.call(json!({"url": "/204/"})).await.unwrap(), json!({"http_code": 204, "result": {}}));
    assert_eq!(bench.call(json!({"url": "/200/7"})).await.unwrap()["result"], 7);
    let html = bench.refused(json!({"url": "/200/%3Chtml%3E"})).await;
    assert_eq!((html.error_type.as_str(), html.retryable), ("ApiResponseNotJson", false));
    let text = bench.call(json!({"url": "/200/%3Chtml%3E", "accept_text": true})).await.unwrap();
    assert_eq!(text["result"], "<html>");

    let before = bench.count();
    let missing = bench.refused(json!({"url": "/echo", "method": "post", "body": {"a": 1}})).await;
    assert_eq!(missing.error_type, "ApiContentTypeMissing");
    let short = bench.refused(json!({"url": "/echo", "timeout": 20})).await;
    assert!(short.message.contains("more than 30 seconds"), "{short}");
    assert_eq!(bench.count(), before, "nothing was sent");
}

#[tokio::test]
async fn se_a16_only_what_may_be_repeated_is_tried_again() {
    let bench = Bench::new().await;
    let json = "application/json";
    for (input, retryable) in [
        (json!({"url": "/503/", "method": "get"}), true),
        (json!({"url": "/503/", "method": "delete"}), true),
        (json!({"url": "/503/", "method": "put", "content_type": json}), true),
        (json!({"url": "/503/", "method": "post", "content_type": json}), false),
        (json!({"url": "/503/", "method": "patch", "content_type": json}), false),
        (json!({"url": "/503/", "method": "post", "content_type": json, "idempotent": true}), true),
        (json!({"url": "/429/", "method": "get"}), false),
        (json!({"url": "http://127.0.0.1:1/", "method": "get"}), true),
        (json!({"url": "http://127.0.0.1:1/", "method": "post", "content_type": json}), false),
    ] {
        let error = bench.refused(input.clone()).await;
        assert_eq!(error.retryable, retryable, "{input}: {error:?}");
    }
}

#[tokio::test]
async fn xc_07_credentials_reach_the_server_of_their_service_and_are_seen_nowhere() {
    let bench = Bench::new().await;
    let auth = json!({
        "header": [{"name": "X-Key", "value": format!("Bearer {MARKER}")}],
        "cookie": [{"name": "sid", "value": MARKER}],
        "query": [{"name": "key", "value_env": "SVC_KEY"}],
        "oidc": {"token_url": format!("{}/token", bench.server), "client_id": "me", "client_secret": MARKER}
    });
    let service = json!({"server": bench.server, "auth": auth});
    bench.jobs.keep(CatalogKind::Service, "svc", service, &key());
    for (method, body) in [("get", json!(null)), ("delete", json!(null)), ("post", json!({"a": 1}))] {
        let input = json!({"url": "/echo", "method": method, "content_type": "application/json", "body": body, "query": {"q": "x"}});
        let answer = bench.by(input, Some("svc")).await.unwrap();
        assert!(!answer.to_string().contains(MARKER), "{answer}");
        let seen = bench.seen.0.lock().unwrap();
        let (_, uri, headers, _) = seen.last().unwrap();
        assert_eq!(uri.query().unwrap(), format!("q=x&key=env-{MARKER}"));
        let header = |name: &str| headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-key"), format!("Bearer {MARKER}"));
        assert_eq!(header("cookie"), format!("sid={MARKER}"));
        assert_eq!(header("access-token"), format!("given-{MARKER}"));
    }
    let tokens = bench.seen.0.lock().unwrap().iter().filter(|(_, uri, ..)| uri.path() == "/token").count();
    assert_eq!(tokens, 1, "a token is used while it lasts");
    let error = bench.by(json!({"url": format!("/404/{MARKER}")}), Some("svc")).await.unwrap_err();
    assert!(!format!("{error:?}").contains(MARKER), "{error:?}");
    let error = bench.by(json!({"url": "http://localhost:1/"}), Some("svc")).await.unwrap_err();
    assert_eq!(error.error_type, "ServiceMetadataError", "{error}");
    let error = bench.by(json!({"url": "/x"}), Some("nowhere")).await.unwrap_err();
    assert_eq!(error.error_type, "ServiceMetadataError", "{error}");
}

#[tokio::test]
async fn a_document_is_kept_with_its_service_or_fetched_and_read_once() {
    let bench = Bench::new().await;
    let document = json!({"openapi": "3.0.0", "paths": {"/echo/{id}": {"get": {"operationId": "one"}}}});
    let yaml = "openapi: '3.0.0'\npaths: {/echo/{id}: {get: {operationId: one}}}".replace("{id}", "i");
    let of = async |service: Json| {
        bench.jobs.keep(CatalogKind::Service, "svc", service, &key());
        let service = bench.calls.service("svc").await.unwrap();
        documents::document(&bench.calls, "svc", &service).await
    };
    assert_eq!(*of(json!({"server": bench.server, "openapi": document})).await.unwrap(), document);
    let read = of(json!({"server": bench.server, "openapi": yaml})).await.unwrap();
    assert_eq!(read["paths"]["/echo/i"]["get"]["operationId"], "one");
    let error = of(json!({"server": bench.server})).await.unwrap_err();
    assert_eq!((error.error_type.as_str(), error.retryable), ("ServiceMetadataError", false));
    assert!(error.message.contains("openapi_url"), "{error}");
    let error = of(json!({"server": bench.server, "openapi_url": format!("{}/503/x", bench.server)}))
        .await
        .unwrap_err();
    assert_eq!((error.error_type.as_str(), error.retryable), ("ServiceMetadataError", true));
    let fetched = json!({"server": bench.server, "openapi_url": format!("{}/openapi", bench.server)});
    let before = bench.count();
    assert_eq!(of(fetched).await.unwrap()["paths"], document["paths"]);
    let service = bench.calls.service("svc").await.unwrap();
    documents::document(&bench.calls, "svc", &service).await.unwrap();
    assert_eq!(bench.count(), before + 1, "it is fetched once");
}

#[tokio::test]
async fn parameters_of_a_path_stand_in_it_and_lead_nowhere_else() {
    let bench = Bench::new().await;
    let input = |id: Json| json!({"url": "/echo/{id}/x", "path": {"id": id}});
    bench.call(input(json!("a/b ?#ü"))).await.unwrap();
    bench.call(input(json!(7))).await.unwrap();
    let paths: Vec<String> =
        bench.seen.0.lock().unwrap().iter().map(|seen| seen.1.path().to_owned()).collect();
    assert_eq!(paths, ["/echo/a%2Fb%20%3F%23%C3%BC/x", "/echo/7/x"]);
    let nothing = json!({"url": "/echo/{id}", "path": {}});
    assert!(bench.refused(nothing).await.message.contains("path.id is required"));
    for wrong in ["..", ".", ""] {
        assert!(bench.refused(input(json!(wrong))).await.message.contains("path.id"), "{wrong:?}");
    }
}
