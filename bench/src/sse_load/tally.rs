//! Counts the delays and errors that the clients see.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use tokio::time::Instant;

use crate::error::Error;

/// Longest time that is distinguished; all longer ones are equally bad.
const LONGEST_US: u64 = 120_000_000;

/// Counts events within a window of time. Before it the clients are still arriving, after it they are leaving.
pub(crate) struct Tally {
    from: Instant,
    to: Instant,
    /// The window on the clock that is used for words.
    stamps: (u64, u64),
    /// From the planned moment to the answer of the submission.
    pub(crate) accepted: Histogram<u64>,
    /// From the planned moment to the first event.
    pub(crate) first: Histogram<u64>,
    /// From the moment when the model sent a word to the moment when it was read.
    pub(crate) words: Histogram<u64>,
    /// From the planned moment to the moment when the load got to it. This is the delay of the load itself.
    pub(crate) load: Histogram<u64>,
    /// Errors at any time, with their number.
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

    /// Records that something of a run happens now; the run was planned for the moment `planned`.
    pub(super) fn note(&mut self, of: fn(&mut Self) -> &mut Histogram<u64>, planned: Instant) {
        if (self.from..self.to).contains(&planned) {
            of(self).saturating_record(micros(planned.elapsed()));
        }
    }

    /// Records that a word with this time stamp is read now.
    pub(super) fn note_word(&mut self, sent_at: u64) {
        if (self.stamps.0..self.stamps.1).contains(&sent_at) {
            self.words.saturating_record(stamp().saturating_sub(sent_at));
        }
    }

    pub(super) fn note_error(&mut self, what: &str) {
        *self.errors.entry(what.to_string()).or_insert(0) += 1;
    }

    /// Formats the errors with their number.
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
    /// Returns those of a histogram in microseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
    }
}

/// Returns the time in microseconds since 1970, as words contain it. Model and clients run on the same machine.
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
    async fn only_runs_planned_within_the_window_count() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut tally = Tally::between(now, now + second).unwrap();
        for planned in [now.checked_sub(second).unwrap(), now, now + second] {
            tally.note(|tally| &mut tally.first, planned);
        }
        let here = stamp();
        for sent_at in [here - 2_000_000, here, here + 2_000_000] {
            tally.note_word(sent_at);
        }
        assert_eq!((tally.first.len(), tally.words.len()), (1, 1));
    }
}
