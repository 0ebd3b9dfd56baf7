//! Forgets ended runs. A fleet keeps them for days; an embedded engine keeps those that its host can still look at, and a
//! bounded number of others. Otherwise a process that runs a million workflows would fill its memory.
//!
//! A [`Hold`] belongs to each handle and each stream of a run. When the last one of a run is dropped, its task looks now
//! and then until the run has ended, and removes it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::ids::RunId;
use tidemill_common::store::memory::MemoryStore;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The time between two looks at runs without a hold that have not ended.
const LOOK_EVERY: Duration = Duration::from_millis(250);

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

    /// Forgets what can be forgotten. Returns true if released runs are left that have not ended.
    fn look(&self, store: &MemoryStore, ended_max: usize) -> bool {
        // Holding the lock, so that no run is forgotten that is held again at the same time.
        let mut inner = self.lock();
        let Inner { holds, released } = &mut *inner;
        released.retain(|run| !store.forget_run(*run));
        if store.run_count() > ended_max {
            store.forget_ended(ended_max, &|run| holds.contains_key(&run));
        }
        !released.is_empty()
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
pub(crate) fn start(held: Arc<Held>, store: MemoryStore, ended_max: usize) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let are_left = held.look(&store, ended_max);
            let dropped = held.dropped.notified();
            if are_left {
                tokio::time::sleep(LOOK_EVERY).await;
            } else {
                dropped.await;
            }
        }
    })
}
