//! W3: the time of a run that fans out and joins again.

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

static FLOOR: BareLoop = BareLoop { name: "floor W3", shape: SHAPE, unit: Unit::Millis, load };

const SHAPE: Shape = Shape::Fan(100);

static TIMED: Timed = Timed {
    name: "W3",
    about: "one run of a step, 100 parallel steps and a step, on a worker",
    shape: SHAPE,
    executor: Executor::Worker,
    load,
    floor: &FLOOR,
    // 7 ms on a machine whose floor takes 2.8. As a ratio it is the looser one of the two.
    targets: &[Target::FloorAtMost(2.0), Target::AtMost(7.0)],
};

fn load(is_quick: bool) -> Load {
    Load::one_by_one(if is_quick { 5 } else { 60 })
}
