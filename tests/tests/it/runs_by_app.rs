//! Runs are listed by app: the logs of an app do not look at the runs of others, and runs of an earlier version are listed
//! when a namespace is upgraded.

use serde_json::{Value as Json, json};
use tidemill_common::config::RedisConfig;
use tidemill_common::ids::{BlobId, ShardId};
use tidemill_common::limits;
use tidemill_common::store::Runs;
use tidemill_common::store::redis::{RedisStore, StoreLimits};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::redis::Redis;
use tidemill_tests::wait::{LONG, until};

const SHARDS: u16 = 2;

async fn runs_of(app: &Client, count: usize) -> Vec<String> {
    let mut runs = Vec::new();
    for _ in 0..count {
        let body = json!({"inputs": {}, "user": "u", "response_mode": "blocking"});
        let run = app.post("/v1/workflows/run", &body).await;
        assert_eq!(run.body["data"]["status"], "succeeded", "{}", run.text);
        runs.push(run.body["workflow_run_id"].as_str().expect("an id").to_owned());
    }
    runs.reverse();
    runs
}

async fn logs(app: &Client) -> Vec<String> {
    let found = app.get("/v1/workflows/logs").await;
    let data = found.body["data"].as_array().unwrap_or_else(|| panic!("{}", found.text));
    let id = |entry: &Json| entry["workflow_run"]["id"].as_str().expect("an id").to_owned();
    data.iter().map(id).collect()
}

