//! W1p: the chain of W1 with pure nodes, which the scheduler evaluates itself.

use futures_util::FutureExt as _;

use super::Workload;
use super::timed::Timed;
use super::w1;
use super::workflow::Executor;
use crate::floor::Shape;
use crate::measure::Load;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: TIMED.name,
    about: TIMED.about,
    floor: Some(TIMED.floor),
    measure: |lab| TIMED.measure(lab).boxed_local(),
};

static TIMED: Timed = Timed {
    name: "W1p",
    about: "one run of 100 pure steps, one after the other",
    shape: Shape::Chain(100),
    executor: Executor::Scheduler,
    load: |is_quick| Load::one_by_one(if is_quick { 5 } else { 100 }),
    floor: &w1::FLOOR,
    // 20 us on a machine whose floor takes 140.
    targets: &[Target::AtMost(20.0), Target::FloorAtMost(20.0 / 140.0)],
};
