//! A client of the scheduler's HTTP API for tests. It hides nothing: tests can look at statuses, headers and raw
//! streams.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value as Json, json};

use crate::check::{Event, Transcript};
use crate::described;
use crate::flow::Flow;
use crate::sse::Messages;
use crate::wait::{LONG, until};

/// Statuses of runs that have ended.
const OVER: [&str; 4] = ["succeeded", "partial-succeeded", "failed", "stopped"];

/// Talks to one scheduler, with one API key.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
    /// Its answers are compared with the description of the API.
    is_described: bool,
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: HeaderMap,
    /// Null when the body is not JSON.
    pub body: Json,
    /// The body as received.
    pub text: String,
}

impl Client {
    /// Makes a client for a scheduler at `host:port`.
    pub fn new(address: &str, key: Option<&str>) -> Self {
        // Only the first call in a process takes effect; it does not matter which one that is.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().tls_certs_only([]).build().expect("a client without TLS");
        Self { http, base: format!("http://{address}"), key: key.map(Into::into), is_described: true }
    }

    /// A client whose answers are not compared with the description: it talks to something else than the API of a scheduler,
    /// or to a scheduler whose data a test has broken.
    #[must_use]
    pub fn undescribed(self) -> Self {
        Self { is_described: false, ..self }
    }

    /// Makes a client for a scheduler with TLS at `host:port`, whose authority is in this PEM file.
    ///
    /// # Panics
    /// When the file holds no certificate.
    pub fn secured(address: &str, key: Option<&str>, ca_file: &str) -> Self {
        let plain = Self::new(address, key);
        let pem = std::fs::read(ca_file).expect("the certificate of the authority");
        let authority = reqwest::Certificate::from_pem(&pem).expect("a certificate");
        // Each request has its own connection, so it sees the certificate of the moment.
        let http =
            reqwest::Client::builder().tls_certs_only([authority]).pool_max_idle_per_host(0).tls_info(true);
        Self { http: http.build().expect("a client"), base: format!("https://{address}"), ..plain }
    }

    /// Makes a client for the same scheduler with another key, or without one.
    pub fn with_key(&self, key: Option<&str>) -> Self {
        Self { key: key.map(Into::into), ..self.clone() }
    }

    /// The API key that it sends.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Begins a request with the key set.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a request.
    ///
    /// # Panics
    /// When the scheduler does not answer.
    pub async fn send(&self, request: RequestBuilder) -> HttpResponse {
        let (http, request) = request.timeout(LONG).build_split();
        let request = request.expect("the request can be sent");
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let is_json = kind(request.headers()).starts_with("application/json");
        let sent =
            request.body().and_then(reqwest::Body::as_bytes).filter(|_| is_json).unwrap_or_default().to_vec();
        let response = http.execute(request).await.expect("the scheduler answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("the answer is complete");
        // A compressed body is not read here.
        if self.is_described && !headers.contains_key("content-encoding") {
            described::check(method.as_str(), &path, status, kind(&headers), &text);
        }
        if self.is_described && (200..300).contains(&status) && !sent.is_empty() {
            described::check_accepted(method.as_str(), &path, &sent);
        }
        HttpResponse { status, headers, body: serde_json::from_str(&text).unwrap_or_default(), text }
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> HttpResponse {
        self.send(self.request(Method::GET, path)).await
    }

    /// Sends a POST request with a JSON body.
    pub async fn post(&self, path: &str, body: &Json) -> HttpResponse {
        let request = self.request(Method::POST, path).header("content-type", "application/json");
        self.send(request.body(body.to_string())).await
    }

    /// Submits a run and returns its id.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn submit(&self, body: &Json) -> String {
        let answer = self.post("/api/v1/runs", body).await;
        assert_eq!(answer.status, 201, "the run is refused: {}", answer.text);
        answer.body["id"].as_str().expect("a run has an id").to_string()
    }

    /// Submits a workflow with inputs.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn start(&self, flow: &Flow, inputs: &[(&str, &str)]) -> String {
        let inputs: serde_json::Map<_, _> = inputs.iter().map(|(k, v)| ((*k).into(), json!(v))).collect();
        self.submit(&json!({"workflow": flow.text(), "inputs": inputs, "user": "tester"})).await
    }

    /// Submits a workflow that may be refused.
    pub async fn submit_answer(&self, flow: &Flow) -> HttpResponse {
        self.post("/api/v1/runs", &json!({"workflow": flow.text(), "inputs": {}, "user": "tester"})).await
    }

