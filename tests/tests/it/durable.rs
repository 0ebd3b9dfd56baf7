//! Durability as chosen: what is acknowledged as `replicated` is on each replica, and what is acknowledged as `fsync` on
//! disk; everything else is told as unknown, and the same key asks again.

use reqwest::Method;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::flow::Flow;
use tidemill_tests::redis::Redis;
use tidemill_tests::redis_cluster::RedisCluster;
use tidemill_tests::wait::{LONG, until};
use tidemill_tests::waitaof_proxy::WaitAofProxy;

const ASK: &str = include_str!("workflows/ask_twice.yml");

/// Long enough for a loaded machine.
const PATIENT: (&str, &str) = ("scheduler.durability_wait_ms", "20000");
const HASTY: (&str, &str) = ("scheduler.durability_wait_ms", "300");

/// A replica of the cluster's Redis that has all its data.
async fn replica(of: &Redis) -> Redis {
    let replica = Redis::start().await;
    follow(&replica, of).await;
    replica
}

/// Makes it a replica, and waits until the master counts on it.
async fn follow(replica: &Redis, master: &Redis) {
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let line = format!("port={},state=online", replica.port());
    until("the replica to be online", LONG, async || {
        let info = master.cli(&["INFO", "replication"]);
        if info.contains(&line) { Ok(()) } else { Err(info) }
    })
    .await;
}

pub(crate) fn body(durability: &str) -> Json {
    json!({"workflow": Flow::new("start -> end").text(), "inputs": {}, "durability": durability})
}

pub(crate) async fn submit(client: &Client, body: &Json, key: &str) -> HttpResponse {
    let request = client.request(Method::POST, "/api/v1/runs").header("content-type", "application/json");
    client.send(request.header("idempotency-key", key).body(body.to_string())).await
}

pub(crate) fn id(answer: &HttpResponse) -> String {
    answer.body["id"].as_str().unwrap_or_else(|| panic!("no id: {}", answer.text)).to_string()
}

/// The answer for a write that may be lost; returns the id of its run.
pub(crate) fn is_unknown(answer: &HttpResponse, part: &str) -> String {
    assert_eq!(answer.status, 503, "{}", answer.text);
    assert_eq!(answer.body["code"], "durability_unknown", "{}", answer.text);
    assert_eq!(answer.body["durability"], "unknown", "{}", answer.text);
    assert!(answer.headers.contains_key("retry-after"), "{:?}", answer.headers);
    assert!(answer.body["message"].as_str().is_some_and(|text| text.contains(part)), "{}", answer.text);
    answer.body["run_id"].as_str().expect("the run").to_string()
}

