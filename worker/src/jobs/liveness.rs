//! Liveness shared between the parts of a worker: whether the read loop moves, how long the connection has been
//! undisturbed, and how many workers are alive.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidemill_common::ids::ShardId;
use tokio::time::Instant;

/// A read loop that has not moved for this long is stuck. Its longest operation is a read, which times out after a few
/// seconds.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(30);

/// The liveness state; see the module.
#[derive(Debug)]
pub(crate) struct Liveness {
    began: Instant,
    turned_ms: AtomicU64,
    disturbed_ms: AtomicU64,
    /// The same of single shards, in ms since the beginning.
    disturbed_shards: Mutex<HashMap<ShardId, u64>>,
    fleet: AtomicUsize,
    stopping: AtomicBool,
}

impl Liveness {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            turned_ms: AtomicU64::new(0),
            disturbed_ms: AtomicU64::new(0),
            disturbed_shards: Mutex::default(),
            fleet: AtomicUsize::new(1),
            stopping: AtomicBool::new(false),
        }
    }
    /// Notes that the read loop moved.
    pub(crate) fn turn(&self) {
        self.turned_ms.store(self.now_ms(), Ordering::Relaxed);
    }
    /// Returns true if the read loop moves, or has ended because the worker stops.
    pub(crate) fn moves(&self) -> bool {
        self.is_stopping() || self.since(&self.turned_ms) < STUCK_AFTER
    }
    /// Notes that the connection came up, broke or stalled. For one lease the idle times in the store mean nothing,
    /// because no worker could renew its jobs.
    pub(crate) fn disturb(&self) {
        self.disturbed_ms.store(self.now_ms(), Ordering::Relaxed);
    }
    /// The same for one shard, whose server in a cluster does not answer while others do.
    pub(crate) fn disturb_shard(&self, shard: ShardId) {
        let now = self.now_ms();
        self.disturbed_shards.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, now);
    }
    /// Returns true if the connection to a shard has been undisturbed for `time`.
    pub(crate) fn steady_for(&self, shard: ShardId, time: Duration) -> bool {
        let shards = self.disturbed_shards.lock().unwrap_or_else(PoisonError::into_inner);
        let of_shard = shards.get(&shard).copied();
        drop(shards);
        let since = |at: u64| Duration::from_millis(self.now_ms().saturating_sub(at));
        self.since(&self.disturbed_ms) >= time && of_shard.is_none_or(|at| since(at) >= time)
    }
    /// The number of live workers, including this one.
    pub(crate) fn fleet(&self) -> usize {
        self.fleet.load(Ordering::Relaxed).max(1)
    }
    pub(crate) fn set_fleet(&self, workers: usize) {
        self.fleet.store(workers, Ordering::Relaxed);
    }
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn since(&self, moment: &AtomicU64) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(moment.load(Ordering::Relaxed)))
    }
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
