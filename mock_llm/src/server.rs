//! The mock as a server: start, stop, and which rule serves a request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value as Json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::log::Log;
use super::reply::{self, Answer};
use super::routes::routes;
use super::rules::{Rule, Rules};
use super::socket::{Door, Resets};
use super::speech::Protocol;
use super::{matching, speech};

/// How long a stop waits for answers under way before it leaves them to themselves.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// The mock, not yet running.
#[derive(Debug)]
pub struct MockLlm {
    pub(super) rules: Rules,
    /// How often each rule was used.
    calls: Vec<AtomicU64>,
    pub(super) log: Log,
}

/// What is answered, after how long, and with which headers.
pub(super) struct Served {
    pub(super) delay: Duration,
    pub(super) headers: Vec<(String, String)>,
    pub(super) answer: Answer,
}

impl Served {
    fn of(rule: &Rule, answer: Answer) -> Self {
        Self { delay: Duration::from_millis(rule.delay_ms), headers: rule.headers.clone(), answer }
    }
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
            let app = app.into_make_service_with_connect_info::<Resets>();
            axum::serve(Door(listener), app).with_graceful_shutdown(end).await
        });
        Ok(Running { addr, mock, stop: Some(stop), server })
    }

    /// What a rule says to a request, which is as [`Protocol::heard`] gives it.
    pub(super) fn chat(&self, protocol: Protocol, body: &Json) -> Served {
        if matches!(self.rules, Rules::Friendly) {
            let rule = reply::friendly(body);
            return Served::of(&rule, reply::answer(protocol, &rule, 1, body));
        }
        match self.called(body) {
            Some((rule, call)) => Served::of(rule, reply::answer(protocol, rule, call, body)),
            None => {
                let answer = Answer::refusal(protocol, 404, "no mock rule matches");
                Served { delay: Duration::ZERO, headers: Vec::new(), answer }
            }
        }
    }

    /// What is answered where nothing is said: `answer`, unless a rule wants the call to fail. Rules look at the texts of
    /// the request as at a user's message.
    pub(super) fn compute(&self, protocol: Protocol, body: &Json, answer: Json) -> Served {
        let texts = match body.get("query") {
            Some(query) => vec![query.as_str().unwrap_or_default().to_owned()],
            None => speech::vectors::inputs(body),
        };
        let message = serde_json::json!({"role": "user", "content": texts.join("\n")});
        let heard = serde_json::json!({"model": body["model"], "messages": [message]});
        let answer = Answer::Whole { status: 200, body: answer };
        match self.called(&heard) {
            Some((rule, call)) => Served::of(rule, reply::failure(protocol, rule, call).unwrap_or(answer)),
            None => Served { delay: Duration::ZERO, headers: Vec::new(), answer },
        }
    }

    /// The rule of a request, and which of its calls this is, from 1.
    fn called(&self, body: &Json) -> Option<(&Rule, u64)> {
        let Rules::List(list) = &self.rules else { return None };
        let (at, rule) = matching::find(list, body)?;
        Some((rule, self.calls[at].fetch_add(1, Ordering::Relaxed) + 1))
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

    /// The same without `/v1`, for APIs that have none.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
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
