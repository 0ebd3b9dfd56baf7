//! The table of workloads, one file per workload. Those with [`timed`] measure only time; the others decide themselves
//! what to measure. To add one, add a file and a line in the table.

mod code;
mod fibo;
mod first;
mod idle;
mod memory;
mod plugin;
mod timed;
mod timers;
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
    /// The name, such as `W1`. The names of its rows are equal to it or begin with it: `W4/1000`.
    pub(crate) name: &'static str,
    /// A description.
    pub(crate) about: &'static str,
    /// The bare loop that it is compared with, if any. `--floor-only` measures this.
    pub(crate) floor: Option<&'static BareLoop>,
    /// Measures the workload once and adds its rows to the lab.
    pub(crate) measure: fn(&Lab) -> LocalBoxFuture<'_, Result<(), Error>>,
}

/// All workloads, in the order of the table.
pub(crate) const WORKLOADS: [Workload; 16] = [
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
    fibo::WORKLOAD,
    plugin::WORKLOAD,
    first::WORKLOAD,
    idle::WORKLOAD,
    timers::WORKLOAD,
    memory::WORKLOAD,
];

/// The unit for the time of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Microseconds per step: the latency of one run.
    MicrosPerStep,
    /// Steps per second: throughput.
    StepsPerSecond,
    /// Items of an iteration per second.
    ItemsPerSecond,
    /// Milliseconds per run.
    Millis,
}

impl Unit {
    /// The name in the table and in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MicrosPerStep => "us/step",
            Self::StepsPerSecond => "steps/s",
            Self::ItemsPerSecond => "items/s",
            Self::Millis => "ms",
        }
    }

    /// Converts `seconds` for so many steps to this unit.
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
    fn every_workload_has_a_unique_name() {
        let names: HashSet<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), WORKLOADS.len());
    }

    #[test]
    fn seconds_are_converted_to_each_unit() {
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
