//! Liveness shared between the parts of a worker: whether the read loop moves, how long the connection has been
//! undisturbed, and how many workers are alive.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

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
    fleet: AtomicUsize,
    stopping: AtomicBool,
}

impl Liveness {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            turned_ms: AtomicU64::new(0),
            disturbed_ms: AtomicU64::new(0),
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
    /// Returns true if the connection has been undisturbed for `time`.
    pub(crate) fn steady_for(&self, time: Duration) -> bool {
        self.since(&self.disturbed_ms) >= time
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
