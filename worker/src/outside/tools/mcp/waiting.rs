//! Matches answers to waiting callers, for transports where answers arrive separately from requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;
use tokio::sync::oneshot;

use crate::outside::tools::mcp::protocol::{Incoming, McpError, incoming, request};

type Answers = HashMap<u64, oneshot::Sender<Result<Json, McpError>>>;

/// The waiting callers; see the module.
#[derive(Debug)]
pub(super) struct Waiting {
    /// `None` once no more answers arrive.
    answers: Mutex<Option<Answers>>,
    last_id: AtomicU64,
    /// The error message after the end.
    ended: &'static str,
}

impl Waiting {
    pub(super) fn new(ended: &'static str) -> Self {
        Self { answers: Mutex::new(Some(Answers::new())), last_id: AtomicU64::new(0), ended }
    }

    pub(super) fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// Returns true if no caller waits.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().as_ref().is_none_or(HashMap::is_empty)
    }

    /// Ends all waits; later calls fail at once.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    pub(super) fn ended(&self) -> McpError {
        McpError::Unreachable(self.ended.into())
    }

    /// Sends a request with `send` and waits for its answer from [`Waiting::take_in`].
    pub(super) async fn ask<F: Future<Output = Result<(), McpError>>>(
        &self,
        method: &str,
        params: &Json,
        silence: Duration,
        send: impl FnOnce(Json) -> F,
    ) -> Result<Json, McpError> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        self.lock().as_mut().ok_or_else(|| self.ended())?.insert(id, sender);
        let _expected = Expected { waiting: self, id };
        send(request(id, method, params)).await?;
        match tokio::time::timeout(silence, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(self.ended()),
            Err(_) => Err(McpError::Silent(silence.as_secs())),
        }
    }

    /// Passes answers to their callers. Returns the answers to the server's own requests.
    pub(super) fn take_in(&self, body: &Json) -> Vec<Json> {
        let mut answers = Vec::new();
        for one in incoming(body) {
            match one {
                Incoming::Answer { id, result } => {
                    if let Some(waiting) = self.take(id) {
                        // The caller may be gone.
                        drop(waiting.send(result));
                    }
                }
                Incoming::Request { answer } => answers.push(answer),
                Incoming::Other => {}
            }
        }
        answers
    }

    fn take(&self, id: u64) -> Option<oneshot::Sender<Result<Json, McpError>>> {
        self.lock().as_mut().and_then(|answers| answers.remove(&id))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Answers>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is withdrawn when its caller stops waiting.
struct Expected<'a> {
    waiting: &'a Waiting,
    id: u64,
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        drop(self.waiting.take(self.id));
    }
}
