//! `tidemill doctor` names what is wrong with Redis and the fleet, and clients and probes are told the same while it
//! lasts.

use serde_json::{Value as Json, json};
use tidemill_tests::client::HttpResponse;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::redis::Redis;
use tidemill_tests::wait::{LONG, until};

/// Runs `doctor --json`; returns whether it exits with 0, and its findings.
pub(crate) async fn doctor(cluster: &Cluster, more: &[&str]) -> (bool, Json) {
    let mut command = cluster.command("tidemill");
    command.args(["doctor", "--json"]).args(more);
    let mut process = cluster.spawn("doctor", command);
    let exit = process.ended(LONG).await;
    let said = process.log_text();
    (exit.success(), serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}")))
}

/// Whether one of the findings of this kind has these words.
fn says(found: &Json, kind: &str, part: &str) -> bool {
    let texts = found[kind].as_array().map(Vec::as_slice).unwrap_or_default();
    texts.iter().any(|text| text.as_str().is_some_and(|text| text.contains(part)))
}

/// Runs doctor until one of its findings of this kind has these words, and it exits accordingly.
async fn finds(cluster: &Cluster, kind: &str, part: &str) {
    until(&format!("doctor to find {part:?}"), LONG, async || {
        let (is_well, found) = doctor(cluster, &[]).await;
        if says(&found, kind, part) && is_well == (kind == "hints") { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}

fn is_unavailable(answer: &HttpResponse, part: &str) {
    assert_eq!(answer.status, 503, "{}", answer.text);
    assert!(answer.headers.contains_key("retry-after"), "{:?}", answer.headers);
    assert!(answer.body["message"].as_str().is_some_and(|text| text.contains(part)), "{}", answer.text);
}

/// The answer of a worker's `/readyz`.
async fn ready(log_line: &Json) -> (u16, String) {
    let address = log_line["health"].as_str().expect("it serves its health");
    let answer = reqwest::get(format!("http://{address}/readyz")).await.expect("it answers");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

const CODE: &str = "app: {mode: workflow, name: X}\nkind: app\nversion: 0.6.0\nworkflow:\n  graph:\n    nodes:\n    \
    - {id: s, data: {type: start, title: S, variables: []}}\n    \
    - {id: c, data: {type: code, title: C, code_language: javascript, code: 'function main() { return {a: 1} }', \
    variables: [], outputs: {a: {type: number}}, tidemill: {queue: gpu}}}\n    \
    - {id: e, data: {type: end, title: E, outputs: []}}\n    edges:\n    - {source: s, target: c}\n    \
    - {source: c, target: e}\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_well_only_while_its_processes_live_and_serve_every_queue() {
    let cluster = Cluster::start(&[("scheduler.shards", "2")], None).await;
    let (is_well, found) = doctor(&cluster, &[]).await;
    assert!(is_well && says(&found, "hints", "no scheduler has used this namespace"), "{found}");
    let scheduler = cluster.scheduler().await;
    finds(&cluster, "errors", "no worker is alive").await;
    let mut worker = cluster.worker().await;
    until("doctor to find nothing", LONG, async || {
        let (is_well, found) = doctor(&cluster, &[]).await;
        if is_well { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    let run = scheduler.client().submit(&json!({"workflow": CODE, "inputs": {}, "user": "u"})).await;
    finds(&cluster, "errors", "a job of the queue \"gpu\" waits").await;
    finds(&cluster, "errors", &run).await;
    let _gpu = cluster.worker_with(&["--queues", "gpu"]).await;
    scheduler.client().ended(&run).await;
    until("doctor to find nothing", LONG, async || {
        let (is_well, found) = doctor(&cluster, &[]).await;
        if is_well { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    worker.process.terminate();
    worker.process.ended(LONG).await;
    drop(scheduler);
    finds(&cluster, "errors", "no scheduler is alive").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_scheduler_leaves_inboxes_that_do_not_move() {
    // The lease outlasts the test, so the frozen scheduler stays the owner.
    let cluster =
        Cluster::start(&[("scheduler.shards", "1"), ("scheduler.shard_lease_ms", "120000")], None).await;
    let (frozen, other) = (cluster.scheduler().await, cluster.worker().await);
    let lives = cluster.scheduler().await;
    let mut owner = String::new();
    until("the shard to have an owner", LONG, async || {
        owner = cluster.redis.cli(&["GET", "tm:{0}:owner"]);
        if owner.is_empty() { Err(owner.clone()) } else { Ok(()) }
    })
    .await;
    let (owner, client) =
        if owner == frozen.id { (&frozen, lives.client()) } else { (&lives, frozen.client()) };
    owner.process.freeze();
    client.submit(&json!({"workflow": CODE, "inputs": {}, "user": "u"})).await;
    finds(&cluster, "errors", "the inbox of shard 0 does not move").await;
    owner.process.thaw();
    drop(other);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_and_a_cluster_node_are_named_as_such_by_doctor_and_by_every_process() {
    let cluster = Cluster::start(&[], None).await;
    let master = cluster.redis.port().to_string();
    let replica = Redis::start_as(&["--replicaof", "127.0.0.1", &master]).await;
    let node = Redis::start_as(&["--cluster-enabled", "yes"]).await;
    for (redis, part) in [(&replica, "is a replica of 127.0.0.1"), (&node, "is a server of a Redis Cluster")]
    {
        let (is_well, found) = doctor(&cluster, &["--redis-url", &redis.url()]).await;
        assert!(!is_well && says(&found, "errors", part), "{found}");
        for program in ["tidemill-scheduler", "tidemill-worker"] {
            let mut command = cluster.command(program);
            command.args(["--redis-url", &redis.url()]);
            let mut process = cluster.spawn(program, command);
            assert_eq!(process.ended(LONG).await.code(), Some(3), "{}", process.tail());
            assert!(process.log_text().contains(part), "{}", process.tail());
        }
    }
    finds(&cluster, "hints", "one replica: a fail-over loses the steps").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_takes_no_writes_clients_and_probes_are_told_why() {
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
    let started = worker.process.wait_for_log("worker started").await;
    let client = scheduler.client();
    for (set, unset, part) in [
        (["maxmemory", "1"], ["maxmemory", "0"], "Redis is full"),
        (["min-replicas-to-write", "1"], ["min-replicas-to-write", "0"], "min-replicas-to-write"),
    ] {
        cluster.redis.cli(&["CONFIG", "SET", set[0], set[1]]);
        let body = json!({"workflow": CODE, "inputs": {}, "user": "u"});
        is_unavailable(&client.post("/api/v1/runs", &body).await, part);
        is_unavailable(&client.get("/readyz").await, part);
        let (status, said) = ready(&started).await;
        assert!(status == 503 && said.contains(part), "{status} {said}");
        finds(&cluster, "errors", part).await;
        cluster.redis.cli(&["CONFIG", "SET", unset[0], unset[1]]);
        until("the worker to be ready", LONG, async || match ready(&started).await {
            (200, _) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_redis_became_a_replica_clients_are_told_so() {
    let cluster = Cluster::start(&[], None).await;
    let (scheduler, master) = (cluster.scheduler().await, Redis::start().await);
    cluster.redis.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let body = json!({"workflow": CODE, "inputs": {}, "user": "u"});
    until("submitting to be refused", LONG, async || {
        let answer = scheduler.client().post("/api/v1/runs", &body).await;
        if answer.status == 503 && answer.text.contains("read-only replica") {
            Ok(())
        } else {
            Err(answer.text)
        }
    })
    .await;
    is_unavailable(&scheduler.client().get("/readyz").await, "read-only replica");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_changes_under_the_fleet_is_an_outage() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    cluster.redis.cli(&["CONFIG", "SET", "requirepass", "changed"]);
    let kill = ["-a", "changed", "--no-auth-warning", "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
    cluster.redis.cli(&kill);
    until("requests to be refused", LONG, async || {
        let answer = scheduler.client().get("/api/v1/runs").await;
        match answer.status {
            503 if answer.text.contains("the password") => {
                is_unavailable(&answer, "refuses this process");
                Ok(())
            }
            503 => Err(answer.text),
            other => panic!("{other}: {}", answer.text),
        }
    })
    .await;
    cluster.redis.cli(&["-a", "changed", "--no-auth-warning", "CONFIG", "SET", "requirepass", ""]);
    until("requests to be served again", LONG, async || {
        let answer = scheduler.client().get("/api/v1/runs").await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_parameter_of_our_own_api_is_refused_and_of_difys_passed_over() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    for (path, part) in [
        ("/api/v1/runs?limt=1", "did you mean limit?"),
        ("/api/v1/runs?page=2", "unknown parameter page"),
        ("/api/v1/triggers?limit=1", "has no parameters"),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text);
        assert!(answer.text.contains(part), "{path}: {}", answer.text);
    }
    let answer = client.post("/api/v1/apps", &json!({"workflow": CODE})).await;
    let app = client.with_key(answer.body["key"].as_str());
    assert_eq!(app.get("/v1/info?unknown=1").await.status, 200);
}
