//! The figures: a table for people, one JSON object a line for whoever compares.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::error::Error;
use crate::process::Cpu;

/// One figure.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// Its name, such as `W2` or `floor W2`.
    pub(crate) name: String,
    /// The median over the repeats.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// The median of the ratios to the floor of the same repeat; none for the floor itself.
    pub(crate) ratio_to_floor: Option<f64>,
    /// Processor time a step, in microseconds.
    #[serde(skip)]
    pub(crate) cpu_us_per_step: Option<Cpu>,
    /// What it is.
    #[serde(skip)]
    pub(crate) about: String,
}

/// The table.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:<14} {:>10} {:<8} {:>8}   {:>7} {:>9} {:>7}   what",
        "", "value", "unit", "to floor", "redis", "scheduler", "worker"
    );
    for row in rows {
        let ratio = row.ratio_to_floor.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let cpu =
            |part: fn(Cpu) -> f64| row.cpu_us_per_step.map_or(String::new(), |c| format!("{:.1}", part(c)));
        let (redis, scheduler, worker) = (cpu(|c| c.redis), cpu(|c| c.scheduler), cpu(|c| c.worker));
        let _ = writeln!(
            text,
            "{:<14} {:>10.1} {:<8} {:>8}   {:>7} {:>9} {:>7}   {}",
            row.name, row.value, row.unit, ratio, redis, scheduler, worker, row.about
        );
    }
    text.push_str("redis, scheduler, worker: microseconds of processor time a step (of the bare loop: its owner as scheduler)\n");
    text
}

/// Writes one JSON object a line.
pub(crate) fn write(rows: &[Row], path: &Path) -> Result<(), Error> {
    let lines: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap_or_default()).collect();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io("making the folder for the figures"))?;
    }
    fs::write(path, lines.join("\n") + "\n").map_err(Error::io("writing the figures"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_object_and_the_floor_has_no_ratio() {
        let row = |name: &str, ratio| Row {
            name: name.into(),
            value: 2.5,
            unit: "ms",
            ratio_to_floor: ratio,
            cpu_us_per_step: None,
            about: String::new(),
        };
        let line = |row: &Row| serde_json::to_string(row).unwrap();
        assert_eq!(
            line(&row("W3", Some(1.5))),
            r#"{"name":"W3","value":2.5,"unit":"ms","ratio_to_floor":1.5}"#
        );
        assert_eq!(
            line(&row("floor W3", None)),
            r#"{"name":"floor W3","value":2.5,"unit":"ms","ratio_to_floor":null}"#
        );
    }
}
