//! W3: how fast a run fans out and comes together again.

use super::{Place, Unit, Workload};
use crate::floor::Shape;
use crate::measure::Load;

pub(super) const WORKLOAD: Workload = Workload {
    name: "W3",
    about: "one run of a step, 100 steps side by side, a step, on a worker",
    shape: Shape::Fan(100),
    place: Place::Worker,
    unit: Unit::Millis,
    load: |is_quick| Load::one_by_one(if is_quick { 5 } else { 30 }),
    floor_load: Some(|is_quick| Load::one_by_one(if is_quick { 5 } else { 30 })),
    floor: "W3",
};
