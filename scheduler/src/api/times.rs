//! Times in ISO 8601, in the forms in which Dify's service API reads and writes them; without a zone in UTC.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};
use tidemill_common::clock::Timestamp;

/// Forms of a time without a zone.
const WITHOUT_ZONE: [&str; 4] =
    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];

/// Reads a time: with a zone, without one (UTC), or only a date.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(Timestamp::from_micros(at.timestamp_micros()));
    }
    let naive = WITHOUT_ZONE.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    let date = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(|date| date.and_time(NaiveTime::MIN));
    naive.or_else(date).map(|at| Timestamp::from_micros(at.and_utc().timestamp_micros()))
}

/// A time in whole seconds with `Z`.
pub(crate) fn iso(at: Timestamp) -> String {
    written(at, "%Y-%m-%dT%H:%M:%SZ")
}

/// A time as Dify names a published version by it.
pub(crate) fn as_version(at: Timestamp) -> String {
    written(at, "%Y-%m-%d %H:%M:%S%.6f")
}

fn written(at: Timestamp, form: &str) -> String {
    DateTime::from_timestamp_micros(at.micros()).unwrap_or_default().format(form).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_the_forms_of_iso_8601() {
        let at = Some(Timestamp::from_millis(1_736_956_800_000));
        for (text, expected) in [
            ("2025-01-15T16:00:00Z", at),
            ("2025-01-15T17:00:00+01:00", at),
            ("2025-01-15T16:00:00", at),
            ("2025-01-15 16:00:00.000000", at),
            ("2025-01-15T16:00", at),
            ("2025-01-15", Some(Timestamp::from_millis(1_736_899_200_000))),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn times_are_written_as_on_dify() {
        let at = Timestamp::from_micros(1_736_956_800_000_001);
        assert_eq!(
            (iso(at).as_str(), as_version(at).as_str()),
            ("2025-01-15T16:00:00Z", "2025-01-15 16:00:00.000001")
        );
    }
}
