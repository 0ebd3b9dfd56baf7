//! Time as a value. The engine receives every [`Timestamp`] as an input and never reads a clock itself. Only
//! the scheduler, the workers and the other programs hold a [`Clock`].

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment: Unix time in microseconds. Schedulers and workers take it from Redis, so that all processes
/// agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Converts from Unix microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }
    /// Converts from Unix milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis * 1000)
    }
    /// Returns Unix microseconds.
    pub const fn micros(self) -> i64 {
        self.0
    }
    /// Returns Unix milliseconds, rounded down.
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(1000)
    }
    /// Returns Unix seconds, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }
    /// Returns Unix seconds with their fraction, as Dify's events carry them.
    pub fn seconds_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// Returns the seconds from `earlier` to this moment; 0 when `earlier` is later.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        (self.0 - earlier.0).max(0) as f64 / 1e6
    }
    /// Returns this moment minus `duration`.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
    /// Returns this moment plus `duration`.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The environment variable that shifts the system clock, in milliseconds. Tests use it to run processes with
/// differing clocks; no guarantee depends on the clock of a process.
pub const OFFSET_VARIABLE: &str = "TIDEMILL_TEST_CLOCK_OFFSET_MS";

static OFFSET_MICROS: LazyLock<i64> = LazyLock::new(|| {
    let given = std::env::var(OFFSET_VARIABLE).ok().and_then(|text| text.parse::<i64>().ok());
    given.unwrap_or(0).saturating_mul(1000)
});

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(chrono::Utc::now().timestamp_micros() + *OFFSET_MICROS)
    }
}

/// A clock that moves only by [`Self::advance`]; for tests and the simulator.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.0))
    }
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
