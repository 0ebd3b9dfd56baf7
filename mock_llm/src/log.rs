//! Keeps the requests that the mock has received, for tests. The number is limited, and keys are not kept.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};

/// Most requests that are kept; the oldest ones are removed first.
const REQUESTS_MAX: usize = 1000;

/// The last requests, oldest first.
#[derive(Debug, Default)]
pub struct Log(Mutex<VecDeque<Json>>);

impl Log {
    /// Adds a request: method, path, model, messages, whether a stream was asked for, time (RFC 3339), and tools,
    /// voice and file name if there were some. Headers are not kept, because they contain keys.
    pub fn add(&self, method: &str, path: &str, body: &Json) {
        let field = |key: &str| body.get(key).cloned().unwrap_or(Json::Null);
        let time = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let mut entry = json!({
            "method": method, "path": path, "model": field("model"), "messages": field("messages"), "stream": field("stream"), "time": time,
        });
        for key in ["tools", "voice", "filename"] {
            if let Some(given) = body.get(key) {
                entry[key] = given.clone();
            }
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() == REQUESTS_MAX {
            entries.pop_front();
        }
        entries.push_back(entry);
    }

    /// Returns all requests and removes them. A caller that does this often enough misses none.
    pub fn take(&self) -> Vec<Json> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Returns all requests.
    pub fn entries(&self) -> Vec<Json> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
