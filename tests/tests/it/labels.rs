//! Runs have labels: they are shown, found again, counted, and forgotten with their runs.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_common::config::RedisConfig;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::redis::{RedisStore, StoreLimits};
use tidemill_common::store::{Shards, label_id};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::flow::Flow;
use tidemill_tests::redis::Redis;
use tidemill_tests::wait::{LONG, until};

async fn found(client: &Client, query: &str) -> Vec<String> {
    let page = client.get(&format!("/api/v1/runs?{query}")).await;
    let data = page.body["data"].as_array().unwrap_or_else(|| panic!("{query}: {}", page.text));
    data.iter().map(|run| run["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_found_by_all_their_labels_at_any_scheduler() {
    let settings = [("run.labels_max", "2"), ("run.label_chars_max", "8"), ("scheduler.shards", "2")];
    let cluster = Cluster::start(&settings, None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let (client, other) = (here.client(), there.client());
    let (id, _) = client.register(&Flow::new("start -> end")).await;
    let submit =
        async |labels: Json| client.submit(&json!({"app": id, "inputs": {}, "labels": labels})).await;
    let both = submit(json!({"team": "blau 🟦", "env": "prod"})).await;
    let one = submit(json!({"team": "blau 🟦"})).await;
    let bare = client.submit(&json!({"app": id, "inputs": {}})).await;
    for run in [&both, &one, &bare] {
        client.ended(run).await;
    }
    let blue = "label=team%3Dblau%20%F0%9F%9F%A6";
    assert_eq!(found(&other, blue).await, [one.clone(), both.clone()]);
    assert_eq!(found(&other, &format!("{blue}&label=env%3Dprod")).await, [both.as_str()]);
    assert_eq!(found(&other, &format!("{blue}&status=succeeded&app={id}&limit=1")).await, [one.as_str()]);
    assert_eq!(found(&other, &format!("{blue}&status=failed")).await, Vec::<String>::new());
    assert_eq!(found(&other, "label=env%3D").await, Vec::<String>::new());
    assert_eq!(other.run(&both).await["labels"], json!({"team": "blau 🟦", "env": "prod"}));
    assert_eq!(other.run(&bare).await["labels"], json!({}));

    let total = async |query: &str| other.get(&format!("/api/v1/runs?total=true&limit=1&{query}")).await.body;
    assert_eq!(total(blue).await["total"], 2);
    assert_eq!(total("label=env%3Dprod").await["total"], 1);
    let of_all = total("").await;
    assert_eq!((&of_all["total"], &of_all["at_least"]), (&Json::Null, &json!(2)), "{of_all}");
    assert_eq!(total(&format!("{blue}&label=env%3Dprod")).await["at_least"], 1);
    until("the runs to be counted by app", LONG, async || {
        let counted = total(&format!("app={id}")).await;
        if counted["total"] == 3 { Ok(()) } else { Err(counted.to_string()) }
    })
    .await;
    assert_eq!(total(&format!("app={id}&since=2000-01-01&until=2001-01-01")).await["total"], 0);

    for (labels, part) in [
        (json!({"a": "1", "b": "2", "c": "3"}), "run.labels_max"),
        (json!({"a": "123456789"}), "run.label_chars_max"),
        (json!({"a": 1}), "labels.a"),
        (json!(["a"]), "labels"),
    ] {
        let refused = client.post("/api/v1/runs", &json!({"app": id, "inputs": {}, "labels": labels})).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains(part), "{}", refused.text);
    }
    assert_eq!(client.get("/api/v1/runs?label=team").await.status, 400);

    let mut command = cluster.command("tidemill");
    command.args(["ps", "--label", "env=prod", "--json"]).env("TIDEMILL_KEY", ADMIN_KEY);
    let listed =
        command.env("TIDEMILL_URL", format!("http://{}", there.address)).output().expect("it starts");
    let listed: Json = serde_json::from_slice(&listed.stdout).expect("it answers JSON");
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(1), "{listed}");

    // The lists go with their runs.
    let removed =
        client.send(client.request(Method::DELETE, &format!("/api/v1/apps/{id}?runs=remove"))).await;
    assert_eq!(removed.status, 202, "{}", removed.text);
    until("the lists of labels to be gone", LONG, async || {
        let keys = cluster.redis.cli(&["KEYS", "tm:{*}:*label*"]);
        if keys.is_empty() { Ok(()) } else { Err(keys) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_an_earlier_version_has_left_go() {
    let cluster = Cluster::start(&[("scheduler.shards", "1")], None).await;
    let scheduler = cluster.scheduler().await;
    let (client, redis) = (scheduler.client(), &cluster.redis);
    let (id, _) = client.register(&Flow::new("start -> end")).await;
    for value in ["met", "left"] {
        let run = client.submit(&json!({"app": id, "inputs": {}, "labels": {"way": value}})).await;
        client.ended(&run).await;
        // As a version before labels removes it.
        redis.cli(&["DEL", &format!("tm:{{0}}:run:{run}")]);
        redis.cli(&["ZREM", "tm:{0}:ended", &run]);
    }
    assert_eq!(
        found(&client, "label=way%3Dmet").await,
        Vec::<String>::new(),
        "a list that meets one takes it off"
    );
    until("the owner to tidy the lists", LONG, async || {
        let keys = redis.cli(&["KEYS", "tm:{*}:*label*"]);
        if keys.is_empty() { Ok(()) } else { Err(keys) }
    })
    .await;
}

/// An earlier version has removed a run, but not its entry, and more older runs of the label exist than one look reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_run_leaves_the_list_of_its_label_also_when_many_older_runs_stay() {
    const OLDER: u64 = 120;
    let redis = Redis::start().await;
    let config = RedisConfig { url: redis.url().into(), ..RedisConfig::default() };
    let store = RedisStore::new(&config, StoreLimits::default()).expect("an address");
    let (shard, label) = (ShardId(0), label_id("team", "blue"));
    let list = store.keys().runs_of_label(shard, &label);
    redis.cli(&["ZADD", &store.keys().labels(shard), "1", &label]);
    for number in 0..=OLDER {
        let run = RunId::new(number, 1, shard);
        redis.cli(&["ZADD", &list, &number.to_string(), &run.to_string()]);
        if number < OLDER {
            redis.cli(&["HSET", &store.keys().run(run), "status", "succeeded"]);
        }
    }
    for _ in 0..100 {
        store.tidy_labels(shard, 5).await.expect("a look");
        if redis.cli(&["ZCARD", &list]) == OLDER.to_string() {
            break;
        }
    }
    assert_eq!(redis.cli(&["ZCARD", &list]), OLDER.to_string());
    let gone = RunId::new(OLDER, 1, shard).to_string();
    assert_eq!(redis.cli(&["ZSCORE", &list, &gone]), "", "only the one that is gone was taken off");
}
