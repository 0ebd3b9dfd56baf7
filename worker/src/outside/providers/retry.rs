//! Decides when the client repeats a model call, and after which wait.
//!
//! These retries are separate from the node's retries in the workflow. A failed request is repeated a few times, but
//! never after a piece of the reply was passed on. Calls of jobs are counted and delayed in [`crate::outside::providers::limiter`] instead,
//! where a long wait occupies no worker.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use reqwest::header::HeaderMap;

/// Longest wait within a call. If the provider asks for more, the error is returned with that time, so that the engine
/// waits instead of a worker.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// First wait without a hint; each further one doubles.
const WAIT_FIRST: Duration = Duration::from_millis(500);
/// Longest wait without a hint.
const WAIT_LONGEST: Duration = Duration::from_secs(8);

/// Retry hints in the headers of a failed answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// The header `x-should-retry`.
    pub retry: Option<bool>,
    /// The header `retry-after-ms` or `retry-after`.
    pub after: Option<Duration>,
}

impl Hints {
    /// Reads the headers. A date in `retry-after` is compared with `now_unix_ms`.
    pub fn of(headers: &HeaderMap, now_unix_ms: i64) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let retry = text("x-should-retry").and_then(|value| value.parse().ok());
        let precise = text("retry-after-ms").and_then(|value| duration(value, 0.001));
        let after = precise.or_else(|| text("retry-after").and_then(|value| retry_after(value, now_unix_ms)));
        Self { retry, after }
    }
}

/// Returns the wait before try number `tries + 1`, or `None` to give up.
pub fn wait(tries: u32, retries_max: u32, retryable: bool, hints: Hints) -> Option<Duration> {
    if tries > retries_max || !hints.retry.unwrap_or(retryable) {
        return None;
    }
    match hints.after {
        Some(after) if after > WAIT_MAX => None,
        Some(after) if !after.is_zero() => Some(after),
        Some(_) | None => Some(pause(tries)),
    }
}

/// Returns the wait before try number `tries + 1` without a hint.
pub fn pause(tries: u32) -> Duration {
    let doubled = WAIT_FIRST.saturating_mul(1 << tries.saturating_sub(1).min(16));
    doubled.min(WAIT_LONGEST).mul_f64(jitter())
}

/// A factor from 0.75 to 1.25, so that clients that failed together do not return together.
fn jitter() -> f64 {
    let random = RandomState::new().build_hasher().finish() % 1000;
    0.75 + random as f64 / 2000.0
}

fn retry_after(value: &str, now_unix_ms: i64) -> Option<Duration> {
    if let Some(seconds) = duration(value, 1.0) {
        return Some(seconds);
    }
    let date = chrono::DateTime::parse_from_rfc2822(value).ok()?;
    Some(Duration::from_millis(u64::try_from(date.timestamp_millis() - now_unix_ms).unwrap_or(0)))
}

fn duration(value: &str, unit: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(value.parse::<f64>().ok()? * unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(pairs: &[(&'static str, &str)]) -> Hints {
        let headers = pairs
            .iter()
            .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()));
        Hints::of(&headers.collect(), 1_700_000_000_000)
    }

    #[test]
    fn the_wait_is_what_the_provider_asks_for() {
        for (pairs, after_ms) in [
            (&[("retry-after", "2")][..], Some(2000)),
            (&[("retry-after", "0.5")], Some(500)),
            (&[("retry-after-ms", "250"), ("retry-after", "9")], Some(250)),
            (&[("retry-after", "Tue, 14 Nov 2023 22:13:30 GMT")], Some(10_000)),
            (&[("retry-after", "soon")], None),
            (&[], None),
        ] {
            assert_eq!(hints(pairs).after, after_ms.map(Duration::from_millis), "{pairs:?}");
        }
    }

    #[test]
    fn tries_are_bounded_and_a_long_wait_is_left_to_the_engine() {
        let after = |seconds| Hints { after: Some(Duration::from_secs(seconds)), retry: None };
        assert_eq!(wait(1, 2, true, after(3)), Some(Duration::from_secs(3)));
        assert_eq!(wait(2, 2, true, after(3)), Some(Duration::from_secs(3)));
        assert_eq!(wait(3, 2, true, after(3)), None);
        assert_eq!(wait(1, 2, true, after(61)), None);
        assert_eq!(wait(1, 2, false, after(3)), None);
        assert_eq!(wait(1, 0, true, after(3)), None);
        assert_eq!(wait(1, 2, true, Hints { retry: Some(false), after: None }), None);
        for (tries, least, most) in [(1, 375, 625), (2, 750, 1250), (9, 6000, 10_000)] {
            let wait = wait(tries, 9, true, Hints::default()).unwrap();
            assert!((least..=most).contains(&wait.as_millis()), "{tries}: {wait:?}");
        }
    }
}
