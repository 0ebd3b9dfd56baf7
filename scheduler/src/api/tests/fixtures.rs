//! A server over the fake store, and functions to send requests to it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::{Value as Json, json};
use tidemill_common::config::Config;
use tidemill_common::graph::{Graph, import};
use tidemill_common::ids::RunId;
use tidemill_common::store::Runs;
use tidemill_common::telemetry;
use tokio::sync::watch;
use tower::ServiceExt;

use super::fake::FakeStore;
use crate::api::{ApiState, router};
use crate::shards::liveness::Liveness;
use crate::stopping::Stage;
use crate::workflows::Workflows;

pub(crate) const ADMIN: &str = "admin-key";

/// A workflow with a start node (one text) and an end node.
pub(crate) const GREETER: &str = "
kind: app
version: 0.6.0
app: {mode: workflow, name: Greeter, description: says hello}
workflow:
  environment_variables:
  - {name: TOKEN, value_type: secret, value: hunter2-and-more}
  conversation_variables: []
  graph:
    nodes:
    - {id: start, data: {type: start, title: Begin, variables: [{variable: name, label: Name, type: paragraph, required: true, max_length: 100000}, {variable: size, label: Size, type: number, required: false}]}}
    - {id: end, data: {type: end, title: Finish, outputs: [{variable: text, value_selector: [start, name]}]}}
    edges:
    - {id: e1, source: start, target: end, sourceHandle: source, targetHandle: target}
";

pub(crate) fn graph() -> Arc<Graph> {
    let imported = import(GREETER.as_bytes());
    Arc::new(imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics)))
}

pub(crate) fn config() -> Config {
    let mut config = Config::default();
    config.scheduler.admin_key = ADMIN.into();
    config.scheduler.secret_key = "a passphrase".into();
    config.scheduler.request_bytes_max = 200_000;
    config.scheduler.grace_seconds = 0;
    config
}

pub(crate) struct Server {
    pub(crate) store: Arc<FakeStore>,
    pub(crate) state: ApiState,
    pub(crate) shutdown: watch::Sender<Stage>,
    router: Router,
}

pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) text: String,
}

impl HttpResponse {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(config())
    }
    pub(crate) fn with(config: Config) -> Self {
        let store = Arc::new(FakeStore::default());
        Self::over(config, store.clone(), store)
    }
    /// Starts a server over any store. `fake` is only for tests that use it.
    pub(crate) fn over(config: Config, store: Arc<dyn Runs>, fake: Arc<FakeStore>) -> Self {
        let (shutdown, is_closing) = watch::channel(Stage::Serving);
        let metrics = telemetry::start_metrics();
        let (key, liveness) = (config.scheduler.sealing_key(), Arc::new(Liveness::default()));
        let workflows = Arc::new(Workflows::new(&config, key.clone()));
        let state = ApiState::new(store, Arc::new(config), metrics, liveness, is_closing, workflows, key);
        Self { store: fake, router: router(state.clone()), state, shutdown }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }
    pub(crate) async fn ask(&self, request: Request<Body>) -> HttpResponse {
        let response = self.send(request).await;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        HttpResponse { status, headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }
    pub(crate) async fn get(&self, key: &str, path: &str) -> HttpResponse {
        self.ask(request("GET", key, path, "")).await
    }
    pub(crate) async fn post(&self, key: &str, path: &str, body: &Json) -> HttpResponse {
        self.ask(request("POST", key, path, &body.to_string())).await
    }
    /// Registers the greeter. Returns its id and its key.
    pub(crate) async fn app(&self) -> (String, String) {
        let answer = self.ask(request("POST", ADMIN, "/api/v1/apps", GREETER)).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let text = |key: &str| answer.json()[key].as_str().unwrap().to_string();
        (text("id"), text("key"))
    }
    /// Submits a run of an app through our own API.
    pub(crate) async fn run(&self, app: &str) -> RunId {
        let body = json!({"app": app, "inputs": {"name": "Ada"}, "user": "u"});
        let answer = self.post(ADMIN, "/api/v1/runs", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()["id"].as_str().unwrap().parse().unwrap()
    }
}

pub(crate) fn request(method: &str, key: &str, path: &str, body: &str) -> Request<Body> {
    let builder =
        Request::builder().method(method).uri(path).header("authorization", format!("Bearer {key}"));
    builder.body(Body::from(body.to_string())).unwrap()
}

/// A request for the events after an id.
pub(crate) fn resume(key: &str, path: &str, last: &str) -> Request<Body> {
    let mut request = request("GET", key, path, "");
    request.headers_mut().insert("last-event-id", last.parse().unwrap());
    request
}

/// The frames of a stream as (id, event, data).
pub(crate) fn frames(text: &str) -> Vec<(Option<&str>, Option<&str>, Json)> {
    let frame = |block| {
        let part = |name: &str| {
            let lines: Vec<&str> = str::lines(block).collect();
            lines.iter().find_map(|line| line.strip_prefix(name))
        };
        let data = part("data: ").map_or(Json::Null, |data| serde_json::from_str(data).unwrap());
        (part("id: "), part("event: "), data)
    };
    text.split("\n\n").filter(|block| !block.is_empty() && *block != ": ping").map(frame).collect()
}
