//! Measures how long a fleet needs to recover from a loss. Under load, one of two workers or one of two schedulers is
//! killed or stopped. The time ends when the last run that was hit continues. `RECOVERY_KILLS` losses of each kind
//! (20), with the default leases, or with those of `JOB_LEASE_MS` and `SHARD_LEASE_MS`. It prints a table and asserts
//! only that every run continues. Then it measures how long 200 jobs need until all are done again, after their worker
//! was killed, and after all workers were killed at once.
#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tidemill_sim::dice::Dice;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::fleet::{Fleet, Role};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::patient::Patient;
use tidemill_tests::redis::Redis;
use tidemill_tests::wait::until;
use tokio::task::JoinSet;

/// Runs in flight.
const RUNS: usize = 12;
/// The longest recovery; a multiple of all leases.
const RECOVERY_MAX: Duration = Duration::from_secs(90);
/// Jobs that are held when their workers are killed.
const MANY_JOBS: usize = 200;
/// The duration of each of them, in milliseconds.
const MANY_JOBS_MS: u64 = 4_000;
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The way in which a process ends.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// By SIGKILL.
    Killed,
    /// By SIGTERM.
    Stopped,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let kills = number("RECOVERY_KILLS", 20);
    let [job_lease, shard_lease] = [number("JOB_LEASE_MS", 10_000), number("SHARD_LEASE_MS", 5_000)];
    let renew = (shard_lease * 3 / 10).to_string();
    let (job, shard) = (job_lease.to_string(), shard_lease.to_string());
    let settings = [
        ("worker.job_lease_ms", job.as_str()),
        ("scheduler.shard_lease_ms", shard.as_str()),
        ("scheduler.shard_renew_ms", renew.as_str()),
        // Only recovery is measured: no job may be given up because its workers died too often.
        ("worker.deliveries_max", "1000"),
        // A worker that is stopped hands its jobs back instead of finishing them.
        ("worker.grace_seconds", "0"),
    ];
    println!(
        "job lease {job_lease} ms, shard lease {shard_lease} ms, {RUNS} runs in flight, {kills} kills each"
    );
    println!("{:30} {:>7} {:>9} {:>9} {:>9}", "one of two", "times", "p50 ms", "p90 ms", "max ms");
    for (role, loss) in [
        (Role::Worker, Loss::Killed),
        (Role::Scheduler, Loss::Killed),
        (Role::Worker, Loss::Stopped),
        (Role::Scheduler, Loss::Stopped),
    ] {
        let mut times = losses(role, loss, kills, &settings).await;
        times.sort();
        let at = |share: usize| times[(times.len() - 1) * share / 100].as_millis();
        let name = format!("{role:?}s is {loss:?}").to_lowercase();
        println!("{name:30} {kills:7} {:9} {:9} {:9}", at(50), at(90), at(100));
    }
    let times = (kills / 5).max(1);
    println!("\n{:30} {:>7} {:>9} {:>9}", "until 200 jobs are done", "times", "p50 ms", "max ms");
    for (name, workers) in [("their worker is killed", 1), ("all workers are killed", 2)] {
        let mut took = Vec::new();
        for _ in 0..times {
            took.push(many_jobs(workers, &settings).await);
        }
        took.sort();
        let at = |share: usize| took[(took.len() - 1) * share / 100].as_millis();
        println!("{name:30} {times:7} {:9} {:9}", at(50), at(100));
    }
}

