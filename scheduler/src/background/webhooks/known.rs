//! Which apps have a webhook, and for which events: read every few seconds, so that the start of a run costs no request for
//! it. A new webhook is in force at all schedulers after that time, and at once where it was set.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tidemill_common::store::{Runs, StoreError};
use tokio::sync::watch::Receiver;

use super::setting::Webhook;

/// The pause between two reads.
const READ_PAUSE: Duration = Duration::from_secs(5);

/// The events of the webhook of each app.
#[derive(Clone)]
pub(crate) struct KnownWebhooks {
    store: Arc<dyn Runs>,
    /// `None` before the first read.
    read: Arc<RwLock<Option<Read>>>,
}

struct Read {
    /// The version of the webhooks before they were read.
    version: u64,
    events: HashMap<String, String>,
}

impl KnownWebhooks {
    /// Creates it. No webhook is known yet.
    pub(crate) fn new(store: Arc<dyn Runs>) -> Self {
        Self { store, read: Arc::default() }
    }

    /// The events for which an app has a webhook, as of the last read.
    ///
    /// # Errors
    /// Nothing was read yet, and it cannot be read now.
    pub(crate) async fn events_of(&self, app: &str) -> Result<Option<String>, StoreError> {
        if self.known(|_| ()).is_none() {
            self.refresh().await?;
        }
        let events = self.known(|read| read.events.get(app).filter(|events| !events.is_empty()).cloned());
        Ok(events.flatten())
    }

    fn known<T>(&self, look: impl FnOnce(&Read) -> T) -> Option<T> {
        self.read.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(look)
    }

    /// Reads them again if one has changed.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        // Before the webhooks: what changes between the two is read the next time.
        let version = self.store.webhooks_version().await?;
        if self.known(|read| read.version) == Some(version) {
            return Ok(());
        }
        let all = self.store.webhooks().await?;
        let events = all.into_iter().map(|(app, text)| (app, Webhook::events_in(&text))).collect();
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = Some(Read { version, events });
        Ok(())
    }

    /// Reads them again and again, until `stop` is set.
    pub(crate) async fn run(self, mut stop: Receiver<bool>) {
        while !*stop.borrow() {
            if let Err(error) = self.refresh().await {
                tracing::warn!(%error, "the webhooks of apps cannot be read yet");
            }
            tokio::select! {
                _ = stop.changed() => {}
                () = tokio::time::sleep(READ_PAUSE) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_common::clock::SystemClock;
    use tidemill_common::store::memory::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_change_of_a_webhook_is_known_after_the_next_read() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let known = KnownWebhooks::new(store.clone());
        assert_eq!(known.events_of("a").await.unwrap(), None, "the first question reads");
        for events in ["paused", "ended"] {
            let text = format!(r#"{{"events": ["{events}"]}}"#);
            tidemill_common::store::Webhooks::put_webhook(&*store, "a", Some(&text)).await.unwrap();
            known.refresh().await.unwrap();
            assert_eq!(known.events_of("a").await.unwrap().as_deref(), Some(events));
        }
    }
}
