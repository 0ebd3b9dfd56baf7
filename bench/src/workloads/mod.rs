//! What is run: one file per workload, one table. [`timed`] are those that only take time; the others say themselves what
//! they measure. A new one is a file and a line in the table.

mod code;
mod idle;
mod memory;
mod timed;
mod w1;
mod w1p;
mod w2;
mod w2p;
mod w3;
mod w4;
mod w5;
mod w6;
pub(crate) mod w7;
mod w8;
mod workflow;

use futures_util::future::LocalBoxFuture;

use crate::error::Error;
use crate::lab::{BareLoop, Lab};

/// Something to measure.
pub(crate) struct Workload {
    /// Its name, such as `W1`. Its rows are called so, or begin so: `W4/1000`.
    pub(crate) name: &'static str,
    /// What it is, for people.
    pub(crate) about: &'static str,
    /// The bare loop that it is held against, if any: what `--floor-only` measures of it.
    pub(crate) floor: Option<&'static BareLoop>,
    /// Measures it once, and tells the lab its rows.
    pub(crate) measure: fn(&Lab) -> LocalBoxFuture<'_, Result<(), Error>>,
}

/// All of them, in the order of the table.
pub(crate) const WORKLOADS: [Workload; 12] = [
    w1::WORKLOAD,
    w1p::WORKLOAD,
    w2::WORKLOAD,
    w2p::WORKLOAD,
    w3::WORKLOAD,
    w4::WORKLOAD,
    w5::WORKLOAD,
    w6::WORKLOAD,
    w8::WORKLOAD,
    code::WORKLOAD,
    idle::WORKLOAD,
    memory::WORKLOAD,
];

/// How the seconds of a load are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Microseconds a step: one run's latency.
    MicrosPerStep,
    /// Steps a second: throughput.
    StepsPerSecond,
    /// Items of an iteration a second.
    ItemsPerSecond,
    /// Milliseconds a run.
    Millis,
}

impl Unit {
    /// Its name in the table and in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MicrosPerStep => "us/step",
            Self::StepsPerSecond => "steps/s",
            Self::ItemsPerSecond => "items/s",
            Self::Millis => "ms",
        }
    }

    /// What `seconds` for so many steps are in this unit.
    pub(crate) fn value(self, seconds: f64, steps: usize) -> f64 {
        let steps = steps as f64;
        match self {
            Self::MicrosPerStep => seconds * 1e6 / steps,
            Self::StepsPerSecond | Self::ItemsPerSecond => steps / seconds,
            Self::Millis => seconds * 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_workload_has_a_name_of_its_own() {
        let names: HashSet<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), WORKLOADS.len());
    }

    #[test]
    fn seconds_are_told_in_each_unit() {
        for (unit, expected) in [
            (Unit::MicrosPerStep, 20_000.0),
            (Unit::StepsPerSecond, 50.0),
            (Unit::ItemsPerSecond, 50.0),
            (Unit::Millis, 2000.0),
        ] {
            assert_eq!(unit.value(2.0, 100), expected, "{unit:?}");
        }
    }
}
