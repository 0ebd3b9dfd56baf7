//! The tools of a workload: fresh servers, the programs, the floor of this repeat, and a list for its rows.

use std::cell::RefCell;
use std::path::PathBuf;

use crate::engine::{Engine, Job};
use crate::error::Error;
use crate::fleet::Plan;
use crate::floor::{Floor, Shape};
use crate::measure::{Figure, Load};
use crate::programs::Programs;
use crate::report::Row;
use crate::server::Server;
use crate::workloads::Unit;

/// A bare loop that workloads are compared with.
#[derive(Debug)]
pub(crate) struct BareLoop {
    /// The name in the table.
    pub(crate) name: &'static str,
    /// The shape of its runs.
    pub(crate) shape: Shape,
    /// The unit of its figure.
    pub(crate) unit: Unit,
    /// The load for one figure, in full and for a quick run.
    pub(crate) load: fn(is_quick: bool) -> Load,
}

/// One repeat.
pub(crate) struct Lab {
    /// The redis-server to use.
    pub(crate) redis_server: PathBuf,
    /// The programs under test.
    pub(crate) programs: Programs,
    /// Use fewer runs for each figure.
    pub(crate) is_quick: bool,
    rows: RefCell<Vec<Row>>,
}

impl Lab {
    /// Creates the tools for one repeat.
    pub(crate) fn new(redis_server: PathBuf, programs: Programs, is_quick: bool) -> Self {
        Self { redis_server, programs, is_quick, rows: RefCell::default() }
    }

    /// Starts an empty server.
    pub(crate) async fn server(&self) -> Result<Server, Error> {
        Server::start(&self.redis_server).await
    }

    /// Starts a fleet as planned, for runs of this job.
    pub(crate) async fn engine(&self, server: &Server, plan: &Plan, job: Job) -> Result<Engine, Error> {
        Engine::start(server, &self.programs, plan, job).await
    }

    /// Adds a row to this repeat.
    pub(crate) fn add_row(&self, row: Row) {
        self.rows.borrow_mut().push(row);
    }

    /// Returns the rows of this repeat.
    pub(crate) fn into_rows(self) -> Vec<Row> {
        self.rows.into_inner()
    }

    /// Returns the figure of a bare loop in its unit. It is measured and added to the rows once per repeat, at the
    /// first call.
    pub(crate) async fn floor(&self, bare: &BareLoop) -> Result<f64, Error> {
        let known = self.rows.borrow().iter().find(|row| row.name == bare.name).map(|row| row.value);
        if let Some(value) = known {
            return Ok(value);
        }
        let load = (bare.load)(self.is_quick);
        let server = self.server().await?;
        let Figure { seconds, cpu_us_per_step } =
            Floor::start(&server, &self.programs.own).await?.measure(bare.shape, load).await?;
        let value = bare.unit.value(seconds, load.runs * bare.shape.steps());
        let row = Row::bare(bare.name, value, bare.unit.name(), "the bare loop");
        self.add_row(Row { cpu_us_per_step: Some(cpu_us_per_step), ..row });
        Ok(value)
    }
}
