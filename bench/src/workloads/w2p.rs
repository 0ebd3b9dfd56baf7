//! W2p: pure steps per second under full load.

use futures_util::FutureExt as _;

use super::Workload;
use super::timed::Timed;
use super::w2;
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
    name: "W2p",
    about: "200 runs of 20 pure steps at once",
    shape: Shape::Chain(20),
    executor: Executor::Scheduler,
    load: |is_quick| Load::at_once(if is_quick { 1000 } else { 6000 }),
    floor: &w2::FLOOR,
    // 60 000 on a machine whose floor makes 57 000.
    targets: &[Target::AtLeast(60_000.0), Target::FloorAtLeast(60.0 / 57.0)],
};
