//! The metrics of the scheduler: name, unit and help in one place.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::{Counter, Histogram};
use tidemill_common::machine::RunStatus;

/// A metric with its help text.
pub struct Metric {
    /// The name, with the unit in it.
    pub name: &'static str,
    pub help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident $kind:ident $name:literal $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: Metric = Metric { name: $name, help: $help };)*
        /// All metrics of the scheduler itself.
        pub const ALL: &[&Metric] = &[$(&$constant),*];
        /// Describes all metrics to the recorder.
        pub fn describe() {
            $(metrics::$kind!($name, $help);)*
        }
    };
}

metrics! {
    FACTS describe_counter "tidemill_facts_total" "Facts applied.";
    COMMITS describe_counter "tidemill_commits_total" "Commits written.";
    COMMIT_SECONDS describe_histogram "tidemill_commit_seconds" "Time from sending a commit to its answer.";
    BATCH_FACTS describe_histogram "tidemill_commit_facts" "Facts in a commit.";
    RUNS_ENDED describe_counter "tidemill_runs_ended_total" "Runs ended, by status.";
    DEAD describe_counter "tidemill_dead_total" "Facts, timers and jobs given up on.";
    PANICS describe_counter "tidemill_step_panics_total" "Steps that panicked; each failed its run.";
    SHARDS describe_gauge "tidemill_shards_owned" "Shards this scheduler owns.";
    TAKEOVERS describe_counter "tidemill_shard_takeovers_total" "Shards taken, free ones and one's own again.";
    CACHE_BYTES describe_gauge "tidemill_run_cache_bytes" "Bytes of run states in memory, by shard, about.";
    CACHE_RUNS describe_gauge "tidemill_run_cache_runs" "Run states in memory, by shard.";
    INBOX describe_gauge "tidemill_inbox_entries" "Entries in an inbox, by shard.";
    JOBS_LOST describe_counter "tidemill_jobs_lost_total" "Jobs that were gone and enqueued again.";
    EVICTED describe_counter "tidemill_runs_evicted_total" "Ended runs removed before their time for want of memory.";
    OVER_LIMIT describe_counter "tidemill_over_limit_total" "Requests and runs refused above a limit, by limit (requests_per_second, runs_max) and by whose it is (app, key).";
    REDIS_USED describe_gauge "tidemill_redis_used_bytes" "Memory that Redis uses.";
    REDIS_MAX describe_gauge "tidemill_redis_max_bytes" "Memory that Redis may use (maxmemory); 0: no bound.";
    REDIS_REPLICAS describe_gauge "tidemill_redis_replicas" "Replicas of Redis, by state: connected, and awaited by durability replicated.";
    MODEL_CALLS describe_counter "tidemill_model_calls_total" "Model calls that were paid for, by provider, model and API key.";
    MODEL_TOKENS describe_counter "tidemill_model_tokens_total" "Their tokens, by provider, model, API key and kind (prompt, completion).";
    MODEL_PRICE describe_counter "tidemill_model_price_nano_total" "Their price in units of 10^-9 of its currency, by provider, model, API key and currency.";
    NOTICES_SENT describe_counter "tidemill_webhook_notices_sent_total" "Notices that the webhooks of apps have taken.";
    NOTICES_FAILED describe_counter "tidemill_webhook_notices_failed_total" "Tries of notices that a webhook did not take.";
    NOTICES_GIVEN_UP describe_counter "tidemill_webhook_notices_given_up_total" "Notices that were given up.";
    NOTICES_WAITING describe_gauge "tidemill_webhook_notices_waiting" "Notices that wait, on the shards of this scheduler.";
    SWEPT describe_counter "tidemill_runs_swept_total" "Ended runs removed after their retention.";
}

/// The counters of commits. They are looked up once, because there are thousands of commits a second, when the shard is
/// taken. The recorder keeps them however long they stay unused, so they are shown as 0 from then on.
pub struct Counts {
    facts: Counter,
    commits: Counter,
    seconds: Histogram,
    batch: Histogram,
    /// The counter of each status, created when the first run ends with it.
    ended: BTreeMap<RunStatus, Counter>,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            facts: metrics::counter!(FACTS.name),
            commits: metrics::counter!(COMMITS.name),
            seconds: metrics::histogram!(COMMIT_SECONDS.name),
            batch: metrics::histogram!(BATCH_FACTS.name),
            ended: BTreeMap::new(),
        }
    }
}

impl Counts {
    /// Counts a commit with this many facts.
    pub fn committed(&self, facts: usize, took: Duration) {
        self.facts.increment(facts as u64);
        self.commits.increment(1);
        self.seconds.record(took.as_secs_f64());
        self.batch.record(facts as f64);
    }

    /// Counts an ended run.
    pub fn ended(&mut self, status: RunStatus) {
        let counter = || metrics::counter!(RUNS_ENDED.name, "status" => status.name());
        self.ended.entry(status).or_insert_with(counter).increment(1);
    }
}
