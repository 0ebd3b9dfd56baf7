//! W1p: the chain of W1 as pure nodes, which the scheduler evaluates by itself.

use super::{Place, Unit, Workload};
use crate::floor::Shape;
use crate::measure::Load;

pub(super) const WORKLOAD: Workload = Workload {
    name: "W1p",
    about: "one run of 100 pure steps, one after the other",
    shape: Shape::Chain(100),
    place: Place::Scheduler,
    unit: Unit::MicrosPerStep,
    load: |is_quick| Load::one_by_one(if is_quick { 5 } else { 30 }),
    floor_load: None,
    floor: "W1",
};
