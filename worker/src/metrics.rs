//! Every metric of the worker: name, unit, help. Dashboards and alerts depend on this table.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

#[derive(Debug, Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric, with the name of its label if it has one.
#[derive(Debug)]
pub(crate) struct Metric {
    kind: Kind,
    name: &'static str,
    unit: Unit,
    label: Option<&'static str>,
    help: &'static str,
}

impl Metric {
    /// Adds one.
    pub(crate) fn count(&self) {
        self.count_many(1);
    }
    /// Adds `n`.
    pub(crate) fn count_many(&self, n: u64) {
        counter!(self.name).increment(n);
    }
    /// Adds one under a label value.
    pub(crate) fn count_for(&self, value: &'static str) {
        match self.label {
            Some(label) => counter!(self.name, label => value).increment(1),
            None => counter!(self.name).increment(1),
        }
    }
    /// Adds one under a label value that comes from the settings. There are few of those.
    pub(crate) fn count_of(&self, value: &str) {
        match self.label {
            Some(label) => counter!(self.name, label => value.to_owned()).increment(1),
            None => counter!(self.name).increment(1),
        }
    }
    /// Sets a gauge.
    pub(crate) fn set(&self, value: f64) {
        gauge!(self.name).set(value);
    }
    /// Records a measurement under a label value.
    pub(crate) fn record_for(&self, value: &'static str, measured: f64) {
        match self.label {
            Some(label) => histogram!(self.name, label => value).record(measured),
            None => histogram!(self.name).record(measured),
        }
    }
}

macro_rules! metrics_table {
    ($($ident:ident $kind:ident $name:literal $unit:ident $label:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub(crate) static $ident: Metric =
                Metric { kind: Kind::$kind, name: $name, unit: Unit::$unit, label: $label, help: $help };
        )*
        static TABLE: &[&Metric] = &[$(&$ident),*];
    };
}

metrics_table! {
    JOBS_READ     Counter   "tidemill_worker_jobs_read_total"          Count   None, "Jobs delivered to this worker";
    JOBS_ENDED    Counter   "tidemill_worker_jobs_ended_total"         Count   Some("outcome"), "Attempts that ended here, by outcome: succeeded, failed, refused, given_up";
    JOB_SECONDS   Histogram "tidemill_worker_job_seconds"              Seconds Some("type"), "Time from a job's arrival to its result, by node type";
    JOBS_HELD     Gauge     "tidemill_worker_jobs_held"                Count   None, "Jobs held by this worker at the last heartbeat";
    PERMITS       Gauge     "tidemill_worker_permits"                  Count   None, "Jobs that this worker runs at once at most";
    RESULTS       Counter   "tidemill_worker_results_total"            Count   Some("answer"), "Results sent, by answer: stored, not_yours, blob_missing, dropped";
    BATCHES       Counter   "tidemill_worker_result_batches_total"     Count   None, "Requests that sent results";
    CHUNKS        Counter   "tidemill_worker_chunks_total"             Count   None, "Pieces of streamed text that were reported";
    STEPS         Counter   "tidemill_worker_steps_total"              Count   None, "Journal entries recorded for jobs";
    PARKED        Counter   "tidemill_worker_jobs_parked_total"        Count   None, "Jobs parked to wait";
    MODEL_WAITS   Counter   "tidemill_worker_model_waits_total"        Count   Some("model"), "Calls that had to wait for a model with limits";
    MODEL_RESTS   Counter   "tidemill_worker_model_rests_total"        Count   Some("model"), "Refusals after which all workers pause calls to a model with limits";
    JOBS_LOST     Counter   "tidemill_worker_jobs_lost_total"          Count   None, "Jobs that were dropped because they were taken over, returned or cancelled";
    JOBS_TAKEN    Counter   "tidemill_worker_jobs_taken_over_total"    Count   None, "Jobs that were taken over from workers that sent no heartbeat";
    HANDED_BACK   Counter   "tidemill_worker_jobs_handed_back_total"   Count   None, "Jobs returned to their queue unfinished";
    PANICS        Counter   "tidemill_worker_panics_total"             Count   None, "Attempts that ended in a panic of the worker";
    STORE_ERRORS  Counter   "tidemill_worker_store_errors_total"       Count   Some("doing"), "Failed requests to the store, by operation";
    FLEET         Gauge     "tidemill_worker_fleet"                    Count   None, "Live workers, as seen by this one";
}

/// Registers unit and help of each metric. May be repeated.
pub(crate) fn describe() {
    for metric in TABLE {
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram => describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_carry_their_kind() {
        let mut seen = std::collections::HashSet::new();
        for metric in TABLE {
            assert!(seen.insert(metric.name), "{}", metric.name);
            assert!(metric.name.starts_with("tidemill_worker_") && !metric.help.is_empty());
            assert_eq!(
                matches!(metric.kind, Kind::Counter),
                metric.name.ends_with("_total"),
                "{}",
                metric.name
            );
        }
    }
}
