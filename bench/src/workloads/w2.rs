//! W2: steps per second under full load.

use futures_util::FutureExt as _;

use super::Unit;
use super::Workload;
use super::timed::Timed;
use super::workflow::Executor;
use crate::floor::Shape;
use crate::lab::BareLoop;
use crate::measure::Load;
use crate::process::Cpu;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: TIMED.name,
    about: TIMED.about,
    floor: Some(TIMED.floor),
    measure: |lab| TIMED.measure(lab).boxed_local(),
};

/// The most steps per second that are possible.
pub(super) static FLOOR: BareLoop = BareLoop {
    name: "floor W2",
    shape: SHAPE,
    unit: Unit::StepsPerSecond,
    load: |is_quick| Load::at_once(if is_quick { 1000 } else { 5000 }),
};

const SHAPE: Shape = Shape::Chain(20);

/// Allowed processor time per step. Where the bare loop makes fewer than [`FLOOR_STEPS`] a second, a step takes longer,
/// so the table also shows whether the target is met when it is scaled by the floor.
const CPU: Cpu = Cpu { redis: 25.0, scheduler: 8.0, worker: 8.0 };
const FLOOR_STEPS: f64 = 57_000.0;

/// Also used by W8, on other fleets.
pub(super) static TIMED: Timed = Timed {
    name: "W2",
    about: "200 runs of 20 steps on a worker at once",
    shape: SHAPE,
    executor: Executor::Worker,
    // Enough runs for some seconds.
    load: |is_quick| Load::at_once(if is_quick { 400 } else { 2000 }),
    floor: &FLOOR,
    targets: &[
        Target::FloorAtLeast(0.44),
        Target::CpuAtMost(CPU),
        Target::CpuByFloorAtMost(CPU, FLOOR_STEPS),
    ],
};
