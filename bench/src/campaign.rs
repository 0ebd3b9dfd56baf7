//! One measurement from beginning to end: every repeat runs everything once, each on a fresh server, the floor next to
//! what is compared with it, so that a machine that is slow for a while is slow for both.

use std::path::Path;

use crate::engine::Engine;
use crate::error::Error;
use crate::floor::{self, Floor};
use crate::measure::{Figure, median};
use crate::process::Cpu;
use crate::programs::Programs;
use crate::report::Row;
use crate::server::Server;
use crate::workloads::{WORKLOADS, Workload, w7};

/// How much is measured.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// How often everything is run.
    pub(crate) repeats: usize,
    /// Fewer runs for each figure.
    pub(crate) is_quick: bool,
    /// The bare loop alone.
    pub(crate) floor_only: bool,
    /// Names of workloads; none for all of them.
    pub(crate) only: Vec<String>,
}

impl Extent {
    /// Whether a workload is asked for by its name.
    fn wants_named(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Also what another workload that is wanted is compared with.
    fn wants(&self, workload: &Workload) -> bool {
        WORKLOADS.iter().any(|other| {
            self.wants_named(other.name) && (other.name == workload.name || other.floor == workload.name)
        })
    }
}

/// The values of one row over the repeats.
#[derive(Default)]
struct Series {
    values: Vec<f64>,
    cpu: Vec<Cpu>,
}

impl Series {
    fn push(&mut self, value: f64, figure: Option<&Figure>) {
        self.values.push(value);
        self.cpu.extend(figure.map(|f| f.cpu_us_per_step));
    }

    fn row(&mut self, name: String, unit: &'static str, about: &str) -> Row {
        let part = |of: fn(&Cpu) -> f64| median(&mut self.cpu.iter().map(of).collect::<Vec<_>>());
        let cpu =
            Cpu { redis: part(|c| c.redis), scheduler: part(|c| c.scheduler), worker: part(|c| c.worker) };
        Row {
            name,
            value: median(&mut self.values.clone()),
            unit,
            ratio_to_floor: None,
            cpu_us_per_step: (!self.cpu.is_empty()).then_some(cpu),
            about: about.to_string(),
        }
    }
}

/// Measures, and answers the rows of the table.
pub(crate) async fn run(
    redis_server: &Path,
    programs: &Programs,
    extent: &Extent,
    told: impl Fn(&str),
) -> Result<Vec<Row>, Error> {
    let mut ping = Series::default();
    let mut floors: [Series; WORKLOADS.len()] = Default::default();
    let mut own: [Series; WORKLOADS.len()] = Default::default();
    for repeat in 1..=extent.repeats {
        let server = Server::start(redis_server).await?;
        ping.push(floor::ping(&server, if extent.is_quick { 2_000 } else { 20_000 }).await?, None);
        drop(server);
        for (at, workload) in WORKLOADS.iter().enumerate().filter(|(_, workload)| extent.wants(workload)) {
            told(&format!("repeat {repeat} of {}: {}, {}", extent.repeats, workload.name, workload.about));
            if let Some(load) = workload.floor_load {
                let load = load(extent.is_quick);
                let server = Server::start(redis_server).await?;
                let figure =
                    Floor::start(&server, &programs.own).await?.measure(workload.shape, load).await?;
                floors[at].push(workload.value(figure.seconds, &load), Some(&figure));
            }
            if !extent.floor_only {
                let load = (workload.load)(extent.is_quick);
                let server = Server::start(redis_server).await?;
                let figure = Engine::start(&server, programs, workload).await?.measure(load).await?;
                own[at].push(workload.value(figure.seconds, &load), Some(&figure));
            }
        }
    }
    let mut rows = vec![ping.row("PING".into(), "us", "round trip to redis-server")];
    for (workload, floor) in WORKLOADS.iter().zip(&mut floors) {
        if !floor.values.is_empty() {
            rows.push(floor.row(format!("floor {}", workload.name), workload.unit.name(), "the bare loop"));
        }
    }
    if !extent.floor_only {
        for (workload, series) in
            WORKLOADS.iter().zip(&mut own).filter(|(_, series)| !series.values.is_empty())
        {
            let mut row = series.row(workload.name.into(), workload.unit.name(), workload.about);
            row.ratio_to_floor = ratio(workload, series, &floors);
            rows.push(row);
        }
        if extent.wants_named(w7::NAME) {
            rows.extend(w7::rows(redis_server, programs, extent.is_quick, &told).await?);
        }
    }
    Ok(rows)
}

/// The median over the repeats of what is told in the same repeat of both.
fn ratio(workload: &Workload, series: &Series, floors: &[Series]) -> Option<f64> {
    let at = WORKLOADS.iter().position(|w| w.name == workload.floor)?;
    let mut ratios: Vec<f64> =
        series.values.iter().zip(&floors.get(at)?.values).map(|(own, floor)| own / floor).collect();
    Some(median(&mut ratios))
}
