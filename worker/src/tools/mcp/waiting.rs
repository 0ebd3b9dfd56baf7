//! Who waits for which answer, where answers come by another way than the questions went.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;
use tokio::sync::oneshot;

use super::protocol::{Incoming, McpError, incoming, request};

type Answers = HashMap<u64, oneshot::Sender<Result<Json, McpError>>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Waiting {
    /// None once no more answers come.
    answers: Mutex<Option<Answers>>,
    last_id: AtomicU64,
    /// What is said then.
    ended: &'static str,
}

impl Waiting {
    pub(super) fn new(ended: &'static str) -> Self {
        Self { answers: Mutex::new(Some(Answers::new())), last_id: AtomicU64::new(0), ended }
    }

    pub(super) fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// Whether nobody waits.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().as_ref().is_none_or(HashMap::is_empty)
    }

    /// Nobody waits in vain from now on.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    pub(super) fn ended(&self) -> McpError {
        McpError::Unreachable(self.ended.into())
    }

    /// Asks by `send` and waits for what [`Waiting::take_in`] brings.
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

    /// Hands answers to whoever waits; what the server asks is returned with its answer.
    pub(super) fn take_in(&self, body: &Json) -> Vec<Json> {
        let mut answers = Vec::new();
        for one in incoming(body) {
            match one {
                Incoming::Answer { id, result } => {
                    if let Some(waiting) = self.take(id) {
                        // Whoever asked may have gone.
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

/// A question that is withdrawn when nobody waits any more.
struct Expected<'a> {
    waiting: &'a Waiting,
    id: u64,
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        drop(self.waiting.take(self.id));
    }
}