    /// Registers an app; returns its id, and a client with its key.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn register(&self, flow: &Flow) -> (String, Self) {
        let answer = self.post("/api/v1/apps", &json!({"workflow": flow.text()})).await;
        assert_eq!(answer.status, 201, "the app is refused: {}", answer.text);
        let text = |key: &str| answer.body[key].as_str().expect("an app has an id and a key").to_string();
        (text("id"), self.with_key(Some(&text("key"))))
    }

    /// Reads the current state of a run.
    ///
    /// # Panics
    /// When the run does not exist.
    pub async fn run(&self, run: &str) -> Json {
        let answer = self.get(&format!("/api/v1/runs/{run}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.body
    }

    /// Waits until a run has ended, and returns it.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn ended(&self, run: &str) -> Json {
        self.ended_within(run, LONG).await
    }

    /// Like [`Self::ended`], with a longest time.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn ended_within(&self, run: &str, at_most: Duration) -> Json {
        until(&format!("the end of run {run}"), at_most, async || {
            // While Redis is down, the scheduler may answer with an error.
            let answer = self.get(&format!("/api/v1/runs/{run}")).await;
            let over = answer.body["status"].as_str().is_some_and(|status| OVER.contains(&status));
            if over { Ok(answer.body) } else { Err(answer.text) }
        })
        .await
    }

    /// Waits until a node of the root frame has a status.
    ///
    /// # Panics
    /// When the node does not reach it.
    pub async fn node_is(&self, run: &str, node: &str, status: &str) -> Json {
        until(&format!("node {node} to be {status}"), LONG, async || {
            let shown = self.run(run).await;
            let found = shown["nodes"].as_array().and_then(|all| all.iter().find(|n| n["id"] == node));
            match found {
                Some(found) if found["status"] == status => Ok(found.clone()),
                _ => Err(shown.to_string()),
            }
        })
        .await
    }

    /// Follows a run from its beginning, or from the event after `after`.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn follow(&self, run: &str, after: Option<&str>) -> Follower {
        let path = format!("/api/v1/runs/{run}/events");
        let request = self.request(Method::GET, &path);
        let request = match after {
            Some(id) => request.header("last-event-id", id),
            None => request,
        };
        Follower { messages: self.open(request).await, transcript: Transcript::default() }
    }

    /// Opens an event stream.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn open(&self, request: RequestBuilder) -> Messages {
        let (http, request) = request.build_split();
        let request = request.expect("the request can be sent");
        let operation = described::operation(request.method().as_str(), request.url().path());
        let response = http.execute(request).await.expect("the scheduler answers");
        let (status, headers) = (response.status(), response.headers().clone());
        if status != 200 {
            panic!("the stream is refused: {status} {}", response.text().await.unwrap_or_default());
        }
        let kind = kind(&headers);
        assert!(kind.starts_with("text/event-stream"), "an event stream is {kind:?}");
        Messages::of(response).described(operation.filter(|_| self.is_described))
    }
}

fn kind(headers: &HeaderMap) -> &str {
    headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

/// Follows one run over one connection and keeps the received events.
pub struct Follower {
    messages: Messages,
    /// The events received so far.
    pub transcript: Transcript,
}

impl Follower {
    /// Returns the next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<&Event> {
        loop {
            let message = self.messages.next().await?;
            if let Some(event) = Event::of(&message) {
                self.transcript.add(event);
                return self.transcript.events.last();
            }
        }
    }

    /// Reads until a condition holds for the received events.
    ///
    /// # Panics
    /// When the stream ends before that.
    pub async fn until(&mut self, what: &str, holds: impl Fn(&Transcript) -> bool) -> &Transcript {
        while !holds(&self.transcript) {
            if self.next().await.is_none() {
                panic!("the stream ended before {what}; received: {:#?}", self.transcript);
            }
        }
        &self.transcript
    }

    /// Reads until the text that the client shows contains this part.
    ///
    /// # Panics
    /// When the stream ends before that.
    pub async fn until_text(&mut self, part: &str) -> &Transcript {
        self.until(part, |told| told.text().contains(part)).await
    }

    /// Reads to the end of the stream.
    pub async fn to_the_end(mut self) -> Transcript {
        while self.next().await.is_some() {}
        self.transcript
    }
}
