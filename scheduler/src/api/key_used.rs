//! Notes when keys were last used, so that operators find keys that are not in use any more. A process notes each key once
//! a minute at most, beside the request: a store that is slow or full delays nothing, and a note that is lost comes with a
//! later use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::store::Runs;
use tokio::time::Instant;

/// The time between two notes about a key.
const NOTED_EVERY: Duration = Duration::from_secs(60);

/// When this process noted each key.
pub(crate) struct LastUses {
    store: Arc<dyn Runs>,
    noted: Mutex<HashMap<String, Instant>>,
}

impl LastUses {
    /// Creates it without notes.
    pub(crate) fn new(store: Arc<dyn Runs>) -> Self {
        Self { store, noted: Mutex::default() }
    }

    /// Notes that a key is used now.
    pub(super) fn note(&self, key: &str) {
        if !self.is_due(key, Instant::now()) {
            return;
        }
        let (store, key) = (self.store.clone(), key.to_string());
        tokio::spawn(async move {
            if let Err(error) = store.note_key_used(&key, SystemClock.now()).await {
                tracing::debug!(key, %error, "the use of an API key was not noted");
            }
        });
    }

    fn is_due(&self, key: &str, now: Instant) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.get(key).is_some_and(|at| now.duration_since(*at) < NOTED_EVERY) {
            return false;
        }
        noted.retain(|_, at| now.duration_since(*at) < NOTED_EVERY);
        noted.insert(key.into(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use tidemill_common::store::memory::MemoryStore;

    use super::*;

    #[test]
    fn a_key_is_noted_once_a_minute_and_old_notes_are_dropped() {
        let uses = LastUses::new(Arc::new(MemoryStore::new(Arc::new(SystemClock))));
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let seen =
            [("a", 0), ("a", 59), ("b", 59), ("a", 60), ("b", 200)].map(|(key, s)| uses.is_due(key, at(s)));
        assert_eq!(seen, [true, false, true, true, true]);
        assert_eq!(uses.noted.lock().unwrap().len(), 1);
    }
}
