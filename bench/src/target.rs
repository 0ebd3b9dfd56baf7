//! The targets: the bound that a row of the result table should meet. A missed target is shown; it is an error only with `--strict`.

use crate::process::Cpu;
use crate::report::Row;

/// A bound for one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// The value is at most this.
    AtMost(f64),
    /// The value is at least this.
    AtLeast(f64),
    /// The value is below this.
    Below(f64),
    /// The ratio to the floor is at most this.
    FloorAtMost(f64),
    /// The ratio to the floor is at least this.
    FloorAtLeast(f64),
    /// Each process takes at most so many microseconds per step.
    CpuAtMost(Cpu),
    /// Like `CpuAtMost` where the floor reaches the given number of steps per second; where it reaches fewer, the bound
    /// is higher in proportion, because a slow processor is slow for both. Only for rows in steps per second.
    CpuByFloorAtMost(Cpu, f64),
}

impl Target {
    /// Returns true if the row meets the target. A row without the value that the target is about does not.
    pub(crate) fn is_met(self, row: &Row) -> bool {
        let ratio = row.ratio_to_floor;
        match self {
            Self::AtMost(bound) => row.value <= bound,
            Self::AtLeast(bound) => row.value >= bound,
            Self::Below(bound) => row.value < bound,
            Self::FloorAtMost(bound) => ratio.is_some_and(|ratio| ratio <= bound),
            Self::FloorAtLeast(bound) => ratio.is_some_and(|ratio| ratio >= bound),
            Self::CpuAtMost(bound) => row.cpu_us_per_step.is_some_and(|cpu| is_within(cpu, bound, 1.0)),
            Self::CpuByFloorAtMost(bound, floor) => {
                row.cpu_us_per_step.zip(ratio).is_some_and(|(cpu, ratio)| {
                    let of_this_minute = row.value / ratio;
                    is_within(cpu, bound, (of_this_minute / floor).min(1.0))
                })
            }
        }
    }

    /// Formats the target, such as `<= 1.6 x floor`.
    pub(crate) fn words(self) -> String {
        match self {
            Self::AtMost(bound) => format!("<= {bound}"),
            Self::AtLeast(bound) => format!(">= {bound}"),
            Self::Below(bound) => format!("< {bound}"),
            Self::FloorAtMost(bound) => format!("<= {} x floor", rounded(bound)),
            Self::FloorAtLeast(bound) => format!(">= {} x floor", rounded(bound)),
            Self::CpuAtMost(bound) => format!("cpu <= {}/{}/{}", bound.redis, bound.scheduler, bound.worker),
            Self::CpuByFloorAtMost(bound, floor) => {
                format!("{} at a floor of {floor}", Self::CpuAtMost(bound).words())
            }
        }
    }
}

/// Returns true if each process is within its bound, multiplied by `times`.
fn is_within(cpu: Cpu, bound: Cpu, times: f64) -> bool {
    cpu.redis * times <= bound.redis
        && cpu.scheduler * times <= bound.scheduler
        && cpu.worker * times <= bound.worker
}

/// Rounds to two digits after the point.
fn rounded(bound: f64) -> f64 {
    (bound * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_up_to_its_bound_by_the_value_that_it_is_about() {
        let cpu = Cpu { redis: 20.0, scheduler: 8.0, worker: 9.0 };
        let row = Row {
            name: "x".into(),
            value: 2.0,
            unit: "ms",
            ratio_to_floor: Some(0.5),
            targets: &[],
            cpu_us_per_step: Some(cpu),
            about: String::new(),
        };
        for (target, expected) in [
            (Target::AtMost(2.0), true),
            (Target::AtMost(1.9), false),
            (Target::AtLeast(2.0), true),
            (Target::AtLeast(2.1), false),
            (Target::Below(2.0), false),
            (Target::FloorAtMost(0.5), true),
            (Target::FloorAtLeast(0.6), false),
            (Target::CpuAtMost(cpu), true),
            (Target::CpuAtMost(Cpu { worker: 8.0, ..cpu }), false),
            // The floor of this row is 4.
            (Target::CpuByFloorAtMost(Cpu { redis: 10.0, scheduler: 4.0, worker: 4.5 }, 8.0), true),
            (Target::CpuByFloorAtMost(Cpu { redis: 10.0, scheduler: 3.9, worker: 4.5 }, 8.0), false),
            // With a faster floor the bound stays the same.
            (Target::CpuByFloorAtMost(cpu, 2.0), true),
        ] {
            assert_eq!(target.is_met(&row), expected, "{target:?}");
        }
        let bare = Row { ratio_to_floor: None, cpu_us_per_step: None, ..row };
        let about_floor =
            [Target::FloorAtMost(9.0), Target::CpuAtMost(cpu), Target::CpuByFloorAtMost(cpu, 1.0)];
        assert!(about_floor.iter().all(|target| !target.is_met(&bare)));
    }
}
