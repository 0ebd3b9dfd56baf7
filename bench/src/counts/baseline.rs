//! What was counted before: a file that is committed with the change that moved it.

use std::fs;
use std::path::Path;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// By how much a count may grow, in per cent.
const TOLERANCE: f64 = 3.0;

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Baseline {
    /// The kind of processor it was counted on; another has other instructions.
    machine: String,
    /// Instructions by name, in the order of the table.
    pub(super) counts: IndexMap<String, u64>,
}

impl Baseline {
    /// What was just counted.
    pub(super) fn of(counted: &[(&str, u64)]) -> Self {
        let counts = counted.iter().map(|(name, count)| ((*name).to_string(), *count)).collect();
        Self { machine: std::env::consts::ARCH.into(), counts }
    }

    /// Reads the file; empty when there is none.
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

    /// Whether it can be compared with what is counted here.
    pub(super) fn check_machine(&self) -> Result<(), Error> {
        let here = std::env::consts::ARCH;
        if self.machine == here || self.machine.is_empty() {
            return Ok(());
        }
        Err(Error::Wrong(format!(
            "the baseline was counted on {}, and this is {here}: `make bench-baseline` before your change, `make bench-check` behind it",
            self.machine
        )))
    }

    /// Refuses what has grown too much, or was never counted.
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
            "more than {TOLERANCE}% more instructions: {}. If that is worth it, accept it with `make bench-baseline` and say why in the commit",
            offenders.join(", ")
        )))
    }
}

/// In per cent.
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
            let said = known.judge(&counted).map_err(|error| error.to_string());
            match refused {
                None => said.unwrap(),
                Some(offender) => {
                    let said = said.unwrap_err();
                    assert!(said.contains(offender) && said.contains("make bench-baseline"), "{said}");
                }
            }
        }
    }
}
