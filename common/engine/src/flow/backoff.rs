//! Computes the wait of a failed node before its next attempt. The function is pure: the jitter, which keeps many runs
//! from retrying at the same moment, is derived from the execution's id and not random.

use sha2::{Digest, Sha256};

use tidemill_base::ids::ExecutionId;
use tidemill_workflow::graph::{NodeSettings, RetryConfig};

/// The milliseconds between the failure of `attempt`, counted from 1, and the next attempt.
///
/// The interval grows by the multiplier with each attempt, up to its cap. Jitter then shortens or lengthens it by up to
/// its share, so the result may exceed the cap. `retry_after_ms`, the wait that the server asked for, replaces a
/// shorter result if the settings honour it.
pub fn wait_ms(
    retry: &RetryConfig,
    settings: &NodeSettings,
    execution: &ExecutionId,
    attempt: u32,
    retry_after_ms: Option<u64>,
) -> u64 {
    let own = own_wait_ms(retry, settings, execution, attempt);
    match retry_after_ms {
        Some(asked) if settings.honour_retry_after => own.max(asked),
        Some(_) | None => own,
    }
}

fn own_wait_ms(retry: &RetryConfig, settings: &NodeSettings, execution: &ExecutionId, attempt: u32) -> u64 {
    // Without backoff the interval is used as it is.
    let Some(backoff) = &settings.backoff else { return retry.interval_ms };
    // Zero times an infinite power would not be zero.
    if retry.interval_ms == 0 {
        return 0;
    }
    let growth = backoff.multiplier.powf(f64::from(attempt.saturating_sub(1)));
    let cap = backoff.max_interval_ms.map_or(f64::INFINITY, |cap| cap as f64);
    let wait = (retry.interval_ms as f64 * growth).min(cap);
    let swing = 1.0 + backoff.jitter * share(execution, attempt);
    // The cast saturates: an infinite wait becomes the longest possible.
    (wait * swing).round() as u64
}

/// A number from -1 to 1, always the same for an attempt of an execution.
fn share(execution: &ExecutionId, attempt: u32) -> f64 {
    let digest = Sha256::digest(format!("{execution}/{attempt}").as_bytes());
    let mut first = [0; 4];
    first.copy_from_slice(&digest[..4]);
    f64::from(u32::from_be_bytes(first)) / f64::from(u32::MAX) * 2.0 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidemill_base::ids::{FramePath, RunId, ShardId};
    use tidemill_workflow::graph::Backoff;

    fn execution(number: u64) -> ExecutionId {
        ExecutionId::derive(&RunId::new(number, 2, ShardId(3)), &FramePath::root(), &"llm".into())
    }
    fn retry(interval_ms: u64) -> RetryConfig {
        RetryConfig { enabled: true, retries_max: 5, interval_ms }
    }
    fn settings(multiplier: f64, max_interval_ms: Option<u64>, jitter: f64) -> NodeSettings {
        let backoff = Some(Backoff { multiplier, max_interval_ms, jitter });
        NodeSettings { backoff, ..NodeSettings::default() }
    }

    #[test]
    fn waits_grow_up_to_their_cap() {
        for (interval, multiplier, cap, waits) in [
            (100, 2.0, None, [100, 200, 400, 800]),
            (100, 2.0, Some(300), [100, 200, 300, 300]),
            (100, 1.5, None, [100, 150, 225, 338]),
            (100, 1.0, None, [100, 100, 100, 100]),
            (500, 1.0, Some(300), [300, 300, 300, 300]),
            (0, 2.0, None, [0, 0, 0, 0]),
        ] {
            let settings = settings(multiplier, cap, 0.0);
            for (attempt, wait) in (1..).zip(waits) {
                let found = wait_ms(&retry(interval), &settings, &execution(1), attempt, None);
                assert_eq!(found, wait, "{interval} × {multiplier}^({attempt}-1), at most {cap:?}");
            }
        }
    }

    #[test]
    fn without_backoff_every_wait_is_the_interval() {
        for interval in [0, 7, u64::MAX] {
            let found = wait_ms(&retry(interval), &NodeSettings::default(), &execution(1), 9, Some(u64::MAX));
            assert_eq!(found, interval);
        }
    }

    #[test]
    fn a_longer_wait_that_the_server_asks_for_is_honoured_if_the_settings_say_so() {
        for (honour_retry_after, asked, wait) in
            [(true, Some(5000), 5000), (true, Some(10), 100), (true, None, 100), (false, Some(5000), 100)]
        {
            let settings = NodeSettings { honour_retry_after, ..settings(1.0, Some(200), 0.0) };
            assert_eq!(wait_ms(&retry(100), &settings, &execution(1), 1, asked), wait);
        }
    }

    #[test]
    fn jitter_differs_between_executions_and_attempts_and_goes_both_ways() {
        let settings = settings(1.0, None, 0.5);
        let waits: Vec<u64> =
            (0..50).map(|n| wait_ms(&retry(1000), &settings, &execution(n), 1, None)).collect();
        assert!(waits.iter().any(|&wait| wait < 900) && waits.iter().any(|&wait| wait > 1100), "{waits:?}");
        assert_ne!(
            wait_ms(&retry(1_000_000), &settings, &execution(1), 1, None),
            wait_ms(&retry(1_000_000), &settings, &execution(1), 2, None)
        );
    }

    proptest! {
        #[test]
        fn a_wait_is_always_the_same_and_within_its_bounds(
            interval in 0u64..10_000_000,
            multiplier in 1.0f64..10.0,
            cap in proptest::option::of(1u64..10_000_000),
            jitter in 0.0f64..=1.0,
            attempt in 0u32..2000,
            number in any::<u32>(),
            asked in proptest::option::of(any::<u64>()),
        ) {
            let plain = settings(multiplier, cap, 0.0);
            let jittered = NodeSettings { honour_retry_after: true, ..settings(multiplier, cap, jitter) };
            let execution = execution(u64::from(number));
            let wait = |settings: &NodeSettings, asked| wait_ms(&retry(interval), settings, &execution, attempt, asked);
            let (base, own) = (wait(&plain, None), wait(&jittered, None));
            prop_assert_eq!(own, wait(&jittered, None));
            prop_assert!(cap.is_none_or(|cap| base <= cap));
            prop_assert!(base >= interval.min(cap.unwrap_or(u64::MAX)));
            // One for rounding, on both sides.
            let (base, found) = (base as f64, own as f64);
            prop_assert!(found >= (base - 1.0) * (1.0 - jitter) - 1.0);
            prop_assert!(found <= (base + 1.0) * (1.0 + jitter) + 1.0);
            prop_assert_eq!(wait(&jittered, asked), own.max(asked.unwrap_or(0)));
        }
    }
}
