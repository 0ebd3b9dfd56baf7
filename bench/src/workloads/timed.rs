//! Workloads that measure only time: runs of one shape, on one scheduler and one worker, compared with a bare loop in
//! the same repeat.

use crate::engine::{Engine, Job};
use crate::error::Error;
use crate::fleet::Plan;
use crate::floor::Shape;
use crate::lab::{BareLoop, Lab};
use crate::measure::Load;
use crate::report::Row;
use crate::target::Target;

use super::workflow::{self, Executor};

/// A workload that measures only time.
pub(super) struct Timed {
    /// The name in the table.
    pub(super) name: &'static str,
    /// A description.
    pub(super) about: &'static str,
    /// The shape of its runs.
    pub(super) shape: Shape,
    /// Where its steps are executed.
    pub(super) executor: Executor,
    /// The load for one figure, in full and for a quick run.
    pub(super) load: fn(is_quick: bool) -> Load,
    /// The bare loop that it is compared with. It also sets the unit.
    pub(super) floor: &'static BareLoop,
    /// The targets.
    pub(super) targets: &'static [Target],
}

impl Timed {
    /// Measures the workload once.
    pub(super) async fn measure(&self, lab: &Lab) -> Result<(), Error> {
        let floor = lab.floor(self.floor).await?;
        let server = lab.server().await?;
        let plan = Plan::of(&server, 1, 1);
        let mut engine = lab.engine(&server, &plan, self.job()).await?;
        let row = self.row(lab, &mut engine, floor).await?;
        lab.add_row(row);
        Ok(())
    }

    /// Returns the workflow and inputs of its runs.
    pub(super) fn job(&self) -> Job {
        workflow::job(self.shape, self.executor)
    }

    /// Measures on a running fleet and returns the row.
    pub(super) async fn row(&self, lab: &Lab, engine: &mut Engine, floor: f64) -> Result<Row, Error> {
        let load = (self.load)(lab.is_quick);
        engine.warm_up(&load).await?;
        let figure = engine.measure(&load).await?;
        let unit = self.floor.unit;
        let value = unit.value(figure.seconds, load.runs * self.shape.steps());
        Ok(Row {
            ratio_to_floor: Some(value / floor),
            targets: self.targets,
            cpu_us_per_step: Some(figure.cpu_us_per_step),
            ..Row::bare(self.name, value, unit.name(), self.about)
        })
    }
}
