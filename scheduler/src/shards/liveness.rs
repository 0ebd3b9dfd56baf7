//! Shows whether a loop still moves: it beats at every turn. A shard whose loop stops beating loses its lease. The loop
//! that takes shards beats too, on the same thread; `/livez` checks it, so that a supervisor can restart a hanging
//! process.
//!
//! Time is measured from the start of the process and not by the machine's clock: changing the clock must cost no
//! lease.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Silence after which a loop counts as dead. It is several times the longest wait within one turn (a blocking read and
/// a store that does not answer, 5 s each).
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The time of a loop's last beat.
#[derive(Debug, Default)]
pub struct Liveness {
    last: Mutex<Option<Instant>>,
}

impl Liveness {
    /// Records that the loop turned.
    pub fn beat(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
    /// True when the loop turned within the last [`SILENCE_MAX`], or has not begun yet.
    pub fn is_alive(&self) -> bool {
        self.moved_within(SILENCE_MAX)
    }
    /// True when the loop turned within the last `silence`, or has not begun yet.
    pub fn moved_within(&self, silence: Duration) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_none_or(|last| last.elapsed() <= silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_is_alive_until_it_has_been_silent_for_too_long() {
        let liveness = Liveness::default();
        assert!(liveness.is_alive(), "one that has not begun is not dead");
        liveness.beat();
        tokio::time::advance(SILENCE_MAX).await;
        assert!(liveness.is_alive());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!liveness.is_alive());
        liveness.beat();
        assert!(liveness.is_alive());
    }
}
