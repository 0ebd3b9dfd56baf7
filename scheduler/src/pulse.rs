//! Whether the process still moves. The drive loop beats at every turn; `/livez` asks when it last did. A loop that
//! hangs in a dead lock beats no more, and whoever watches the process starts it anew.

use std::sync::atomic::{AtomicU64, Ordering};

/// Silence after which a loop counts as dead, in milliseconds: several times the longest wait within one turn (a
/// blocking read and a store that does not answer, 5 s each).
pub const SILENCE_MS_MAX: u64 = 30_000;

/// The last movement of a loop.
#[derive(Debug, Default)]
pub struct Pulse {
    // 0 until the first beat. Relaxed: one number that nothing else hangs on.
    last_ms: AtomicU64,
}

impl Pulse {
    /// Notes that the loop moved, at a time in milliseconds of any clock that does not run backwards.
    pub fn beat(&self, now_ms: u64) {
        self.last_ms.fetch_max(now_ms, Ordering::Relaxed);
    }
    /// True when the loop moved within the last [`SILENCE_MS_MAX`], or has not begun yet.
    pub fn is_alive(&self, now_ms: u64) -> bool {
        self.moved_within(now_ms, SILENCE_MS_MAX)
    }
    /// True when the loop moved within the last `silence_ms`, or has not begun yet.
    pub fn moved_within(&self, now_ms: u64, silence_ms: u64) -> bool {
        let last = self.last_ms.load(Ordering::Relaxed);
        last == 0 || now_ms.saturating_sub(last) <= silence_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_alive_until_it_has_been_silent_for_too_long() {
        let pulse = Pulse::default();
        assert!(pulse.is_alive(1_000_000), "one that has not begun is not dead");
        pulse.beat(1_000_000);
        assert!(pulse.is_alive(1_000_000 + SILENCE_MS_MAX));
        assert!(!pulse.is_alive(1_000_001 + SILENCE_MS_MAX));
    }
}
