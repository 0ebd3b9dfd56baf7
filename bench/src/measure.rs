//! Loads and figures, for the floor and for Tidemill.

use crate::process::Cpu;

/// The runs for one figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Number of runs before measuring, one at a time.
    pub(crate) warm_up: usize,
    /// How often the load is measured; the median is the figure.
    pub(crate) times: usize,
    /// Number of runs each time.
    pub(crate) runs: usize,
    /// Most runs in flight.
    pub(crate) in_flight: usize,
}

impl Load {
    /// One run at a time, `times` times.
    pub(crate) fn one_by_one(times: usize) -> Self {
        Self { warm_up: 3, times, runs: 1, in_flight: 1 }
    }

    /// Changes the number of runs of the warm-up.
    pub(crate) fn warmed_by(self, warm_up: usize) -> Self {
        Self { warm_up, ..self }
    }

    /// `runs` runs, 200 of them in flight.
    pub(crate) fn at_once(runs: usize) -> Self {
        Self { warm_up: 3, times: 1, runs, in_flight: 200 }
    }
}

/// The result of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    /// Median of the seconds of each time.
    pub(crate) seconds: f64,
    /// Processor time per step of each process, in microseconds.
    pub(crate) cpu_us_per_step: Cpu,
}

/// Returns the median; 0 if there are no values.
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
    fn the_median_is_the_middle_value_or_the_mean_of_the_two_middle_ones() {
        for (values, expected) in
            [(vec![], 0.0), (vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 9.0], 3.0)]
        {
            assert_eq!(median(&mut values.clone()), expected, "{values:?}");
        }
    }
}
