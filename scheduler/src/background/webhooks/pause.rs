//! The pause before the next try of a notice. Pure.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_secs(5);
/// Each pause is so many times longer than the one before.
const FACTOR: u32 = 3;

/// The pause after so many tries: 5 s, 15 s, 45 s … up to `longest`, less up to a fifth, so that many notices of one receiver
/// do not come at once. `random` is any number. A receiver that asks for a longer pause gets it, up to `longest`.
pub(super) fn pause(tries: u32, longest: Duration, asked: Option<Duration>, random: u64) -> Duration {
    let factor = FACTOR.checked_pow(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    let whole = FIRST.saturating_mul(factor).min(longest);
    let less = whole / 5 * u32::try_from(random % 1000).unwrap_or(0) / 1000;
    asked.unwrap_or_default().min(longest).max(whole - less)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_differ() {
        let (hour, seconds) = (Duration::from_secs(3600), Duration::from_secs);
        for (tries, asked, random, expected) in [
            (1, None, 0, seconds(5)),
            (2, None, 1000, seconds(15)),
            (3, None, 0, seconds(45)),
            (1, None, 500, Duration::from_millis(4500)),
            (7, None, 0, hour),
            (u32::MAX, None, 0, hour),
            (0, None, 0, seconds(5)),
            (1, Some(seconds(60)), 500, seconds(60)),
            (3, Some(seconds(1)), 0, seconds(45)),
            (1, Some(seconds(100_000)), 0, hour),
        ] {
            assert_eq!(pause(tries, hour, asked, random), expected, "{tries} {asked:?} {random}");
        }
        for random in 0..3000 {
            let pause = pause(2, hour, None, random);
            assert!((seconds(12)..=seconds(15)).contains(&pause), "{pause:?}");
        }
    }
}
