//! Plans when clients come: at random and independent of each other. The same seed gives the same plan.

use std::time::Duration;

/// Returns the times of a Poisson process with `per_second` arrivals a second.
pub(super) fn arrivals(seed: u64, per_second: f64, lasts: Duration) -> Vec<Duration> {
    let mut random = SplitMix(seed);
    let mut at = 0.0;
    let mut moments = Vec::new();
    loop {
        at -= random.fraction().ln() / per_second;
        let moment = Duration::from_secs_f64(at);
        if moment >= lasts {
            return moments;
        }
        moments.push(moment);
    }
}

/// SplitMix64: a simple generator that is random enough for this.
struct SplitMix(u64);

impl SplitMix {
    /// Returns a number above 0 and at most 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_plan_with_about_the_requested_number_of_arrivals() {
        let plan = arrivals(7, 100.0, Duration::from_secs(20));
        assert_eq!(plan, arrivals(7, 100.0, Duration::from_secs(20)));
        assert_ne!(plan, arrivals(8, 100.0, Duration::from_secs(20)));
        assert!(plan.is_sorted() && plan.len().abs_diff(2000) < 150, "{}", plan.len());
    }
}
