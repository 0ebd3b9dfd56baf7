//! A step sends Redis the same commands on a cluster as on one server: those of one shard are not split, and none is added.

use std::collections::BTreeMap;
use std::process::Command;

use tidemill_common::store::redis::scripts::SCRIPTS;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::redis_cluster::RedisCluster;
use tidemill_tests::wait::{LONG, until};

/// Nodes of the chain between start and end, each done by a worker.
const NODES: usize = 20;
/// Runs that are watched. Of each command the least number counts: now and then a worker is slow, and a commit has less.
const RUNS: usize = 5;

/// Scripts that steps call. The others come by the clock.
const OF_STEPS: [&str; 6] =
    ["create_run", "complete_jobs", "record_step", "begin_step", "load_run", "unknown"];

/// The commands on the keys of the shard, by name; of scripts by the script.
type Counts = BTreeMap<String, usize>;

/// A chain whose nodes are all executed by a worker.
fn chain() -> Flow {
    let names: Vec<String> = (0..NODES).map(|n| format!("n{n}")).collect();
    Flow::new(&format!("start -> {} -> end", names.join(" -> ")))
}

/// The commands that a run sends to the server at this port, which has its shard.
async fn of_a_run(cluster: &Cluster, client: &tidemill_tests::client::Client, port: u16) -> Counts {
    let mut monitor = Command::new("redis-cli");
    monitor.args(["-p", &port.to_string(), "MONITOR"]);
    let watching = cluster.spawn("monitor", monitor);
    until("the server to be watched", LONG, async || {
        if watching.log_text().starts_with("OK") { Ok(()) } else { Err(watching.log_text()) }
    })
    .await;
    let run = client.start(&chain(), &[]).await;
    assert_eq!(client.ended(&run).await["status"], "succeeded");
    // The report of the last job, and what the commits of the run published.
    until("the end to be seen", LONG, async || {
        let seen = watching.log_text();
        if seen.contains("\"ZADD\" \"tm:{0}:ended\"") { Ok(()) } else { Err(seen) }
    })
    .await;
    counted(&watching.log_text())
}

/// Counts what steps send: commits with their guard, results, and the jobs that are handed out. Leases, signs of life and
/// looks at timers come by the clock, so their number says nothing.
fn counted(seen: &str) -> Counts {
    let mut counts = Counts::new();
    for line in seen.lines().filter(|line| !line.contains(" lua]")) {
        let words: Vec<&str> = line.split(" \"").skip(1).map(|word| word.trim_end_matches('"')).collect();
        let Some(name) = words.first().map(|name| name.to_uppercase()) else { continue };
        let is_of_shard = |at: usize| words.get(at).is_some_and(|key| key.starts_with("tm:{0}:"));
        match name.as_str() {
            "MULTI" | "EXEC" => *counts.entry(name).or_default() += 1,
            "WATCH" | "HSET" | "HDEL" | "XADD" | "ZADD" | "ZREM" | "XACK" | "XDEL" | "PUBLISH"
                if is_of_shard(1) =>
            {
                *counts.entry(name).or_default() += 1;
            }
            "EVALSHA" if is_of_shard(3) => {
                let script = script_of(words.get(1).copied().unwrap_or_default());
                if OF_STEPS.contains(&script) {
                    *counts.entry(script.to_string()).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    counts
}

/// The name of the script with this hash.
fn script_of(hash: &str) -> &'static str {
    let found = SCRIPTS.iter().find(|script| redis::Script::new(script.source).get_hash() == hash);
    found.map_or("unknown", |script| script.name)
}

/// The least number of each command in several runs.
async fn least(cluster: &Cluster, port: u16) -> Counts {
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    // The first run loads scripts and the workflow.
    let run = client.start(&chain(), &[]).await;
    client.ended(&run).await;
    let mut least = of_a_run(cluster, &client, port).await;
    for _ in 1..RUNS {
        let counts = of_a_run(cluster, &client, port).await;
        for (name, count) in &counts {
            let known = least.entry(name.clone()).or_insert(*count);
            *known = (*known).min(*count);
        }
    }
    least
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_sends_the_same_commands_on_a_cluster_as_on_one_server() {
    let settings = [("scheduler.shards", "1")];
    let one = Cluster::start(&settings, None).await;
    let on_one = least(&one, one.redis.port()).await;

    let servers = RedisCluster::start().await;
    let several = Cluster::start(&settings, None).await.at(&servers.url());
    let slot = servers.slot_of("tm:{0}:fence").await;
    let owner = servers.owner_of(slot, 0).await;
    let on_cluster = least(&several, servers.servers[owner].port()).await;

    assert_eq!(on_one["complete_jobs"], NODES, "{on_one:?}");
    assert!(on_one["EXEC"] >= NODES, "{on_one:?}");
    assert_eq!(on_one, on_cluster, "commands of a run of {NODES} steps");
    eprintln!("{NODES} steps: {on_one:?}");
}
