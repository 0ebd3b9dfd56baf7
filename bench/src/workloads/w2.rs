//! W2: how many steps a second go through when there is much to do.

use super::{Place, Unit, Workload};
use crate::floor::Shape;
use crate::measure::Load;

pub(super) const WORKLOAD: Workload = Workload {
    name: "W2",
    about: "200 runs of 20 steps on a worker at once",
    shape: Shape::Chain(20),
    place: Place::Worker,
    unit: Unit::StepsPerSecond,
    // As many runs as it takes to last a second or more.
    load: |is_quick| Load::at_once(if is_quick { 400 } else { 2000 }),
    floor_load: Some(|is_quick| Load::at_once(if is_quick { 1000 } else { 5000 })),
    floor: "W2",
};
