//! W1: how long a step takes when nothing else is going on.

use super::{Place, Unit, Workload};
use crate::floor::Shape;
use crate::measure::Load;

pub(super) const WORKLOAD: Workload = Workload {
    name: "W1",
    about: "one run of 100 steps on a worker, one after the other",
    shape: Shape::Chain(100),
    place: Place::Worker,
    unit: Unit::MicrosPerStep,
    load: |is_quick| Load::one_by_one(if is_quick { 5 } else { 30 }),
    floor_load: Some(|is_quick| Load::one_by_one(if is_quick { 5 } else { 30 })),
    floor: "W1",
};
