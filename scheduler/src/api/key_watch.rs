//! Watches the keys of apps that are in use. When a key is revoked at any scheduler, or expires, each open request and
//! stream of that key ends within a second.
//!
//! One read asks the store about all keys in use, and none is made while no key is in use. It does not depend on
//! messages that may get lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::store::{Runs, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The pause between two looks. A key that ends is noticed within a second, also when Redis is slow.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// Keys in one command.
const KEYS_AT_ONCE: usize = 256;

/// The keys that requests use right now, and the task that checks them.
pub struct KeyWatch {
    store: Arc<dyn Runs>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    used: HashMap<String, Used>,
    /// The task that looks while keys are in use.
    look_again: Option<JoinHandle<()>>,
}

/// A key in use.
struct Used {
    /// The number of requests that use it.
    by: usize,
    has_ended: watch::Sender<bool>,
}

impl KeyWatch {
    /// Creates it without keys.
    pub fn new(store: Arc<dyn Runs>) -> Self {
        Self { store, inner: Mutex::default() }
    }

    /// Registers a use of a key. The use ends when the returned value is dropped.
    pub fn uses(self: &Arc<Self>, key: &str) -> KeyInUse {
        let mut inner = self.lock();
        let fresh = || Used { by: 0, has_ended: watch::Sender::new(false) };
        let used = inner.used.entry(key.into()).or_insert_with(fresh);
        used.by += 1;
        let has_ended = used.has_ended.subscribe();
        if inner.look_again.as_ref().is_none_or(JoinHandle::is_finished) {
            inner.look_again = Some(tokio::spawn(self.clone().look_while_used()));
        }
        KeyInUse { watch: self.clone(), key: key.into(), has_ended }
    }

    async fn look_while_used(self: Arc<Self>) {
        let mut is_failing = false;
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            let keys: Vec<String> = {
                let mut inner = self.lock();
                if inner.used.is_empty() {
                    // Under the lock, so that the next use starts a new task.
                    inner.look_again = None;
                    return;
                }
                inner.used.keys().cloned().collect()
            };
            let checked = self.look_again(&keys).await;
            if let (Err(error), false) = (&checked, is_failing) {
                tracing::warn!(%error, "cannot check whether API keys have ended");
            }
            is_failing = checked.is_err();
        }
    }

    async fn look_again(&self, keys: &[String]) -> Result<(), StoreError> {
        for some in keys.chunks(KEYS_AT_ONCE) {
            for key in self.store.ended_of(some).await? {
                if let Some(used) = self.lock().used.get(&key) {
                    used.has_ended.send_replace(true);
                }
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Counts are changed completely before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key that a request or a stream uses.
pub struct KeyInUse {
    watch: Arc<KeyWatch>,
    key: String,
    has_ended: watch::Receiver<bool>,
}

impl KeyInUse {
    /// Returns when the key is revoked or expires, and never otherwise.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut has_ended = self.has_ended.clone();
        async move {
            if has_ended.wait_for(|is| *is).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// True when the key was revoked or has expired.
    pub fn has_ended(&self) -> bool {
        *self.has_ended.borrow()
    }
}

impl Drop for KeyInUse {
    fn drop(&mut self) {
        let mut inner = self.watch.lock();
        let Some(used) = inner.used.get_mut(&self.key) else { return };
        used.by -= 1;
        if used.by == 0 {
            inner.used.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::clock::SystemClock;
    use tidemill_common::store::memory::MemoryStore;
    use tidemill_common::store::{App, TriggerChanges, key_id};

    /// The longest wait in a test; a look comes every quarter of a second.
    const LONG: Duration = Duration::from_secs(20);

    async fn store_with(hashes: &[&str]) -> MemoryStore {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let app = App { id: "a".into(), ..App::default() };
        for hash in hashes {
            store.put_app(&app, Some(hash), &TriggerChanges::default()).await.unwrap();
        }
        store
    }

    #[tokio::test(start_paused = true)]
    async fn every_use_of_a_revoked_key_ends_and_no_use_of_another_key() {
        let (one, other) = ("0000000000000001…", "0000000000000002…");
        let store = store_with(&[one, other]).await;
        let watch = Arc::new(KeyWatch::new(Arc::new(store.clone())));
        let [first, second] = [watch.uses(&key_id(one)), watch.uses(&key_id(one))];
        let bystander = watch.uses(&key_id(other));
        store.revoke_key(&key_id(one)).await.unwrap();
        for used in [&first, &second] {
            tokio::time::timeout(LONG, used.ended()).await.unwrap();
            assert!(used.has_ended());
        }
        assert!(!bystander.has_ended());
    }

    #[tokio::test(start_paused = true)]
    async fn no_task_looks_while_no_key_is_in_use() {
        let watch = Arc::new(KeyWatch::new(Arc::new(store_with(&[]).await)));
        for _ in 0..2 {
            let used = watch.uses("k");
            assert!(watch.lock().look_again.is_some(), "a task looks");
            drop(used);
            assert!(watch.lock().used.is_empty());
            let ended = async {
                while watch.lock().look_again.is_some() {
                    tokio::time::sleep(CHECK_EVERY).await;
                }
            };
            tokio::time::timeout(LONG, ended).await.unwrap();
        }
    }
}
