//! Tidemill on a Redis Cluster: the store keeps its contract, runs of several kinds end well and are followed, slots move
//! while runs go on, and doctor looks at every master.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::config::RedisConfig;
use tidemill_common::store::redis::scripts::SCRIPTS;
use tidemill_common::store::redis::{RedisStore, StoreLimits};
use tidemill_common::store::{Runs, Shards};
use tidemill_mock_llm::Running;
use tidemill_tests::check::answered;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::messages::{message, streamed};
use tidemill_tests::patient::Patient;
use tidemill_tests::redis::Redis;
use tidemill_tests::redis_cluster::RedisCluster;

use super::doctor::doctor;
use super::store_contract::kept_by;

/// Enough for each master to have some.
const SHARDS: &str = "6";

/// Two schedulers and two workers on a cluster.
struct Fleet {
    redis: RedisCluster,
    cluster: Cluster,
    schedulers: [Scheduler; 2],
    _workers: [Worker; 2],
}

impl Fleet {
    async fn start(model: &Running) -> Self {
        let redis = RedisCluster::start().await;
        let cluster = Cluster::start(&[("scheduler.shards", SHARDS)], Some(model)).await.at(&redis.url());
        let schedulers = [cluster.scheduler().await, cluster.scheduler().await];
        let workers = [cluster.worker().await, cluster.worker().await];
        Self { redis, cluster, schedulers, _workers: workers }
    }

    fn client(&self) -> Client {
        self.schedulers[0].client()
    }
}

