//! Waits after errors of the store, and logs them once. If Redis is away for a minute, the log has one line when it
//! fails and one when it answers again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidemill_common::store::StoreError;

use crate::metrics;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Waits that double from 50 ms to 2 s. Each has jitter, so that the workers do not retry at the same moment.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// Returns the wait after one more error.
    pub(crate) fn next(&mut self) -> Duration {
        let full = FIRST.saturating_mul(1 << self.tries.min(6)).min(LONGEST);
        self.tries = self.tries.saturating_add(1);
        full.mul_f64(0.5 + 0.5 * fraction())
    }
    /// Waits after one more error.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }
    /// Starts again with the shortest wait, after a success.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

/// A random number in `0.0..1.0`, for jitter only.
pub(crate) fn fraction() -> f64 {
    let (_, low) = uuid::Uuid::new_v4().as_u64_pair();
    // The upper bits of the lower half hold the UUID variant, hence the remainder.
    (low % 1_000_000) as f64 / 1e6
}

/// The health of one kind of request. Logs only changes.
#[derive(Debug)]
pub(crate) struct Condition {
    doing: &'static str,
    failing: AtomicBool,
}

impl Condition {
    pub(crate) const fn new(doing: &'static str) -> Self {
        Self { doing, failing: AtomicBool::new(false) }
    }
    /// Counts a failed request.
    pub(crate) fn failed(&self, error: &StoreError) {
        metrics::STORE_ERRORS.count_for(self.doing);
        if self.failing.swap(true, Ordering::Relaxed) {
            tracing::debug!(doing = self.doing, %error, "still failing");
        } else {
            tracing::warn!(doing = self.doing, %error, "the store fails; trying again until it answers");
        }
    }
    /// Notes a successful request.
    pub(crate) fn works(&self) {
        // A plain load first, because every batch passes here.
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!(doing = self.doing, "the store answers again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_two_seconds_with_jitter_and_begin_anew() {
        let mut backoff = Backoff::default();
        for full_ms in [50u64, 100, 200, 400, 800, 1600, 2000, 2000, 2000] {
            let wait = backoff.next();
            let full = Duration::from_millis(full_ms);
            assert!(wait >= full / 2 && wait <= full, "{wait:?} of {full:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
