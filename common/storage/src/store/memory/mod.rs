//! The store without Redis, for engines in one process (`embed/`), for simulation and for tests: the same keys as maps, the
//! same rules, and a clock that a test can move. Nothing in it outlives its process.
//!
//! Tests must hold for Redis, too, so this store does what Redis and the scripts do, down to stream ids,
//! delivery counts and idle times; both pass the contract in `tests/src/contract`. One lock guards everything, so each method
//! is atomic like a script. Server features are left out: only leases, blobs and idempotency keys expire.

mod annotations;
mod app_keys;
mod app_limits;
mod app_records;
mod audit;
mod calls;
mod catalog;
mod commit;
mod conversations;
mod dead;
mod durability;
mod fleet;
mod forget;
mod inspect;
mod jobs;
mod journal;
mod knowledge;
mod limit;
mod pauses;
mod plugin_values;
mod queue;
mod removals;
mod runs;
mod shard;
mod shards;
mod stream;
mod triggers;
mod uploads;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use super::following::Followed;
use super::{App, AppState, Hint, Meta, Raised, StoreError};
pub use inspect::Snapshot;
use shard::Shard;
use tidemill_base::clock::{Clock, Timestamp};
use tidemill_base::ids::{EntryId, RunId, ShardId};
use tidemill_base::limits;

/// Hints buffered for a slow listener; it loses older ones, as with pub/sub.
const HINTS_KEPT: usize = 1024;

/// A namespace in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    inbox_max: u64,
    queue_max: u64,
    shards: AtomicU16,
    shards_first: u16,
    space: Mutex<Namespace>,
    facts_came: Notify,
    jobs_came: Notify,
    events_came: Arc<Followed>,
    hints: broadcast::Sender<Hint>,
    /// The number of requests so far.
    requests: AtomicU64,
    /// The number of lists of runs so far that were not those of an app or a label.
    lists_of_all: AtomicU64,
    /// Shards that do not answer lists of runs.
    silent: Mutex<BTreeSet<ShardId>>,
}

/// All data of the namespace.
#[derive(Default)]
struct Namespace {
    shards: BTreeMap<ShardId, Shard>,
    schedulers: BTreeMap<String, Timestamp>,
    workers: BTreeMap<String, Timestamp>,
    records: BTreeMap<String, fleet::StoredRecord>,
    queue_names: std::collections::BTreeSet<String>,
    apps: BTreeMap<String, App>,
    /// Apps that accept no runs, also those that were removed.
    closed_apps: BTreeMap<String, AppState>,
    /// The texts of removals.
    removals: BTreeMap<String, String>,
    keys: app_keys::AppKeys,
    limited: app_limits::Limited,
    records_of_apps: app_records::Records,
    audit: audit::Entries,
    /// The webhook of each app.
    webhooks: BTreeMap<String, String>,
    /// Grows with each change of one.
    webhooks_version: u64,
    budgets: BTreeMap<String, String>,
    triggers: BTreeMap<String, triggers::StoredTrigger>,
    reserved: BTreeMap<String, Reservation>,
    form_secret: Option<String>,
    seal_salt: Option<String>,
    fingerprint_salt: Option<String>,
    limits: limit::Limits,
    catalog: catalog::MemoryCatalog,
    /// Packages of plugins by the SHA-256 of their files.
    packages: BTreeMap<String, Vec<u8>>,
    /// What plugins have stored, by plugin and key.
    plugin_values: BTreeMap<String, BTreeMap<String, String>>,
    knowledge: knowledge::Knowledge,
    annotations: BTreeMap<String, annotations::OfApp>,
    /// Bytes of uploads by day, of apps and of their users.
    uploads: BTreeMap<(String, Option<String>), BTreeMap<String, u64>>,
    /// Origins of suspects that are cleared.
    cleared: BTreeSet<String>,
}

struct Reservation {
    run: RunId,
    request: String,
    until: Timestamp,
}

impl Namespace {
    fn shard(&mut self, id: ShardId) -> &mut Shard {
        self.shards.entry(id).or_default()
    }
}

