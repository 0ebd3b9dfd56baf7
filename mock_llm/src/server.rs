//! The mock as a server: starts, stops, and chooses the rule for a request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value as Json;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::log::Log;
use super::protocols::Protocol;
use super::reply::{self, MockResponse};
use super::routes::{pause, routes};
use super::rules::{Rule, Rules};
use super::socket::{MockListener, Resets};
use super::{friendly, matching, protocols};

/// Longest wait for answers in flight when the server stops.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// The mock before it is started.
#[derive(Debug)]
pub struct MockLlm {
    pub(super) rules: Rules,
    /// Number of uses of each rule.
    calls: Vec<AtomicU64>,
    /// True while answers are held back.
    held: watch::Sender<bool>,
    pub(super) log: Log,
}

/// An answer with its delay and headers.
pub(super) struct Served {
    pub(super) delay: Duration,
    pub(super) held: watch::Receiver<bool>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) answer: MockResponse,
}

impl Served {
    /// Waits until the answer is due: for its delay, then while the mock holds its answers back.
    pub(super) async fn due(&mut self) {
        pause(self.delay).await;
        // An error means that the mock is gone; then nothing is held back.
        let _ = self.held.wait_for(|held| !held).await;
    }
}

impl MockLlm {
    /// Starts the server; port 0 takes any free port. Each start counts calls from zero.
    ///
    /// # Errors
    /// The server cannot listen on the address.
    pub async fn start(rules: Rules, addr: SocketAddr) -> io::Result<Running> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let calls = match &rules {
            Rules::Friendly => Vec::new(),
            Rules::List(list) => list.iter().map(|_| AtomicU64::new(0)).collect(),
        };
        let mock = Arc::new(Self { rules, calls, held: watch::Sender::new(false), log: Log::default() });
        let (stop, stopped) = oneshot::channel::<()>();
        let app = routes(mock.clone());
        let server = tokio::spawn(async move {
            let end = async move {
                // A dropped sender also means stop.
                let _ = stopped.await;
            };
            let app = app.into_make_service_with_connect_info::<Resets>();
            axum::serve(MockListener(listener), app).with_graceful_shutdown(end).await
        });
        Ok(Running { addr, mock, stop: Some(stop), server })
    }

    /// Answers a chat request, which is in the form of [`Protocol::heard`].
    pub(super) fn chat(&self, protocol: Protocol, body: &Json) -> Served {
        if matches!(self.rules, Rules::Friendly) {
            let rule = friendly::rule(body);
            return self.served(&rule, reply::answer(protocol, &rule, 1, body));
        }
        match self.called(body) {
            Some((rule, call)) => self.served(rule, reply::answer(protocol, rule, call, body)),
            None => {
                let answer = MockResponse::refusal(protocol, 404, "no mock rule matches");
                self.at_once(answer)
            }
        }
    }

    /// Answers a request for embeddings or rerank with `answer`, unless a rule makes the call fail. Rules see the texts
    /// of the request as a user message.
    pub(super) fn compute(&self, protocol: Protocol, body: &Json, answer: Json) -> Served {
        let texts = match body.get("query") {
            Some(query) => vec![query.as_str().unwrap_or_default().to_owned()],
            None => protocols::vectors::inputs(body),
        };
        let message = serde_json::json!({"role": "user", "content": texts.join("\n")});
        let heard = serde_json::json!({"model": body["model"], "messages": [message]});
        let answer = MockResponse::Whole { status: 200, body: answer };
        match self.called(&heard) {
            Some((rule, call)) => self.served(rule, reply::failure(protocol, rule, call).unwrap_or(answer)),
            None => self.at_once(answer),
        }
    }

    fn served(&self, rule: &Rule, answer: MockResponse) -> Served {
        let delay = Duration::from_millis(rule.delay_ms);
        Served { delay, headers: rule.headers.clone(), ..self.at_once(answer) }
    }

    fn at_once(&self, answer: MockResponse) -> Served {
        Served { delay: Duration::ZERO, held: self.held.subscribe(), headers: Vec::new(), answer }
    }

    /// Returns the rule for a request and the number of this call of it, from 1.
    fn called(&self, body: &Json) -> Option<(&Rule, u64)> {
        let Rules::List(list) = &self.rules else { return None };
        let (at, rule) = matching::find(list, body)?;
        Some((rule, self.calls[at].fetch_add(1, Ordering::Relaxed) + 1))
    }
}

/// The running mock. Dropping it closes its port at once; answers in flight are still completed.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    mock: Arc<MockLlm>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<io::Result<()>>,
}

impl Running {
    /// The address that it listens on.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The `base_url` for the settings of a provider.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// The address without `/v1`, for APIs that do not have it.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Returns the requests so far, oldest first; see [`Log::add`].
    pub fn requests(&self) -> Vec<Json> {
        self.mock.log.entries()
    }

    /// Returns the requests so far and removes them.
    pub fn take_requests(&self) -> Vec<Json> {
        self.mock.log.take()
    }

    /// Holds back all answers from now on, or lets those that are held and all later ones go. Requests are logged meanwhile.
    pub fn hold(&self, held: bool) {
        self.mock.held.send_replace(held);
    }

    /// Accepts no more requests, and ends when the answers in flight are sent or after a second.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            // If the receiver is gone, the server has already ended.
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
