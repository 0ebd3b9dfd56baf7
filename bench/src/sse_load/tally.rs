//! What the clients saw: how late, and how often not at all.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use tokio::time::Instant;

use crate::error::Error;

/// Longest time that is told apart: beyond it everything is as bad.
const LONGEST_US: u64 = 120_000_000;

/// Counts what happens within a window of time; before it the crowd is still gathering, behind it it goes home.
pub(crate) struct Tally {
    from: Instant,
    to: Instant,
    /// Where the window lies on the clock that stamps words.
    stamps: (u64, u64),
    /// From the planned moment to the answer of the submission.
    pub(crate) accepted: Histogram<u64>,
    /// From the planned moment to the first event.
    pub(crate) first: Histogram<u64>,
    /// From the moment the model said a word to the moment it was read.
    pub(crate) words: Histogram<u64>,
    /// From the planned moment to the moment the load came to it: what is the load's own fault.
    pub(crate) load: Histogram<u64>,
    /// What went wrong at any time, and how often.
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn between(from: Instant, to: Instant) -> Result<Self, Error> {
        let empty = || {
            Histogram::new_with_bounds(1, LONGEST_US, 3)
                .map_err(|error| Error::Wrong(format!("making a histogram: {error}")))
        };
        let (now, stamp) = (Instant::now(), stamp());
        let stamp_of = |moment: Instant| stamp + micros(moment.duration_since(now));
        Ok(Self {
            from,
            to,
            stamps: (stamp_of(from), stamp_of(to)),
            accepted: empty()?,
            first: empty()?,
            words: empty()?,
            load: empty()?,
            errors: BTreeMap::new(),
        })
    }

    /// Something of a run that was planned for a moment happens now.
    pub(super) fn note(&mut self, of: fn(&mut Self) -> &mut Histogram<u64>, planned: Instant) {
        if (self.from..self.to).contains(&planned) {
            of(self).saturating_record(micros(planned.elapsed()));
        }
    }

    /// A word with this stamp is read now.
    pub(super) fn note_word(&mut self, said: u64) {
        if (self.stamps.0..self.stamps.1).contains(&said) {
            self.words.saturating_record(stamp().saturating_sub(said));
        }
    }

    pub(super) fn note_error(&mut self, what: &str) {
        *self.errors.entry(what.to_string()).or_insert(0) += 1;
    }

    /// `none`, or what went wrong how often.
    pub(crate) fn errors(&self) -> String {
        if self.errors.is_empty() {
            return "no errors".into();
        }
        let each: Vec<String> = self.errors.iter().map(|(what, times)| format!("{times} x {what}")).collect();
        format!("errors: {}", each.join(", "))
    }
}

/// Quantiles in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

impl Quantiles {
    /// Of a histogram of microseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
    }
}

/// The time in microseconds since 1970, as words carry it. Both who says and who reads them are on this machine.
pub(super) fn stamp() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, micros)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_was_planned_within_the_window_counts() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut tally = Tally::between(now, now + second).unwrap();
        for planned in [now.checked_sub(second).unwrap(), now, now + second] {
            tally.note(|tally| &mut tally.first, planned);
        }
        let here = stamp();
        for said in [here - 2_000_000, here, here + 2_000_000] {
            tally.note_word(said);
        }
        assert_eq!((tally.first.len(), tally.words.len()), (1, 1));
    }
}
