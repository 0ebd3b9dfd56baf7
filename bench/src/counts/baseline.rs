//! Reads, writes and compares the baseline: the committed counts of instructions. A count that has grown by more than
//! the baseline allows fails the check.

use std::fs;
use std::path::Path;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Allowed growth of a count, in per cent.
const TOLERANCE: f64 = 3.0;

/// The content of the baseline file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Baseline {
    /// The kind of processor that it was counted on. Another kind needs another number of instructions.
    machine: String,
    /// Number of instructions by name, in the order of the table.
    pub(super) counts: IndexMap<String, u64>,
}

impl Baseline {
    /// Creates a baseline from new counts.
    pub(super) fn of(counted: &[(&str, u64)]) -> Self {
        let counts = counted.iter().map(|(name, count)| ((*name).to_string(), *count)).collect();
        Self { machine: std::env::consts::ARCH.into(), counts }
    }

    /// Reads the file; empty when it does not exist.
    pub(super) fn read(file: &Path) -> Result<Self, Error> {
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(file).map_err(Error::io("reading the baseline"))?;
        serde_json::from_str(&text).map_err(|error| Error::Wrong(format!("{}: {error}", file.display())))
    }

    /// Writes the file.
    pub(super) fn write(&self, file: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        fs::write(file, text).map_err(Error::io("writing the baseline"))
    }

    /// Checks that the baseline is for this kind of processor.
    pub(super) fn check_machine(&self) -> Result<(), Error> {
        let here = std::env::consts::ARCH;
        if self.machine == here || self.machine.is_empty() {
            return Ok(());
        }
        Err(Error::Wrong(format!(
            "the baseline was counted on {}, but this machine is {here}: run `make bench-baseline` before your change and `make bench-check` after it",
            self.machine
        )))
    }

    /// Fails if a count has grown too much or is not in the baseline.
    pub(super) fn judge(&self, counted: &[(&str, u64)]) -> Result<(), Error> {
        let mut offenders = Vec::new();
        for (name, now) in counted {
            match self.counts.get(*name) {
                None => offenders.push(format!("{name} (not in the baseline)")),
                Some(before) if change(*before, *now) > TOLERANCE => {
                    offenders.push(format!("{name} ({:+.2}%)", change(*before, *now)));
                }
                Some(_) => {}
            }
        }
        if offenders.is_empty() {
            return Ok(());
        }
        Err(Error::Wrong(format!(
            "more than {TOLERANCE}% more instructions: {}. If the change is worth it, accept them with `make bench-baseline` and say why in the commit",
            offenders.join(", ")
        )))
    }
}

/// Returns the change in per cent.
pub(super) fn change(before: u64, now: u64) -> f64 {
    (now as f64 / before as f64 - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_beyond_the_tolerance_is_refused_by_name() {
        let known = Baseline::of(&[("a", 1000), ("b", 1000)]);
        for (counted, refused) in [
            (vec![("a", 1029), ("b", 1)], None),
            (vec![("a", 1031), ("b", 1000)], Some("a (+3.10%)")),
            (vec![("c", 1)], Some("c (not in the baseline)")),
        ] {
            let verdict = known.judge(&counted).map_err(|error| error.to_string());
            match refused {
                None => verdict.unwrap(),
                Some(offender) => {
                    let verdict = verdict.unwrap_err();
                    assert!(
                        verdict.contains(offender) && verdict.contains("make bench-baseline"),
                        "{verdict}"
                    );
                }
            }
        }
    }
}