fn listed(redis: &Redis, app: &str) -> Vec<String> {
    let of_shard = |n| redis.cli(&["ZRANGE", &format!("tm:{{{n}}}:runs_of_app:{app}"), "0", "-1"]);
    (0..SHARDS).flat_map(|n| of_shard(n).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

async fn until_all_are_listed(redis: &Redis) {
    until("the owners to have listed all runs", LONG, async || {
        let progress = (0..SHARDS).map(|n| redis.cli(&["GET", &format!("tm:{{{n}}}:runs_of_apps")]));
        let progress: Vec<String> = progress.collect();
        if progress.iter().all(|it| it.starts_with("again ")) { Ok(()) } else { Err(progress.join(", ")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_an_earlier_version_are_listed_by_app_once_no_older_process_runs() {
    let shards = SHARDS.to_string();
    let settings = [("scheduler.shards", shards.as_str()), ("scheduler.logs_scanned_max", "20")];
    let cluster = Cluster::start(&settings, None).await;
    let redis = &cluster.redis;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let (one, app) = client.register(&Flow::new("start -> end")).await;
    let (_, other) = client.register(&Flow::new("start -> end").inputs(&["optional"])).await;
    let runs = runs_of(&app, 5).await;
    until_all_are_listed(redis).await;
    let mut sorted = runs.clone();
    sorted.sort();
    let mut found = listed(redis, &one);
    found.sort();
    assert_eq!(found, sorted, "each run is listed when it is created");
    assert_eq!(logs(&app).await, runs);
    drop(scheduler);

    // As the version before has left it: its runs are in no list, and one of its processes lives.
    redis.cli(&["ZADD", "tm:workers", "99999999999999", "older"]);
    redis.cli(&["HSET", "tm:meta", "v", "4"]);
    for n in 0..SHARDS {
        redis.cli(&["DEL", &format!("tm:{{{n}}}:runs_of_app:{one}"), &format!("tm:{{{n}}}:runs_of_apps")]);
    }
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let (app, other) = (client.with_key(app.key()), client.with_key(other.key()));
    assert_eq!(logs(&app).await, runs, "the runs of all apps are looked at");
    let newer = runs_of(&app, 1).await;
    let all: Vec<String> = newer.iter().chain(&runs).cloned().collect();
    assert_eq!(logs(&app).await, all);
    assert_eq!(listed(redis, &one), newer, "older runs wait for the older process");

    redis.cli(&["ZREM", "tm:workers", "older"]);
    until_all_are_listed(redis).await;
    assert_eq!(logs(&app).await, all);
    // Newer runs of another app than a request may look at.
    runs_of(&other, 25).await;
    assert_eq!(logs(&app).await, all, "runs of another app cost nothing");
    for n in 0..SHARDS {
        redis.cli(&["DEL", &format!("tm:{{{n}}}:runs_of_app:{one}")]);
    }
    assert_eq!(logs(&app).await, Vec::<String>::new(), "only the list of the app is read");
}

/// The ids of a list, read in pages of this size.
async fn pages(client: &Client, query: &str, limit: usize) -> Vec<String> {
    let (mut found, mut before) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/api/v1/runs?limit={limit}&{query}{before}")).await;
        let data = page.body["data"].as_array().unwrap_or_else(|| panic!("{query}: {}", page.text));
        assert!(data.len() <= limit, "{}", page.text);
        found.extend(data.iter().map(|run| run["id"].as_str().expect("an id").to_owned()));
        match page.body["next"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => return found,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_found_by_app_user_status_error_and_time_in_stable_pages() {
    let cluster = Cluster::start(&[("scheduler.logs_scanned_max", "4")], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let failing =
        Flow::new("start -> broken -> end").inputs(&["who"]).template("broken", "{{ x.a.b }}", "who");
    let (one, app) = client.register(&Flow::new("start -> end")).await;
    let (two, other) = client.register(&failing).await;
    let start = async |app: &Client, user: &str| {
        let body = json!({"inputs": {"who": "x"}, "user": user, "response_mode": "blocking"});
        let run = app.post("/v1/workflows/run", &body).await;
        run.body["workflow_run_id"].as_str().unwrap_or_else(|| panic!("{}", run.text)).to_owned()
    };
    let (mut of_one, mut of_two, mut of_ada) = (vec![], vec![], vec![]);
    for n in 0..6 {
        let user = if n % 3 == 0 { "Ada" } else { "Bo" };
        of_one.insert(0, start(&app, user).await);
        of_two.insert(0, start(&other, user).await);
        if user == "Ada" {
            of_ada.splice(0..0, [of_two[0].clone(), of_one[0].clone()]);
        }
    }
    let all: Vec<String> =
        of_two.iter().zip(&of_one).flat_map(|(two, one)| [two.clone(), one.clone()]).collect();
    let created = |run: Json| run["created_at"].as_f64().expect("a time");
    let third = created(client.run(&all[2]).await);
    let error = client.run(&of_two[0]).await["error"].as_str().expect("it has failed").to_owned();
    let part: String = error.chars().skip(3).take(12).collect::<String>().to_uppercase().replace(' ', "%20");
    for (query, expected) in [
        (String::new(), all.clone()),
        (format!("app={one}"), of_one.clone()),
        (format!("app={two}&user=Ada"), of_ada.iter().filter(|run| of_two.contains(run)).cloned().collect()),
        ("user=Ada".into(), of_ada.clone()),
        ("user=ada".into(), vec![]),
        ("app=unknown".into(), vec![]),
        ("status=failed".into(), of_two.clone()),
        (format!("app={one}&status=failed"), vec![]),
        (format!("app={two}&status=failed"), of_two.clone()),
        (format!("error={part}"), of_two.clone()),
        ("error=no%20such%20words".into(), vec![]),
        (format!("since={third}"), all[..3].to_vec()),
        (format!("until={third}"), all[3..].to_vec()),
    ] {
        for limit in [1, 2, 5, 100] {
            assert_eq!(pages(&client, &query, limit).await, expected, "{query} in pages of {limit}");
        }
    }

    let first = client.get("/api/v1/runs?limit=3&user=Ada").await.body;
    let next = first["next"].as_str().expect("there are more").to_owned();
    let second = client.get(&format!("/api/v1/runs?limit=3&user=Ada&before={next}")).await.body;
    start(&app, "Ada").await;
    let again = client.get(&format!("/api/v1/runs?limit=3&user=Ada&before={next}")).await.body;
    assert_eq!(second, again, "a newer run changes no later page");
    for (query, part) in [
        ("limit=0", "limit must be 1 to 100"),
        ("status=lost", "status must be one of"),
        ("since=yesterday", "since must be a time"),
        ("before=x", "before must be the next"),
        ("app=", "app must be a text"),
    ] {
        let refused = client.get(&format!("/api/v1/runs?{query}")).await;
        assert_eq!(refused.status, 400, "{query}");
        assert!(refused.text.contains(part), "{query}: {}", refused.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_value_that_is_kept_gets_no_end_when_it_is_stored_again() {
    let redis = Redis::start().await;
    let config = RedisConfig { url: redis.url().into(), ..RedisConfig::default() };
    let store = RedisStore::new(&config, StoreLimits::default()).expect("an address");
    let (shard, id) = (ShardId(0), BlobId::generate());
    let text = format!("\"{}\"", "ab".repeat(1_500_000));
    let key = store.keys().blob(shard, &id);
    let left = || redis.cli(&["TTL", &key]).parse::<i64>().expect("a number");
    let length = || redis.cli(&["STRLEN", &key]).parse::<usize>().expect("a number");
    store.put_blob(shard, &id, &text).await.expect("it is stored");
    let pending = i64::try_from(limits::BLOB_PENDING_SECONDS).expect("an hour");
    assert!((pending - 60..=pending).contains(&left()), "{}", left());

    redis.cli(&["EXPIRE", &key, "60"]);
    store.put_blob(shard, &id, &text).await.expect("it is stored again");
    assert!(left() > 60, "it gets its whole time again");
    redis.cli(&["PERSIST", &key]);
    store.put_blob(shard, &id, &text).await.expect("it is there");
    assert_eq!((left(), length()), (-1, text.len()), "it is kept");
    // Its run has ended.
    redis.cli(&["EXPIRE", &key, "999999"]);
    store.put_blob(shard, &id, &text).await.expect("it is there");
    assert!(left() > pending, "{}", left());
    let found = Runs::blob(&*store, shard, &id).await.expect("it is loaded");
    assert!(found.as_deref() == Some(text.as_str()), "it is whole");
    // Something cut it off, such as a server that took over without the rest.
    redis.cli(&["SET", &key, "\"abab", "EX", "60"]);
    store.put_blob(shard, &id, &text).await.expect("it is stored again");
    assert_eq!(length(), text.len());
}
