//! Loads and figures, the same for the floor and for Tidemill.

use crate::process::Cpu;

/// What is run for one figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Runs beforehand, one at a time, that are not counted.
    pub(crate) warm_up: usize,
    /// How often the load is measured; the median counts.
    pub(crate) times: usize,
    /// Runs each time.
    pub(crate) runs: usize,
    /// Most runs at once.
    pub(crate) in_flight: usize,
}

impl Load {
    /// One run at a time, `times` of them.
    pub(crate) fn one_by_one(times: usize) -> Self {
        Self { warm_up: 3, times, runs: 1, in_flight: 1 }
    }

    /// The same behind another warm-up.
    pub(crate) fn warmed_by(self, warm_up: usize) -> Self {
        Self { warm_up, ..self }
    }

    /// `runs` runs, 200 of them at once.
    pub(crate) fn at_once(runs: usize) -> Self {
        Self { warm_up: 3, times: 1, runs, in_flight: 200 }
    }
}

/// What a load took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    /// Median seconds of one time.
    pub(crate) seconds: f64,
    /// Processor time a step of each process, in microseconds.
    pub(crate) cpu_us_per_step: Cpu,
}

/// The middle one; 0 of none.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match (values.get(values.len().saturating_sub(1) / 2), values.get(values.len() / 2)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        (None, _) | (_, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middle_ones() {
        for (values, expected) in
            [(vec![], 0.0), (vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 9.0], 3.0)]
        {
            assert_eq!(median(&mut values.clone()), expected, "{values:?}");
        }
    }
}
