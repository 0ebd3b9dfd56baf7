//! What a workload works with: fresh servers, the programs, the bare loop of this repeat, and a place for its rows.

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

/// A bare loop that workloads are held against.
#[derive(Debug)]
pub(crate) struct BareLoop {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// How its runs hang together.
    pub(crate) shape: Shape,
    /// How it is told.
    pub(crate) unit: Unit,
    /// Runs for one figure, in full and in short.
    pub(crate) load: fn(is_quick: bool) -> Load,
}

/// One repeat.
pub(crate) struct Lab {
    /// The redis-server in use.
    pub(crate) redis_server: PathBuf,
    /// The programs under test.
    pub(crate) programs: Programs,
    /// Fewer runs for each figure.
    pub(crate) is_quick: bool,
    rows: RefCell<Vec<Row>>,
}

impl Lab {
    /// For one repeat.
    pub(crate) fn new(redis_server: PathBuf, programs: Programs, is_quick: bool) -> Self {
        Self { redis_server, programs, is_quick, rows: RefCell::default() }
    }

    /// An empty server.
    pub(crate) async fn server(&self) -> Result<Server, Error> {
        Server::start(&self.redis_server).await
    }

    /// A fleet as planned, for runs of this kind.
    pub(crate) async fn engine(&self, server: &Server, plan: &Plan, job: Job) -> Result<Engine, Error> {
        Engine::start(server, &self.programs, plan, job).await
    }

    /// Adds a row to this repeat.
    pub(crate) fn tell(&self, row: Row) {
        self.rows.borrow_mut().push(row);
    }

    /// The rows of this repeat.
    pub(crate) fn into_rows(self) -> Vec<Row> {
        self.rows.into_inner()
    }

    /// What a bare loop gives, in its unit. It is measured, and told, once a repeat: when it is first asked for.
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
        self.tell(Row { cpu_us_per_step: Some(cpu_us_per_step), ..row });
        Ok(value)
    }
}
