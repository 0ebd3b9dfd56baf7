//! Forgets ended runs. A fleet keeps them for days; an embedded engine keeps those that its host can still look at, and a
//! bounded number of others. Otherwise a process that runs a million workflows would fill its memory.
//!
//! A [`Hold`] belongs to each handle and each stream of a run. When the last one of a run is dropped, its task looks now
//! and then until the run has ended, and removes it. What no handle stands for is swept now and then: ended runs that
//! other runs or requests have started, conversations, and what has expired.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::ids::RunId;
use tidemill_common::store::memory::MemoryStore;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The time between two looks at runs without a hold that have not ended.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The pause between two looks at what is more than the engine keeps. A look takes longer the more there is.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The pause between two looks at what has expired.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

/// What an engine keeps at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    /// Ended runs without a handle.
    pub(crate) ended_runs: usize,
    pub(crate) conversations: usize,
}

/// The runs that are held, and those that are to be forgotten.
pub(crate) struct Held {
    inner: Mutex<Inner>,
    dropped: Notify,
}

#[derive(Default)]
struct Inner {
    holds: HashMap<RunId, usize>,
    released: HashSet<RunId>,
}

/// Keeps a run from being forgotten.
pub(crate) struct Hold {
    held: Arc<Held>,
    run: RunId,
}

impl Held {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), dropped: Notify::new() })
    }

    pub(crate) fn hold(self: &Arc<Self>, run: RunId) -> Hold {
        let mut inner = self.lock();
        *inner.holds.entry(run).or_default() += 1;
        inner.released.remove(&run);
        drop(inner);
        Hold { held: self.clone(), run }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The maps are whole after every line that changes them.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets released runs that have ended. Returns true if there are others.
    fn look(&self, store: &MemoryStore) -> bool {
        // Holding the lock, so that no run is forgotten that is held again at the same time.
        let mut inner = self.lock();
        inner.released.retain(|run| !store.forget_run(*run));
        !inner.released.is_empty()
    }

    /// Forgets what is more than the engine keeps.
    fn sweep(&self, store: &MemoryStore, most: Most) {
        let inner = self.lock();
        if store.run_count() > most.ended_runs {
            store.forget_ended(most.ended_runs, &|run| inner.holds.contains_key(&run));
        }
        drop(inner);
        store.forget_conversations(most.conversations);
    }
}

impl Hold {
    /// The run that is held.
    pub(crate) fn run(&self) -> RunId {
        self.run
    }
}

impl Clone for Hold {
    fn clone(&self) -> Self {
        self.held.hold(self.run)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut inner = self.held.lock();
        let Some(count) = inner.holds.get_mut(&self.run) else { return };
        *count -= 1;
        if *count == 0 {
            inner.holds.remove(&self.run);
            inner.released.insert(self.run);
            drop(inner);
            self.held.dropped.notify_one();
        }
    }
}

/// Forgets runs until the task is aborted.
pub(crate) fn start(held: Arc<Held>, store: MemoryStore, most: Most) -> JoinHandle<()> {
    tokio::spawn(async move {
        let (mut sweep_at, mut expire_at) = (Instant::now() + SWEEP_EVERY, Instant::now() + EXPIRE_EVERY);
        loop {
            let are_left = held.look(&store);
            let now = Instant::now();
            if now >= sweep_at {
                held.sweep(&store, most);
                sweep_at = now + SWEEP_EVERY;
            }
            if now >= expire_at {
                store.forget_expired();
                expire_at = now + EXPIRE_EVERY;
            }
            if are_left {
                tokio::time::sleep(LOOK_EVERY).await;
            } else {
                drop(tokio::time::timeout_at(sweep_at, held.dropped.notified()).await);
            }
        }
    })
}
