//! Runs a whole measurement. Each repeat runs everything once, each on a fresh server and together with the floor that
//! it is compared with. A machine that is slow for a while is then slow for both.

use std::path::Path;

use crate::error::Error;
use crate::floor;
use crate::lab::Lab;
use crate::measure::median;
use crate::process::Cpu;
use crate::programs::Programs;
use crate::report::Row;
use crate::workloads::{WORKLOADS, Workload, w7};

/// How much to measure.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// Number of repeats.
    pub(crate) repeats: usize,
    /// Use fewer runs for each figure.
    pub(crate) is_quick: bool,
    /// Measure only the bare loop.
    pub(crate) floor_only: bool,
    /// Names of workloads; empty for all of them.
    pub(crate) only: Vec<String>,
}

impl Extent {
    /// Returns true if the workload was asked for by its name.
    fn names(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn wants(&self, workload: &Workload) -> bool {
        self.names(workload.name) && (!self.floor_only || workload.floor.is_some())
    }
}

/// Measures everything and returns the rows of the table.
pub(crate) async fn run(
    redis_server: &Path,
    programs: &Programs,
    extent: &Extent,
    progress: impl Fn(&str),
) -> Result<Vec<Row>, Error> {
    let mut repeats = Vec::with_capacity(extent.repeats);
    for repeat in 1..=extent.repeats {
        let lab = Lab::new(redis_server.to_path_buf(), programs.clone(), extent.is_quick);
        let ping = floor::ping(&lab.server().await?, if extent.is_quick { 2_000 } else { 20_000 }).await?;
        lab.add_row(Row::bare("PING", ping, "us", "round trip to redis-server"));
        for workload in WORKLOADS.iter().filter(|workload| extent.wants(workload)) {
            progress(&format!(
                "repeat {repeat} of {}: {}, {}",
                extent.repeats, workload.name, workload.about
            ));
            match workload.floor.filter(|_| extent.floor_only) {
                Some(bare) => drop(lab.floor(bare).await?),
                None => (workload.measure)(&lab).await?,
            }
        }
        repeats.push(lab.into_rows());
    }
    let mut rows = medians(repeats);
    if !extent.floor_only && extent.names(w7::NAME) {
        rows.extend(w7::rows(redis_server, programs, extent.is_quick, &progress).await?);
    }
    Ok(rows)
}

/// Combines rows with the same name into one, in the order of the first repeat. Ratios are taken within each repeat.
fn medians(repeats: Vec<Vec<Row>>) -> Vec<Row> {
    let Some(first) = repeats.first() else { return Vec::new() };
    let median_row = |row: &Row| {
        let same: Vec<&Row> = repeats.iter().flatten().filter(|other| other.name == row.name).collect();
        let of = |part: &dyn Fn(&Row) -> Option<f64>| -> Option<f64> {
            let mut values: Vec<f64> = same.iter().filter_map(|row| part(row)).collect();
            (!values.is_empty()).then(|| median(&mut values))
        };
        let cpu =
            |part: fn(&Cpu) -> f64| of(&|row| row.cpu_us_per_step.as_ref().map(part)).unwrap_or_default();
        Row {
            value: of(&|row| Some(row.value)).unwrap_or_default(),
            ratio_to_floor: of(&|row| row.ratio_to_floor),
            cpu_us_per_step: row.cpu_us_per_step.map(|_| Cpu {
                redis: cpu(|c| c.redis),
                scheduler: cpu(|c| c.scheduler),
                worker: cpu(|c| c.worker),
            }),
            ..row.clone()
        }
    };
    first.iter().map(median_row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_the_same_name_are_combined_to_their_medians() {
        let repeat = |value, ratio, redis| {
            let cpu = Cpu { redis, scheduler: 1.0, worker: 2.0 };
            let row = Row::bare("W1", value, "us/step", "");
            vec![
                Row { ratio_to_floor: Some(ratio), cpu_us_per_step: Some(cpu), ..row },
                Row::bare("PING", value, "us", ""),
            ]
        };
        let rows = medians(vec![repeat(3.0, 1.0, 9.0), repeat(1.0, 3.0, 7.0), repeat(2.0, 2.0, 8.0)]);
        assert_eq!(rows.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["W1", "PING"]);
        assert_eq!((rows[0].value, rows[0].ratio_to_floor), (2.0, Some(2.0)));
        assert_eq!(rows[0].cpu_us_per_step, Some(Cpu { redis: 8.0, scheduler: 1.0, worker: 2.0 }));
        assert_eq!((rows[1].value, rows[1].ratio_to_floor, rows[1].cpu_us_per_step), (2.0, None, None));
    }
}
