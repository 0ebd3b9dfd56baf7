//! The other direction: today's programs meet data of a newer version. They leave it unchanged and say so.

use serde_json::json;
use tidemill_tests::check::answered;
use tidemill_tests::cluster::{Cluster, Worker};
use tidemill_tests::llm;
use tidemill_tests::redis::Redis;
use tidemill_tests::wait::{LONG, until};

use super::super::{QUICK, chat};

const ONE_SHARD: [(&str, &str); 1] = [("scheduler.shards", "1")];

async fn owner(redis: &Redis) -> Option<String> {
    redis.ask(&["GET", "tm:{0}:owner"]).await
}

async fn until_held_up(worker: &Worker, message: &str) {
    until(message, LONG, async || {
        let said = worker.process.log_text();
        if said.contains(message) { Ok(()) } else { Err(said) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_of_a_newer_version_is_refused_with_both_versions() {
    let cluster = Cluster::start(&[], None).await;
    cluster.redis.cli(&["HSET", "tm:meta", "v", "6", "shards", "1", "shards_first", "1"]);
    for program in ["tidemill-scheduler", "tidemill-worker"] {
        let mut process = cluster.spawn("refused", cluster.command(program));
        let end = process.ended(LONG).await;
        let said = process.log_text();
        assert_eq!(end.code(), Some(3), "{said}");
        let last = said.lines().last().unwrap_or_default();
        for part in ["tm:meta", "version 6", "version 5", "upgrade"] {
            assert!(last.contains(part), "{program} names {part:?}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_releases_its_shards_when_a_newer_version_begins_to_write() {
    let model = llm::slow(&["all", " is", " well"], 400).await;
    let cluster = Cluster::start(&[&QUICK[..], &ONE_SHARD].concat(), Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let run = client.start(&chat(), &[]).await;
    client.follow(&run, None).await.until_text("all").await;

    cluster.redis.cli(&["HSET", "tm:meta", "v", "6"]);
    until("the shard to be released", LONG, async || match owner(&cluster.redis).await {
        None => Ok(()),
        Some(owner) => Err(owner),
    })
    .await;
    let ready = client.get("/readyz").await;
    assert_eq!(ready.status, 503, "{}", ready.text);
    assert!(ready.text.contains("version 6"), "{}", ready.text);
    assert_eq!(cluster.redis.cli(&["ZCARD", "tm:schedulers"]), "0", "no scheduler is announced");
    assert_eq!(client.run(&run).await["status"], "running", "the run is unchanged");

    // The version that an upgraded scheduler would find.
    cluster.redis.cli(&["HSET", "tm:meta", "v", "1"]);
    answered(&client.ended(&run).await, "all is well");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_newer_version_is_not_changed() {
    let model = llm::rules(json!([{"match": {}, "echo": "last_user"}])).await;
    let cluster = Cluster::start(&[&QUICK[..], &ONE_SHARD].concat(), Some(&model)).await;
    let mut first = cluster.scheduler().await;
    let run = first.client().start(&chat(), &[]).await;
    first.client().node_is(&run, "llm", "queued").await;
    first.process.kill();
    // As if the dead scheduler had been newer than the next one.
    let key = format!("tm:{{0}}:run:{run}");
    cluster.redis.cli(&["HSET", &key, "v", "6"]);
    let before = cluster.redis.cli(&["HGETALL", &key]);

    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    until("the shard to be left to a newer scheduler", LONG, async || {
        let said = scheduler.process.log_text();
        if said.contains("left to a newer scheduler") { Ok(()) } else { Err(said) }
    })
    .await;
    let said = scheduler.process.log_text();
    assert!(said.contains("is written in version 6") && !said.contains("panicked"), "{said}");
    assert_eq!(cluster.redis.cli(&["HGETALL", &key]), before);
    assert_eq!(cluster.redis.cli(&["XLEN", "tm:{0}:dead"]), "0");

    cluster.redis.cli(&["HDEL", &key, "v"]);
    answered(&scheduler.client().ended(&run).await, "llm");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_newer_version_waits_for_a_newer_worker() {
    let model = llm::rules(json!([{"match": {}, "echo": "last_user"}])).await;
    let cluster = Cluster::start(&[&QUICK[..], &ONE_SHARD].concat(), Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let run = client.start(&chat(), &[]).await;
    client.node_is(&run, "llm", "queued").await;
    let jobs = "tm:{0}:jobs:default";
    let entries: Vec<(String, Vec<String>)> = cluster.redis.ask(&["XRANGE", jobs, "-", "+"]).await;
    let (id, fields) = &entries[0];
    // The same entry, as a newer scheduler would have written it.
    let newer = fields[3].replacen('{', "{\"v\":6,", 1);
    cluster.redis.cli(&["DEL", jobs]);
    cluster.redis.cli(&["XADD", jobs, id, "run", &run, "job", &newer]);

    let worker = cluster.worker().await;
    until_held_up(&worker, "returned for a newer worker").await;
    assert_eq!(client.node_is(&run, "llm", "queued").await["attempt"], 1, "its node has not failed");
    assert_eq!(cluster.redis.cli(&["XLEN", "tm:{0}:dead"]), "0");
}
