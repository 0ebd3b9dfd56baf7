//! The promises about failures, tested on real processes: kill, freeze, drain, restart, lose.
//!
//! Leases are short here, so that tests need not wait long for their end. The limits for waiting are long, so that a
//! busy machine is no failure. The name of a test is the promise.

mod agents;
mod called;
mod chats;
mod children;
mod crash_points;
mod dead;
mod demoted;
mod early_files;
mod failovers;
mod files;
mod full;
mod late_hooks;
mod limited;
mod lost_job;
mod messages;
mod older;
mod paused;
mod poison;
mod pressure;
mod profile_llm;
mod redis;
mod redis_cluster;
mod refund;
mod registered_calls;
mod restore;
mod scheduler;
mod sentinels;
mod start;
mod steps;
mod upgrade;
mod worker;

use tidemill_tests::flow::Flow;

/// Short leases: (setting, value).
const QUICK: [(&str, &str); 4] = [
    ("scheduler.shard_lease_ms", "1500"),
    ("scheduler.shard_renew_ms", "300"),
    ("worker.job_lease_ms", "1500"),
    ("scheduler.repair_seconds", "1"),
];

/// Streams the text of a model.
fn chat() -> Flow {
    Flow::new("start -> llm -> answer")
}
