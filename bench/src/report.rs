//! Output of the figures: a table for people, and one JSON object per line for programs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::error::Error;
use crate::process::Cpu;
use crate::target::Target;

/// One figure.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The name, such as `W2`, `floor W2` or `W4/1000`.
    pub(crate) name: String,
    /// The median over the repeats.
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The median of the ratios to the floor of the same repeat; `None` if there is no floor.
    pub(crate) ratio_to_floor: Option<f64>,
    /// The targets.
    pub(crate) targets: &'static [Target],
    /// Processor time per step, in microseconds.
    pub(crate) cpu_us_per_step: Option<Cpu>,
    /// A description.
    pub(crate) about: String,
}

impl Row {
    /// Creates a row with a value only.
    pub(crate) fn bare(name: impl Into<String>, value: f64, unit: &'static str, about: &str) -> Self {
        let about = about.to_string();
        let name = name.into();
        Self { name, value, unit, ratio_to_floor: None, targets: &[], cpu_us_per_step: None, about }
    }

    fn missed(&self) -> impl Iterator<Item = &'static Target> {
        self.targets.iter().filter(|target| !target.is_met(self))
    }

    fn json(&self) -> Json {
        let mut object = json!({
            "name": self.name, "value": self.value, "unit": self.unit, "ratio_to_floor": self.ratio_to_floor,
        });
        if let Some(cpu) = self.cpu_us_per_step {
            object["cpu_us_per_step"] = json!(cpu);
        }
        if !self.targets.is_empty() {
            let verdicts = self.targets.iter().map(|t| json!({"target": t.words(), "met": t.is_met(self)}));
            object["targets"] = verdicts.collect();
        }
        object
    }
}

/// Formats the table.
pub(crate) fn table(rows: &[Row]) -> String {
    let verdicts: Vec<String> = rows.iter().map(targets).collect();
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let names = width(&mut rows.iter().map(|row| row.name.len()));
    let targets = width(&mut verdicts.iter().map(String::len)).max("target".len());
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:<names$} {:>10} {:<8} {:>8}   {:>7} {:>9} {:>7}   {:<targets$}   what",
        "", "value", "unit", "to floor", "redis", "scheduler", "worker", "target"
    );
    for (row, verdicts) in rows.iter().zip(&verdicts) {
        let ratio = row.ratio_to_floor.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let cpu =
            |part: fn(Cpu) -> f64| row.cpu_us_per_step.map_or(String::new(), |c| format!("{:.1}", part(c)));
        let (redis, scheduler, worker) = (cpu(|c| c.redis), cpu(|c| c.scheduler), cpu(|c| c.worker));
        let _ = writeln!(
            text,
            "{:<names$} {:>10} {:<8} {:>8}   {:>7} {:>9} {:>7}   {:<targets$}   {}",
            row.name,
            number(row.value),
            row.unit,
            ratio,
            redis,
            scheduler,
            worker,
            verdicts,
            row.about
        );
    }
    text.push_str("redis, scheduler, worker: microseconds of processor time a step, over all processes of a kind (of the bare loop: its owner as scheduler)\n");
    text
}

/// Returns the names of the rows that miss a target, with the targets.
pub(crate) fn missed(rows: &[Row]) -> Vec<String> {
    let of = |row: &Row| row.missed().map(|t| format!("{} ({})", row.name, t.words())).collect::<Vec<_>>();
    rows.iter().flat_map(of).collect()
}

fn targets(row: &Row) -> String {
    let verdicts = |t: &Target| format!("{} {}", t.words(), if t.is_met(row) { "met" } else { "MISSED" });
    row.targets.iter().map(verdicts).collect::<Vec<_>>().join(", ")
}

/// Formats a number; small ones with more digits.
fn number(value: f64) -> String {
    if value.abs() < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// Writes one JSON object per line.
pub(crate) fn write(rows: &[Row], path: &Path) -> Result<(), Error> {
    let lines: Vec<String> = rows.iter().map(|row| row.json().to_string()).collect();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io("making the folder for the figures"))?;
    }
    fs::write(path, lines.join("\n") + "\n").map_err(Error::io("writing the figures"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_object_with_only_the_values_it_has() {
        let floor = Row::bare("floor W3", 2.5, "ms", "");
        assert_eq!(
            floor.json().to_string(),
            r#"{"name":"floor W3","value":2.5,"unit":"ms","ratio_to_floor":null}"#
        );
        let row =
            Row { name: "W3".into(), ratio_to_floor: Some(1.5), targets: &[Target::AtMost(2.0)], ..floor };
        assert_eq!(
            row.json().to_string(),
            r#"{"name":"W3","value":2.5,"unit":"ms","ratio_to_floor":1.5,"targets":[{"target":"<= 2","met":false}]}"#
        );
        assert_eq!(missed(std::slice::from_ref(&row)), ["W3 (<= 2)"]);
        assert!(table(&[row]).contains("<= 2 MISSED"));
    }
}
