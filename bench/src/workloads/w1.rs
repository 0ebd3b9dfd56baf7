//! W1: the time of a step when the system does nothing else.

use futures_util::FutureExt as _;

use super::Unit;
use super::Workload;
use super::timed::Timed;
use super::workflow::Executor;
use crate::floor::Shape;
use crate::lab::BareLoop;
use crate::measure::Load;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: TIMED.name,
    about: TIMED.about,
    floor: Some(TIMED.floor),
    measure: |lab| TIMED.measure(lab).boxed_local(),
};

/// The least cost of one step.
pub(super) static FLOOR: BareLoop =
    BareLoop { name: "floor W1", shape: SHAPE, unit: Unit::MicrosPerStep, load };

const SHAPE: Shape = Shape::Chain(100);

static TIMED: Timed = Timed {
    name: "W1",
    about: "one run of 100 steps on a worker, one after the other",
    shape: SHAPE,
    executor: Executor::Worker,
    load,
    floor: &FLOOR,
    targets: &[Target::FloorAtMost(1.6)],
};

/// Long enough for a meaningful processor time per step.
fn load(is_quick: bool) -> Load {
    Load::one_by_one(if is_quick { 5 } else { 60 })
}
