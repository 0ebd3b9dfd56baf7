//! Every metric of the worker: name, unit, help. Dashboards and alerts are written against this table.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

/// What a metric is.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// One metric, with the name of its label if it has one.
#[derive(Debug)]
pub(crate) struct Metric {
    kind: Kind,
    name: &'static str,
    unit: Unit,
    label: Option<&'static str>,
    help: &'static str,
}

impl Metric {
    /// Counts one.
    pub(crate) fn count(&self) {
        self.count_many(1);
    }
    /// Counts several.
    pub(crate) fn count_many(&self, n: u64) {
        counter!(self.name).increment(n);
    }
    /// Counts one under a value of the label.
    pub(crate) fn count_for(&self, value: &'static str) {
        match self.label {
            Some(label) => counter!(self.name, label => value).increment(1),
            None => counter!(self.name).increment(1),
        }
    }
    /// Counts one under a value of the label that settings say; there are few of those.
    pub(crate) fn count_of(&self, value: &str) {
        match self.label {
            Some(label) => counter!(self.name, label => value.to_owned()).increment(1),
            None => counter!(self.name).increment(1),
        }
    }
    /// Sets a level.
    pub(crate) fn set(&self, value: f64) {
        gauge!(self.name).set(value);
    }
    /// Notes a measurement under a value of the label.
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
    JOBS_READ     Counter   "tidemill_worker_jobs_read_total"          Count   None, "Jobs that were handed to this worker";
    JOBS_ENDED    Counter   "tidemill_worker_jobs_ended_total"         Count   Some("outcome"), "Attempts that ended here, by outcome: succeeded, failed, refused, given_up";
    JOB_SECONDS   Histogram "tidemill_worker_job_seconds"              Seconds Some("type"), "Time from a job's arrival to its result, by node type";
    JOBS_HELD     Gauge     "tidemill_worker_jobs_held"                Count   None, "Jobs in this worker's hands at the last heartbeat";
    PERMITS       Gauge     "tidemill_worker_permits"                  Count   None, "Jobs that this worker runs at once at most";
    RESULTS       Counter   "tidemill_worker_results_total"            Count   Some("answer"), "Results handed in, by answer: stored, not_yours, blob_missing, dropped";
    BATCHES       Counter   "tidemill_worker_result_batches_total"     Count   None, "Requests in which results were handed in";
    CHUNKS        Counter   "tidemill_worker_chunks_total"             Count   None, "Pieces of streamed text that were reported";
    STEPS         Counter   "tidemill_worker_steps_total"              Count   None, "Steps of jobs that were recorded in journals";
    PARKED        Counter   "tidemill_worker_jobs_parked_total"        Count   None, "Jobs that were put down until a time to come";
    MODEL_WAITS   Counter   "tidemill_worker_model_waits_total"        Count   Some("model"), "Times that a call had to wait for its turn at a model with limits";
    MODEL_RESTS   Counter   "tidemill_worker_model_rests_total"        Count   Some("model"), "Refusals after which a model with limits rests, for all workers";
    JOBS_LOST     Counter   "tidemill_worker_jobs_lost_total"          Count   None, "Jobs that were dropped because they were taken over, taken back or cancelled";
    JOBS_TAKEN    Counter   "tidemill_worker_jobs_taken_over_total"    Count   None, "Jobs that were taken over from workers that showed no sign of life";
    HANDED_BACK   Counter   "tidemill_worker_jobs_handed_back_total"   Count   None, "Jobs that were given back unfinished";
    PANICS        Counter   "tidemill_worker_panics_total"             Count   None, "Attempts that ended in a defect of the worker";
    STORE_ERRORS  Counter   "tidemill_worker_store_errors_total"       Count   Some("doing"), "Requests to the store that failed, by what was attempted";
    FLEET         Gauge     "tidemill_worker_fleet"                    Count   None, "Workers that live, as this one sees it";
}

/// Tells the recorder what each metric means. May be repeated.
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