fn chat() -> Flow {
    Flow::new("start -> a -> llm -> answer").answer("answer", "{{#llm.text#}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_the_contract_of_every_store_and_runs_every_script_in_one_slot() {
    let redis = RedisCluster::start().await;
    kept_by(|namespace| RedisConfig {
        url: redis.url().into(),
        namespace: namespace.into(),
        ..RedisConfig::default()
    })
    .await;

    // A script is loaded where it is first called, so each of these was called. A cluster refuses keys of several slots, and
    // counts that.
    let masters = redis.masters().await;
    let (mut never, mut refused) = (Vec::new(), Vec::new());
    for script in SCRIPTS {
        let hash = redis::Script::new(script.source).get_hash().to_string();
        let mut is_known = false;
        for master in &masters {
            is_known |= redis.ask::<Vec<bool>>(*master, &["SCRIPT", "EXISTS", &hash]).await == [true];
        }
        never.extend((!is_known).then_some(script.name));
    }
    assert_eq!(never, Vec::<&str>::new(), "no case of the contract calls these scripts");
    for master in masters {
        let errors: String = redis.ask(master, &["INFO", "errorstats"]).await;
        refused.extend(errors.lines().filter(|line| line.contains("CROSSSLOT")).map(str::to_string));
    }
    assert_eq!(refused, Vec::<String>::new(), "requests with keys of several slots");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_on_all_masters_end_and_are_followed_from_any_scheduler() {
    let pieces = llm::many_pieces(10);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 5).await;
    let fleet = Fleet::start(&model).await;
    let client = fleet.client();
    let mut runs = Vec::new();
    for _ in 0..24 {
        runs.push(client.start(&chat(), &[]).await);
    }
    let mut shards = Vec::new();
    for run in &runs {
        answered(&client.ended(run).await, &pieces.concat());
        let followed = fleet.schedulers[1].client().follow(run, None).await.to_the_end().await;
        assert_eq!(followed.text(), pieces.concat());
        shards.push(client.run(run).await["shard"].clone());
    }
    shards.sort_by_key(Json::to_string);
    shards.dedup();
    assert!(shards.len() > 3, "the runs are on these shards only: {shards:?}");
    let listed = client.get("/api/v1/runs?limit=100").await;
    assert_eq!(listed.body["data"].as_array().map(Vec::len), Some(24), "{}", listed.text);

    // The keys of the namespace have its tag, and the shards are spread over the masters.
    for master in 0..3 {
        let keys: Vec<String> = fleet.redis.ask(master, &["KEYS", "*"]).await;
        assert!(keys.iter().any(|key| key.contains(":inbox")), "master {master} has no shard: {keys:?}");
        let bare = keys.iter().find(|key| !key.contains('{'));
        assert_eq!(bare, None, "a key without a tag");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_pauses_and_apps_work_on_a_cluster() {
    let rules = json!([
        {"match": {"contains": "first"}, "chunks": ["one ", "answer"]},
        {"match": {}, "reply": "another"},
    ]);
    let model = llm::rules(rules).await;
    let fleet = Fleet::start(&model).await;
    let flow = Flow::new("start -> llm -> answer")
        .prompt("llm", "{{#sys.query#}}")
        .answer("answer", "{{#llm.text#}}");
    let (_, app) = fleet.client().register(&flow).await;
    for _ in 0..4 {
        let events = streamed(&app, "/v1/chat-messages", &message("the first", "", "streaming")).await;
        let text: String = events.iter().filter_map(|event| event["answer"].as_str()).collect();
        assert_eq!(text, "one answer");
        let conversation = events[0]["conversation_id"].as_str().expect("every event has the id").to_owned();
        let answer = app.post("/v1/chat-messages", &message("more", &conversation, "blocking")).await;
        assert_eq!((answer.status, &answer.body["answer"]), (200, &json!("another")), "{}", answer.text);
    }
    let listed = app.get("/v1/conversations?user=u").await;
    assert_eq!(listed.status, 200, "{}", listed.text);

    // A large value takes the way of blobs.
    let large = "x".repeat(3 * 1024 * 1024);
    let flow = Flow::new("start -> a -> end").inputs(&["text"]).template("a", "{{ text }}", "text");
    let run = fleet.client().start(&flow, &[("text", &large)]).await;
    let ended = fleet.client().ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{}", ended["error"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_move_while_runs_go_on() {
    let pieces = llm::many_pieces(40);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 25).await;
    let fleet = Fleet::start(&model).await;
    let (client, redis) = (fleet.client(), &fleet.redis);
    let patient = Patient::new(fleet.schedulers.iter().map(|scheduler| scheduler.address.clone()).collect());
    let body = json!({"workflow": chat().text(), "inputs": {}, "user": "u"});
    let submit = async |kind: &str, count: usize| {
        let mut runs = Vec::new();
        for n in 0..count {
            runs.push(patient.submit(&body, &format!("{kind} {n}")).await.expect("it is accepted"));
        }
        runs
    };
    let mut runs = submit("before", 12).await;
    let mut follower = client.follow(&runs[0], None).await;
    follower.until_text("<3>").await;
    let shard = client.run(&runs[0]).await["shard"].clone();

    // Key by key, with submissions in between.
    let slot = redis.slot_of(&format!("tm:{{{shard}}}:fence")).await;
    let from = redis.owner_of(slot, 0).await;
    let (_, more) = tokio::join!(redis.move_slot(slot, from, (from + 1) % 3), submit("meanwhile", 8));
    runs.extend(more);
    // The keys of the namespace, and other shards.
    for key in ["{tm}:meta", "tm:{0}:fence", "tm:{1}:fence"] {
        let slot = redis.slot_of(key).await;
        let from = redis.owner_of(slot, 0).await;
        redis.move_slot(slot, from, (from + 1) % 3).await;
        runs.extend(submit(key, 2).await);
    }

    assert_eq!(follower.to_the_end().await.text(), pieces.concat());
    for run in &runs {
        answered(&client.ended(run).await, &pieces.concat());
    }
    let (is_well, found) = doctor(&fleet.cluster, &[]).await;
    assert!(is_well, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_looks_at_every_master_and_says_which_address_is_wanted() {
    let model = llm::rules(json!([{"match": {}, "reply": "hello"}])).await;
    let fleet = Fleet::start(&model).await;
    let (is_well, found) = doctor(&fleet.cluster, &[]).await;
    assert!(is_well, "{found}");
    fleet.redis.ask::<()>(1, &["CONFIG", "SET", "timeout", "300"]).await;
    let (is_well, found) = doctor(&fleet.cluster, &[]).await;
    let named = format!("{}: timeout is not 0", fleet.redis.address(1));
    assert!(!is_well && found["warnings"].to_string().contains(&named), "{found}");
    fleet.redis.ask::<()>(2, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let (is_well, found) = doctor(&fleet.cluster, &[]).await;
    assert!(!is_well && found["errors"].to_string().contains("Redis is full"), "{found}");

    fleet.redis.ask::<()>(2, &["CONFIG", "SET", "maxmemory", "0"]).await;
    fleet.redis.ask::<()>(1, &["CONFIG", "SET", "cluster-require-full-coverage", "yes"]).await;
    let (is_well, found) = doctor(&fleet.cluster, &[]).await;
    let named = format!("{}: cluster-require-full-coverage is yes", fleet.redis.address(1));
    assert!(!is_well && found["warnings"].to_string().contains(&named), "{found}");

    let one = format!("redis://{}", fleet.redis.address(0));
    let (is_well, found) = doctor(&fleet.cluster, &["--redis-url", &one]).await;
    assert!(!is_well && found["errors"].to_string().contains("redis+cluster://"), "{found}");
    let alone = Redis::start().await;
    let cluster = format!("redis+cluster://127.0.0.1:{}", alone.port());
    let (is_well, found) = doctor(&fleet.cluster, &["--redis-url", &cluster]).await;
    assert!(!is_well && found["errors"].to_string().contains("not part of a cluster"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_with_one_shard_on_three_masters_starts_and_doctor_looks_at_all_of_them() {
    let model = llm::rules(json!([{"match": {}, "reply": "hello"}])).await;
    let redis = RedisCluster::start().await;
    let cluster = Cluster::start(&[("scheduler.shards", "1")], Some(&model)).await.at(&redis.url());
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let (_, app) = client.register(&chat()).await;
    let answer = app.post("/v1/chat-messages", &message("hi", "", "blocking")).await;
    assert_eq!((answer.status, &answer.body["answer"]), (200, &json!("hello")), "{}", answer.text);
    assert_eq!(client.get("/readyz").await.status, 200);
    let (is_well, found) = doctor(&cluster, &[]).await;
    assert!(is_well, "{found}");

    let mut used = Vec::new();
    for key in ["{tm}:meta", "tm:{0}:fence"] {
        used.push(redis.owner_of(redis.slot_of(key).await, 0).await);
    }
    let unused = (0..3).find(|master| !used.contains(master)).expect("two keys are on two masters at most");
    redis.ask::<()>(unused, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let (is_well, found) = doctor(&cluster, &[]).await;
    assert!(!is_well && found["errors"].to_string().contains("a write was refused"), "{found}");
    assert_eq!(client.get("/readyz").await.status, 200, "no run needs that master");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_follow_a_slot_that_is_half_moved_to_a_server_that_knows_no_script() {
    let mut redis = RedisCluster::start().await;
    let config = RedisConfig { url: redis.url().into(), namespace: "half".into(), ..RedisConfig::default() };
    let store = RedisStore::new(&config, StoreLimits::default()).expect("an address");
    let lease = Duration::from_secs(60);
    // Both keys of the script exist then.
    Shards::announce_scheduler(&*store, "s-1", lease).await.expect("it is announced");
    let shards = Runs::meta(&*store).await.expect("the namespace is made").shards;
    let new = redis.add().await;
    let slot = redis.slot_of("{half}:meta").await;
    let from = redis.owner_of(slot, 0).await;
    redis.begin_move(slot, from, new).await;
    while redis.move_some(slot, from, new).await {}
    let live = Shards::announce_scheduler(&*store, "s-2", lease).await.expect("the call follows its keys");
    assert_eq!(live, ["s-1", "s-2"]);
    assert_eq!(Runs::meta(&*store).await.expect("it is there").shards, shards);
    redis.end_move(slot, from, new).await;
    let live = Shards::announce_scheduler(&*store, "s-3", lease).await.expect("the slot has moved");
    assert_eq!(live, ["s-1", "s-2", "s-3"]);
}