impl MemoryStore {
    /// An empty namespace with the time of `clock` and the default number of shards.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with(clock, limits::SHARDS, limits::INBOX_MAX)
    }

    /// An empty namespace with `shards` shards. Inboxes refuse new runs above `inbox_max` entries.
    pub fn with(clock: Arc<dyn Clock>, shards: u16, inbox_max: u64) -> Self {
        Self::bounded(clock, shards, inbox_max, limits::QUEUE_MAX)
    }

    /// Like [`Self::with`]; queues refuse new runs from `queue_max` jobs on.
    pub fn bounded(clock: Arc<dyn Clock>, shards: u16, inbox_max: u64, queue_max: u64) -> Self {
        Self {
            inner: Arc::new(Inner {
                clock,
                inbox_max,
                queue_max,
                shards: AtomicU16::new(shards),
                shards_first: shards,
                space: Mutex::default(),
                facts_came: Notify::new(),
                jobs_came: Notify::new(),
                events_came: Arc::default(),
                hints: broadcast::Sender::new(HINTS_KEPT),
                requests: AtomicU64::new(0),
                lists_of_all: AtomicU64::new(0),
                silent: Mutex::default(),
            }),
        }
    }

    /// Lets requests for lists of runs, and for fields of several runs, fail on a shard: its part of a cluster is away.
    pub fn silence(&self, shard: ShardId) {
        self.inner.silent.lock().unwrap_or_else(PoisonError::into_inner).insert(shard);
    }

    /// The dead letters of a shard, oldest first.
    pub fn dead(&self, shard: ShardId) -> Vec<super::Dead> {
        self.inner.lock().shard(shard).dead.after(EntryId::ZERO).map(|(_, dead)| dead.clone()).collect()
    }
}

impl Inner {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn meta(&self) -> Meta {
        self.count();
        let shards = self.shards.load(Ordering::Relaxed);
        Meta { version: tidemill_wire::VERSION, shards, shards_first: self.shards_first }
    }

    fn raise_shards(&self, to: u16) -> Raised {
        match self.shards.fetch_max(to, Ordering::Relaxed) {
            from if from < to => Raised::From(from),
            from if from == to => Raised::Same,
            now => Raised::Less(now),
        }
    }

    /// Fails if one of these shards does not answer.
    fn answers(&self, mut shards: impl Iterator<Item = ShardId>) -> Result<(), StoreError> {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        match shards.find(|shard| silent.contains(shard)) {
            None => Ok(()),
            Some(shard) => {
                let (doing, reason) = ("reading runs", format!("shard {} does not answer", shard.0));
                Err(StoreError::Unreachable { address: "memory".into(), doing, reason })
            }
        }
    }

    /// Counts a request.
    fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// The data, for a request.
    fn lock(&self) -> MutexGuard<'_, Namespace> {
        self.count();
        self.look()
    }

    /// The data, for the rest of a request that was counted. After a panic of another holder they are still good enough
    /// for a test.
    fn look(&self) -> MutexGuard<'_, Namespace> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `found` after each notification of `came` until it returns something, for at most `at_most` of real
/// time (a test's clock may stand still).
async fn wait_for_items<T, F>(came: &Notify, at_most: Duration, mut found: F) -> Result<Vec<T>, StoreError>
where
    F: FnMut() -> Vec<T>,
{
    let deadline = Instant::now() + at_most;
    loop {
        // Listen first, so that nothing is missed between looking and waiting.
        let mut told = std::pin::pin!(came.notified());
        told.as_mut().enable();
        let items = found();
        if !items.is_empty() || at_most.is_zero() {
            return Ok(items);
        }
        if wait(told, deadline).await.is_err() {
            return Ok(found());
        }
    }
}

async fn wait(told: impl Future<Output = ()>, deadline: Instant) -> Result<(), tokio::time::error::Elapsed> {
    tokio::time::timeout_at(deadline, told).await
}

/// Records an announcement and returns all live ids, sorted.
fn announce(
    living: &mut BTreeMap<String, Timestamp>,
    id: &str,
    ttl: Duration,
    now: Timestamp,
) -> Vec<String> {
    living.insert(id.to_string(), now.plus(ttl));
    living.retain(|_, until| *until > now);
    living.keys().cloned().collect()
}

#[cfg(test)]
mod tests;
