//! The mock on the wire: routes, streaming, start and stop.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::log::Log;
use super::matching;
use super::reply::{self, Answer};
use super::rules::{Rule, Rules};

/// Largest request that is read, in bytes; tests send prompts of megabytes.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long a stop waits for answers under way before it leaves them to themselves.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// The mock, not yet running.
#[derive(Debug)]
pub struct MockLlm {
    rules: Rules,
    /// How often each rule was used.
    calls: Vec<AtomicU64>,
    log: Log,
}

impl MockLlm {
    /// Starts to serve; port 0 takes any free one. Every start counts calls from zero.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start(rules: Rules, addr: SocketAddr) -> io::Result<Running> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let calls = match &rules {
            Rules::Friendly => Vec::new(),
            Rules::List(list) => list.iter().map(|_| AtomicU64::new(0)).collect(),
        };
        let mock = Arc::new(Self { rules, calls, log: Log::default() });
        let (stop, stopped) = oneshot::channel::<()>();
        let app = routes(mock.clone());
        let server = tokio::spawn(async move {
            let end = async move {
                // A sender that is gone means the same as one that has spoken.
                let _ = stopped.await;
            };
            // Each piece of a stream goes out at once instead of waiting for the next.
            let listener = listener.tap_io(|socket| {
                // Without it pieces come late, no more.
                let _ = socket.set_nodelay(true);
            });
            axum::serve(listener, app).with_graceful_shutdown(end).await
        });
        Ok(Running { addr, mock, stop: Some(stop), server })
    }

    fn chat(&self, body: &Json) -> (Duration, Vec<(String, String)>, Answer) {
        let friendly;
        let (rule, call): (&Rule, u64) = match &self.rules {
            Rules::Friendly => {
                friendly = reply::friendly(body);
                (&friendly, 1)
            }
            Rules::List(list) => match matching::find(list, body) {
                Some((at, rule)) => (rule, self.calls[at].fetch_add(1, Ordering::Relaxed) + 1),
                None => return (Duration::ZERO, Vec::new(), Answer::refusal(404, "no mock rule matches")),
            },
        };
        (Duration::from_millis(rule.delay_ms), rule.headers.clone(), reply::answer(rule, call, body))
    }
}

/// The mock, running; dropping it closes its port at once, while answers under way still come to their end.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    mock: Arc<MockLlm>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<io::Result<()>>,
}

impl Running {
    /// Where it listens.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What to set as `base_url` of a provider.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// What it was asked so far, oldest first; see [`Log::add`].
    pub fn requests(&self) -> Vec<Json> {
        self.mock.log.entries()
    }

    /// As [`Self::requests`], and forgets them.
    pub fn take_requests(&self) -> Vec<Json> {
        self.mock.log.take()
    }

    /// Takes no more requests and ends when the answers under way are out, or after a second.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            // It has ended by itself when nobody listens.
            let _ = stop.send(());
        }
        let _ = tokio::time::timeout(STOP_WAIT, &mut self.server).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn routes(mock: Arc<MockLlm>) -> Router {
    let requests =
        |State(mock): State<Arc<MockLlm>>| async move { whole(200, &Json::Array(mock.log.entries())) };
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(models))
        .route("/requests", get(requests))
        .route("/__requests__", get(requests))
        .route("/health", get(async || "ok"))
        .fallback(async || whole(404, &json!({"error": "no such route"})))
        .layer(axum::extract::DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(mock)
}

async fn chat(State(mock): State<Arc<MockLlm>>, body: Bytes) -> Response {
    let Ok(body @ Json::Object(_)) = serde_json::from_slice::<Json>(&body) else {
        return respond(Answer::refusal(400, "the request is not a JSON object"));
    };
    mock.log.add("POST", "/v1/chat/completions", &body);
    let (delay, headers, answer) = mock.chat(&body);
    pause(delay).await;
    let mut response = respond(answer);
    for (name, value) in headers {
        // Rules were checked for what cannot be sent.
        if let (Ok(name), Ok(value)) =
            (name.parse::<header::HeaderName>(), value.parse::<header::HeaderValue>())
        {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

async fn models(State(mock): State<Arc<MockLlm>>) -> Response {
    mock.log.add("GET", "/v1/models", &Json::Null);
    let mut names: Vec<&str> = vec!["mock-chat"];
    if let Rules::List(list) = &mock.rules {
        names.extend(list.iter().filter_map(|rule| rule.matches.model.as_deref()));
    }
    names.sort_unstable();
    names.dedup();
    let data: Vec<Json> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "created": 0, "owned_by": "mock"}))
        .collect();
    whole(200, &json!({"object": "list", "data": data}))
}

fn respond(answer: Answer) -> Response {
    let events = match answer {
        Answer::Whole { status, body } => return whole(status, &body),
        Answer::Stream(events) => events,
    };
    let stream = futures_util::stream::unfold(events.into_iter(), |mut events| async move {
        let (wait, event) = events.next()?;
        pause(wait).await;
        Some((Ok::<_, Infallible>(event), events))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    response
}

/// No wait at all is no visit to the timer, which would cost a millisecond.
async fn pause(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

fn whole(status: u16, body: &Json) -> Response {
    let mut response = Response::new(Body::from(reply::dump(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