/// Kills all workers that hold many jobs; returns the time until as many other workers have done them.
async fn many_jobs(workers: usize, settings: &[(&str, &str)]) -> Duration {
    let model = llm::rules(json!([{"match": {}, "reply": "done", "delay_ms": MANY_JOBS_MS}])).await;
    let cluster = Cluster::start(settings, Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let mut lost = Vec::new();
    for _ in 0..workers {
        lost.push(cluster.worker().await);
    }
    let flow = Flow::new("start -> llm1 -> end");
    let client = scheduler.client();
    for _ in 0..MANY_JOBS {
        client.start(&flow, &[]).await;
    }
    until("the workers to hold all jobs", RECOVERY_MAX, async || match model.requests().len() {
        asked if asked >= MANY_JOBS => Ok(()),
        asked => Err(format!("{asked} calls")),
    })
    .await;
    let killed_at = Instant::now();
    lost.iter_mut().for_each(|worker| worker.process.kill());
    let mut others = Vec::new();
    for _ in 0..workers {
        others.push(cluster.worker().await);
    }
    until("all jobs to be done", RECOVERY_MAX, async || {
        let mut left = 0_usize;
        for shard in ["tm:{0}", "tm:{1}"] {
            left += cluster.redis.ask::<usize>(&["XLEN", &format!("{shard}:jobs:default")]).await;
        }
        if left == 0 { Ok(()) } else { Err(format!("{left} jobs are left")) }
    })
    .await;
    killed_at.elapsed()
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .filter(|text| !text.is_empty())
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Ends one process of a role again and again; returns how long each recovery took.
async fn losses(role: Role, loss: Loss, count: usize, settings: &[(&str, &str)]) -> Vec<Duration> {
    // Jobs are short, so that mostly the take-over is measured and not the job.
    let model = llm::rules(json!([{"match": {}, "reply": "done", "delay_ms": 150}])).await;
    let mut dice = Dice::new(1);
    let mut fleet = Fleet::start(settings, &model, [2, 2], false, &mut dice, None).await;
    let load = load(&fleet);
    let mut times = Vec::new();
    while times.len() < count {
        let members = fleet.of(role);
        both_work(&mut fleet, role, &members, &mut dice).await;
        let hit = members[dice.below(members.len())];
        let mark = fleet.mark(hit);
        let redis = &fleet.cluster.redis;
        let mut what = held(redis, role, &mark).await;
        let lost = Instant::now();
        match loss {
            Loss::Killed => {
                fleet.kill_only(hit);
                what = held(&fleet.cluster.redis, role, &mark).await;
            }
            Loss::Stopped => fleet.stop_only(hit),
        }
        let redis = &fleet.cluster.redis;
        while !is_moving(redis, role, &mark, &what).await {
            assert!(
                lost.elapsed() < RECOVERY_MAX,
                "{what:?} of {mark} do not continue within {RECOVERY_MAX:?}"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if !what.is_empty() {
            times.push(lost.elapsed());
        }
        fleet.tend(&mut dice);
        fleet.all_serve().await;
    }
    drop(load);
    times
}

/// Keeps runs in flight until the set is dropped.
fn load(fleet: &Fleet) -> JoinSet<()> {
    let patient = Arc::new(Patient::new(fleet.schedulers()));
    let flow = Flow::new("start -> llm1 -> a -> llm2 -> b -> llm3 -> end");
    let body = json!({"workflow": flow.text(), "inputs": {}, "user": "recovery"});
    let mut clients = JoinSet::new();
    for client in 0..RUNS {
        let (patient, body) = (patient.clone(), body.clone());
        clients.spawn(async move {
            for number in 0.. {
                let run = patient.submit(&body, &format!("{client}-{number}")).await;
                let run = run.unwrap_or_else(|trouble| panic!("{trouble:?}"));
                let followed = patient.follow(&run, RECOVERY_MAX * 2).await;
                assert!(followed.is_ok(), "a run does not end: {:?}", followed.err());
            }
        });
    }
    clients
}

/// Waits until each of these members holds a job or a shard. One that was stopped may have served until now; it is started again.
async fn both_work(fleet: &mut Fleet, role: Role, members: &[usize], dice: &mut Dice) {
    until("every process to have work", RECOVERY_MAX, async || {
        fleet.tend(dice);
        for at in members {
            if held(&fleet.cluster.redis, role, &fleet.mark(*at)).await.is_empty() {
                return Err(format!("{role:?} {at} holds nothing"));
            }
        }
        Ok(())
    })
    .await;
}

/// The jobs or shards that a process holds.
async fn held(redis: &Redis, role: Role, mark: &str) -> Vec<String> {
    let mut held = Vec::new();
    for shard in ["tm:{0}", "tm:{1}"] {
        match role {
            Role::Worker => {
                let entries = pending(redis, shard).await.into_iter();
                held.extend(entries.filter(|(_, consumer)| consumer.contains(mark)).map(|(entry, _)| entry));
            }
            Role::Scheduler => {
                let owner: Option<String> = redis.ask(&["GET", &format!("{shard}:owner")]).await;
                held.extend(owner.filter(|owner| owner.contains(mark)).map(|_| shard.to_string()));
            }
        }
    }
    held
}

/// Returns true when other processes have taken over everything: jobs run again or are done, shards have made a
/// commit.
async fn is_moving(redis: &Redis, role: Role, mark: &str, what: &[String]) -> bool {
    match role {
        Role::Worker => held(redis, role, mark).await.iter().all(|entry| !what.contains(entry)),
        Role::Scheduler => {
            for shard in what {
                let fence: Vec<Option<String>> =
                    redis.ask(&["HMGET", &format!("{shard}:fence"), "holder", "commit", "claimed"]).await;
                let [holder, commit, claimed] = [0, 1, 2].map(|at| fence[at].clone().unwrap_or_default());
                if holder.contains(mark) || commit == claimed {
                    return false;
                }
            }
            true
        }
    }
}

/// The jobs that workers hold, each with the name of its worker.
async fn pending(redis: &Redis, shard: &str) -> Vec<(String, String)> {
    let stream = format!("{shard}:jobs:default");
    let groups: usize = redis.ask(&["EXISTS", &stream]).await;
    if groups == 0 {
        return Vec::new();
    }
    let entries: Vec<(String, String, u64, u64)> =
        redis.ask(&["XPENDING", &stream, "workers", "-", "+", "1000"]).await;
    entries.into_iter().map(|(entry, consumer, ..)| (entry, consumer)).collect()
}