/// Whether a server has a run; the client may not know its shard.
pub(crate) fn has(redis: &Redis, run: &str) -> bool {
    redis.cli(&["--scan", "--pattern", &format!("tm:*:run:{run}")]).contains(run)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replicated_run_waits_for_each_replica() {
    let cluster = Cluster::start(&[PATIENT, ("scheduler.durability", "replicated")], None).await;
    let replicas = [replica(&cluster.redis).await, replica(&cluster.redis).await];
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    for n in 0..20 {
        // The default, and by name.
        let mut body = body("replicated");
        if n % 2 == 0 {
            body.as_object_mut().expect("an object").remove("durability");
        }
        let answer = submit(&client, &body, &format!("key-{n}")).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        // The replicas have it now, not soon.
        assert!(replicas.iter().all(|replica| has(replica, &id(&answer))));
    }
    let metrics = client.get("/metrics").await.text;
    assert!(metrics.contains("tidemill_redis_replicas{state=\"awaited\"} 2"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_replicated_is_told_as_unknown_and_the_same_key_asks_again() {
    let cluster = Cluster::start(&[HASTY, ("scheduler.replica_away_seconds", "3600")], None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    is_unknown(&submit(&client, &body("replicated"), "none").await, "no replica");
    assert_eq!(submit(&client, &body("memory"), "memory").await.status, 201);

    let (near, away) = (replica(&cluster.redis).await, replica(&cluster.redis).await);
    until("both replicas to be waited for", LONG, async || {
        let answer = submit(&client, &body("replicated"), "none").await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text) }
    })
    .await;
    away.cli(&["REPLICAOF", "NO", "ONE"]);
    let run = is_unknown(&submit(&client, &body("replicated"), "same").await, "1 of 2 replicas");
    assert!(has(&near, &run) && !has(&away, &run), "the other replica has it");
    assert_eq!(is_unknown(&submit(&client, &body("replicated"), "same").await, "1 of 2"), run);

    follow(&away, &cluster.redis).await;
    let repeated = until("the same key to be answered with the run", LONG, async || {
        let answer = submit(&client, &body("replicated"), "same").await;
        if answer.status == 200 { Ok(id(&answer)) } else { Err(answer.text) }
    })
    .await;
    assert_eq!(repeated, run);
    assert!(has(&away, &run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_away_for_long_is_not_waited_for() {
    let cluster = Cluster::start(&[HASTY, ("scheduler.replica_away_seconds", "1")], None).await;
    let mut scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let (_near, away) = (replica(&cluster.redis).await, replica(&cluster.redis).await);
    until("both replicas to be waited for", LONG, async || {
        let answer = submit(&client, &body("replicated"), "first").await;
        if answer.status < 300 { Ok(()) } else { Err(answer.text) }
    })
    .await;
    away.cli(&["REPLICAOF", "NO", "ONE"]);
    until("the other replica alone to be enough", LONG, async || {
        let answer = submit(&client, &body("replicated"), "later").await;
        if answer.status < 300 { Ok(()) } else { Err(answer.text) }
    })
    .await;
    let said = "a replica of Redis is away; durability replicated does not wait for it any more";
    let line = scheduler.process.wait_for_log(said).await;
    assert_eq!(line["replica"], format!("127.0.0.1:{}", away.port()), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_and_commands_are_replicated_before_they_are_acknowledged() {
    let model = tidemill_tests::llm::slow(&["x"], 0).await;
    let system = super::system(&[PATIENT], &model).await;
    let client = &system.client;
    let replica = replica(&system.cluster.redis).await;
    let run = client.submit(&json!({"workflow": ASK, "inputs": {"name": "Ada"}})).await;
    let pause = until("the run to pause", LONG, async || {
        let shown = client.run(&run).await;
        let pause = shown["pauses"][0]["pause_id"].as_str().map(str::to_string);
        pause.filter(|_| shown["status"] == "paused").ok_or_else(|| shown.to_string())
    })
    .await;
    let key = |rest: &str| format!("tm:{{{}}}:run:{run}:{rest}", shard_of(&run));

    let path = format!("/api/v1/runs/{run}/pauses/{pause}/answer");
    let asked: Json = client.run(&run).await["pauses"][0].clone();
    let is_left = asked.to_string().contains("\"word\"");
    let (action, inputs) = if is_left { ("ok", json!({"word": "x"})) } else { ("go", json!({})) };
    let answer = json!({"action": action, "inputs": inputs, "key": "k", "durability": "replicated"});
    let answered = client.post(&path, &answer).await;
    assert_eq!(answered.status, 202, "{} {asked}", answered.text);
    assert_eq!(replica.cli(&["HEXISTS", &key("pauses"), &format!("{pause}:answer")]), "1");
    assert_eq!(client.post(&path, &answer).await.status, 202, "the same key is answered in the same way");

    let command = json!({"command": "pause", "reason": "look", "durability": "replicated"});
    let commanded = client.post(&format!("/api/v1/runs/{run}/commands"), &command).await;
    assert_eq!(commanded.status, 202, "{}", commanded.text);
    assert_eq!(replica.cli(&["HLEN", &key("commands")]), "1");

    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    let wrong = json!({"command": "stop", "durability": "perhaps"});
    let wrong = client.post(&format!("/api/v1/runs/{run}/commands"), &wrong).await;
    assert_eq!((wrong.status, &wrong.body["code"]), (400, &json!("invalid_param")), "{}", wrong.text);
}

fn shard_of(run: &str) -> u16 {
    run.parse::<tidemill_common::ids::RunId>().expect("a run's id").shard().0
}

#[tokio::test(flavor = "multi_thread")]
async fn apps_ask_for_durability_with_a_header() {
    let model = tidemill_tests::llm::slow(&["x"], 0).await;
    let system = super::system(&[HASTY], &model).await;
    let (_, app) = system.client.register(&Flow::new("start -> end")).await;
    let run = json!({"inputs": {}, "user": "u", "response_mode": "blocking"});
    let send = async |durability: &str| {
        let request =
            app.request(Method::POST, "/v1/workflows/run").header("content-type", "application/json");
        app.send(request.header("tidemill-durability", durability).body(run.to_string())).await
    };
    assert_eq!(send("memory").await.status, 200);
    is_unknown(&send("replicated").await, "no replica");
    let wrong = send("maybe").await;
    assert_eq!(wrong.status, 400, "{}", wrong.text);
    let fsync = send("fsync").await;
    assert_eq!(
        (fsync.status, &fsync.body["code"]),
        (400, &json!("durability_unsupported")),
        "{}",
        fsync.text
    );
    let _replica = replica(&system.cluster.redis).await;
    until("the replica to be waited for", LONG, async || {
        let answer = send("replicated").await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fsync_needs_a_server_that_can_say_what_is_on_disk() {
    let cluster = Cluster::start(&[PATIENT], None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let refused = submit(&client, &body("fsync"), "a").await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (400, &json!("durability_unsupported")),
        "{}",
        refused.text
    );
    assert!(refused.text.contains("appendfsync always"), "{}", refused.text);
    cluster.redis.cli(&["CONFIG", "SET", "appendfsync", "always"]);
    assert_eq!(submit(&client, &body("fsync"), "a").await.status, 201, "nothing was created before");
    cluster.redis.cli(&["CONFIG", "SET", "appendonly", "no"]);
    until("the file to be asked for", LONG, async || {
        // What the server can do is believed for a moment.
        let refused = submit(&client, &body("fsync"), "b").await;
        if refused.text.contains("appendonly yes") { Ok(()) } else { Err(refused.text) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_waitaof_is_asked_for_its_disk() {
    let cluster = Cluster::start(&[HASTY], None).await;
    let proxy = WaitAofProxy::start(cluster.redis.port()).await;
    let mut command = cluster.command("tidemill-scheduler");
    command.args(["--listen", "127.0.0.1:0"]).env("TIDEMILL_REDIS_URL", proxy.url());
    let scheduler = cluster.scheduler_of(command).await;
    let client = Client::new(&scheduler.address, Some(ADMIN_KEY));
    assert_eq!(submit(&client, &body("fsync"), "a").await.status, 201);
    assert!(proxy.asked() > 0);
    proxy.is_written(false);
    let run = is_unknown(&submit(&client, &body("fsync"), "b").await, "the disk");
    proxy.is_written(true);
    let again = submit(&client, &body("fsync"), "b").await;
    assert_eq!((again.status, id(&again)), (200, run));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_cluster_each_run_waits_for_the_replica_of_its_own_master() {
    let mut redis = RedisCluster::start().await;
    let settings = [("scheduler.shards", "6"), ("scheduler.durability_wait_ms", "3000")];
    let cluster = Cluster::start(&settings, None).await.at(&redis.url());
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let on = async |redis: &RedisCluster, at: usize, run: &str| {
        let keys: Vec<String> =
            redis.try_ask(at, &["KEYS", &format!("tm:*:run:{run}")]).await.unwrap_or_default();
        !keys.is_empty()
    };
    // Until each master was asked once: then the scheduler knows the replicas of all.
    let mut asked = BTreeSet::new();
    for n in 0..200 {
        let answer = submit(&client, &body("replicated"), &format!("whole {n}")).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let mut have = Vec::new();
        for at in 0..redis.servers.len() {
            if on(&redis, at, &id(&answer)).await {
                have.push(at);
            }
        }
        assert_eq!(have.len(), 2, "a master and its replica have it: {have:?}");
        asked.extend(have);
        if n > 10 && asked.len() == redis.servers.len() {
            break;
        }
    }
    assert_eq!(asked.len(), redis.servers.len(), "{asked:?}");
    let replica = redis.replica_of(0);
    redis.servers[replica].kill();
    let (mut accepted, mut unknown) = (0, None);
    for n in 0..40 {
        let key = format!("less {n}");
        let answer = submit(&client, &body("replicated"), &key).await;
        match answer.status {
            201 => {
                assert!(!on(&redis, 0, &id(&answer)).await, "its only replica is down");
                accepted += 1;
            }
            _ => unknown = Some((key, is_unknown(&answer, "1 of 1 replicas"))),
        }
        if accepted > 2 && unknown.is_some() {
            break;
        }
    }
    let (key, run) = unknown.expect("a run on the master without a replica");
    assert!(accepted > 2, "the other masters have their replicas");
    assert!(on(&redis, 0, &run).await);
    redis.servers[replica].restart().await;
    let repeated = until("the same key to be answered with the run", LONG, async || {
        let answer = submit(&client, &body("replicated"), &key).await;
        if answer.status == 200 { Ok(id(&answer)) } else { Err(answer.text) }
    })
    .await;
    assert_eq!(repeated, run);
    assert!(on(&redis, replica, &run).await);

    let refused = submit(&client, &body("fsync"), "disk").await;
    assert_eq!(refused.body["code"], "durability_unsupported", "{}", refused.text);
    assert!(
        refused.text.contains("appendfsync always") && refused.text.contains("127.0.0.1:"),
        "{}",
        refused.text
    );
    for at in 0..3 {
        redis.ask::<()>(at, &["CONFIG", "SET", "appendfsync", "always"]).await;
    }
    assert_eq!(submit(&client, &body("fsync"), "disk").await.status, 201);
}
