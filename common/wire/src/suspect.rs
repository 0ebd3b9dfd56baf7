//! The record of a job that was lost with its worker. It stays in Redis until the job ends, so that the workers that
//! take such jobs over can tell which of them ends its worker each time.
//!
//! Missing fields have their defaults, and unknown ones are ignored, so that workers of different versions read each
//! other's records.

use serde::{Deserialize, Serialize};

use super::WireError;

/// A job that may have ended its worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Suspect {
    /// The consumer with which the job was lost last.
    pub holder: String,
    /// The number of suspects that this consumer held; one of them may have ended it.
    pub size: u32,
    /// How often the job was lost with its worker.
    pub lost: u32,
    /// How much speaks against this job alone: 1 more for each loss as the only suspect, 2 more when the worker held
    /// nothing else at all.
    pub alone: u32,
    /// Whether other workers died at the same time, so that the last loss says nothing.
    pub outage: bool,
    /// The consumer with which the oldest suspects of this group were lost. When one job is given up, all others of
    /// its origin are cleared.
    pub origin: String,
}

impl Suspect {
    /// Writes the record.
    pub fn text(&self) -> String {
        // Texts, numbers and truth values always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The text is not a valid record.
    pub fn read(text: &str) -> Result<Self, WireError> {
        serde_json::from_str(text).map_err(|error| WireError::Malformed {
            what: "the record of a suspect",
            reason: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_written_and_an_older_or_newer_one_too() {
        let written = r#"{"holder":"w2","size":6,"lost":3,"alone":1,"outage":true,"origin":"w1"}"#;
        let record =
            Suspect { holder: "w2".into(), size: 6, lost: 3, alone: 1, outage: true, origin: "w1".into() };
        assert_eq!((record.text(), Suspect::read(written)), (written.to_string(), Ok(record)));
        let other = Suspect::read(r#"{"holder":"w","later":1}"#);
        assert_eq!(other, Ok(Suspect { holder: "w".into(), ..Suspect::default() }));
        assert!(Suspect::read("w 1").is_err());
    }
}
