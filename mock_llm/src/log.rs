//! What the mock was asked, for tests to look at: bounded, and without keys.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};

/// Most requests that are remembered; older ones are forgotten first.
const REQUESTS_MAX: usize = 1000;

/// The last requests, oldest first.
#[derive(Debug, Default)]
pub struct Log(Mutex<VecDeque<Json>>);

impl Log {
    /// Remembers a request: method, path, model, messages, whether a stream was wanted, time (RFC 3339), and tools where some were offered. Headers are not kept, they hold keys.
    pub fn add(&self, method: &str, path: &str, body: &Json) {
        let field = |key: &str| body.get(key).cloned().unwrap_or(Json::Null);
        let time = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let mut entry = json!({
            "method": method, "path": path, "model": field("model"), "messages": field("messages"), "stream": field("stream"), "time": time,
        });
        if let Some(tools) = body.get("tools") {
            entry["tools"] = tools.clone();
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() == REQUESTS_MAX {
            entries.pop_front();
        }
        entries.push_back(entry);
    }

    /// All that is remembered, which is forgotten with it: whoever takes often enough misses nothing.
    pub fn take(&self) -> Vec<Json> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// All that is remembered.
    pub fn entries(&self) -> Vec<Json> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
