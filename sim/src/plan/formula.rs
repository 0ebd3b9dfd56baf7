//! What an idle fleet costs, as formulas. The names say which loop of the product each term is; the simulator measures
//! the requests. The commands and connections were compared with those that a real Redis counts (docs/operations.md).
//!
//! A request is one call of the store. Over Redis some are several commands: one for each shard or each stream.

use tidemill_common::limits;

use super::Size;

/// A worker's wait for jobs on all streams (`worker/src/jobs/consume.rs`).
const READ: f64 = 1.0;
/// Between two looks for new shards (`worker/src/jobs/consume.rs`).
const REFRESH: f64 = 5.0;
/// Between two looks for jobs of silent workers, of a fleet of one (`worker/src/jobs/takeover.rs`). With n workers each
/// looks n times less often, at 0.5 to 1 times this.
const LOOK: f64 = 0.75;
/// Between two surveys of what a worker can do (`worker/src/setup/survey.rs`).
const SURVEY: f64 = 10.0;
/// Between two looks of a scheduler that does not own all shards: a tenth of the lease (`scheduler/src/shards/keeper.rs`).
const KEEP: f64 = limits::SHARD_LEASE_MS as f64 / 10_000.0;
/// Between two sweeps of a shard, and the turn of its loop after that (`scheduler/src/shards/retention.rs`).
const SWEEP: f64 = 10.0;
/// Between two searches for lost jobs (`scheduler.repair_seconds`).
const REPAIR: f64 = 60.0;
/// Between two looks for turns of conversations, orders of sub-workflow runs, budgets (`scheduler/src/background`).
const TURNS: f64 = 5.0;
const CALLS: f64 = 10.0;
const BUDGETS: f64 = 5.0;
/// Between two reads of the webhooks of apps, and between two looks for notices to them.
const WEBHOOKS: f64 = 5.0;
const NOTICES: f64 = 30.0;
/// Between two looks for due schedules: this, and more for each shard.
const SCHEDULES: f64 = 2.0;
const SCHEDULES_PER_SHARD: f64 = 0.05;
/// Between two looks at the slots of a cluster, at each of its masters (`redis.cluster_refresh_ms`).
const SLOTS: f64 = 2.0;

const BEAT: f64 = limits::JOB_LEASE_MS as f64 / 3_000.0;
const RENEW: f64 = limits::SHARD_RENEW_MS as f64 / 1_000.0;

/// Requests per second of all processes of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Requests {
    pub workers: f64,
    pub schedulers: f64,
}

/// What Redis has to carry.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    pub connections_of_worker: f64,
    pub connections_of_scheduler: f64,
    /// Connections to one server, of all processes.
    pub connections_to_server: f64,
    /// Commands per second of one server, without those that scripts call.
    pub commands_of_server: f64,
}

/// The time between two looks of one worker for jobs of silent workers: at the turn of its loop after it is due.
fn look(workers: f64) -> f64 {
    LOOK * workers + READ / 2.0
}

/// The requests to the store.
pub fn requests(size: Size) -> Requests {
    let (workers, shards, schedulers) = numbers(size);
    let own = shards / schedulers;
    let worker = 1.0 / READ + 1.0 / REFRESH + 2.0 / BEAT + 1.0 / look(workers);
    let keeper = 2.0 / KEEP;
    let background =
        1.0 / TURNS + 1.0 / CALLS + 1.0 / BUDGETS + 1.0 / (SCHEDULES + SCHEDULES_PER_SHARD * own);
    let background = background + 1.0 / WEBHOOKS + 1.0 / NOTICES;
    let of_shard = 1.0 / READ + 5.0 / SWEEP + 1.0 / REPAIR;
    let scheduler = keeper + 1.0 / RENEW + background + own * of_shard;
    Requests { workers: workers * worker, schedulers: schedulers * scheduler }
}

/// The longest time that a shard of a killed scheduler has no owner: its lease runs out, then the other schedulers notice
/// that it is gone (the same time after its last announcement), and each looks once more.
pub fn take_over_seconds() -> f64 {
    limits::SHARD_LEASE_MS as f64 / 1000.0 + 2.0 * KEEP
}

/// What Redis carries.
pub fn costs(size: Size) -> Costs {
    let (workers, shards, schedulers) = numbers(size);
    let own = shards / schedulers;
    let (is_cluster, masters) = (size.masters > 0, f64::from(size.masters.max(1)));
    // The stores of a process each have a connection to each server: two in a worker, three in a scheduler. A worker has
    // one for hints and one for each read that waits; the owner of a shard has one for commits and one for facts.
    let streams = if is_cluster { shards } else { 1.0 };
    let (of_worker, of_scheduler) = (2.0 * masters + 1.0 + streams, 3.0 * masters + 2.0 * own);
    let connections = workers * of_worker + schedulers * of_scheduler;
    let slots = if is_cluster { masters / SLOTS } else { 0.0 };
    let worker =
        streams / READ + 1.0 / REFRESH + 3.0 / BEAT + shards / look(workers) + 2.0 / SURVEY + 2.0 * slots;
    let keeper = 2.0 / KEEP;
    let background =
        own / TURNS + own / CALLS + 1.0 / BUDGETS + (own + 1.0) / (SCHEDULES + SCHEDULES_PER_SHARD * own);
    let background = background + 1.0 / WEBHOOKS + own / NOTICES;
    let of_shard = 1.0 / READ + 1.0 / RENEW + 6.0 / SWEEP + 2.0 / REPAIR;
    let scheduler = keeper + background + own * of_shard + 3.0 * slots;
    Costs {
        connections_of_worker: of_worker,
        connections_of_scheduler: of_scheduler,
        connections_to_server: connections / masters,
        commands_of_server: (workers * worker + schedulers * scheduler) / masters,
    }
}

fn numbers(size: Size) -> (f64, f64, f64) {
    (f64::from(size.workers), f64::from(size.shards), f64::from(size.schedulers.max(1)))
}
