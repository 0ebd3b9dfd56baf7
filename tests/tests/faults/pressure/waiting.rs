//! Many runs that wait for a person: what one of them costs in Redis, and that their number slows nothing down. The
//! suite has some hundred; `make pressure` has more, and says what it measured (PRESSURE_WAITING=1000000 is the full form).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::redis::Redis;
use tidemill_tests::wait::{LONG, until};

use super::number;

/// The form of `examples/review.yml`, right after its start.
const REVIEW: &str = include_str!("../workflows/review.yml");
/// The memory that a waiting run may take with the shipped settings of Redis, in bytes.
const BYTES_MAX: f64 = 4096.0;
/// Requests at the same time while runs are begun.
const AT_ONCE: usize = 32;

/// What `deploy/redis.conf` says about the sizes of hashes and streams, as arguments of redis-server.
fn shipped() -> Vec<String> {
    let file = tidemill_tests::workspace().join("deploy/redis.conf");
    let text = std::fs::read_to_string(file).expect("the settings that are shipped");
    let lines = text.lines().filter(|line| line.starts_with("hash-max") || line.starts_with("stream-node"));
    let words = lines.flat_map(|line| line.split_once(' '));
    let words: Vec<String> =
        words.flat_map(|(name, value)| [format!("--{name}"), value.to_owned()]).collect();
    assert!(words.len() >= 8, "{words:?}");
    words
}

pub(super) async fn cluster(settings: &[(&str, &str)]) -> Cluster {
    let words = shipped();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Cluster::around(Redis::start_as(&words).await, settings, None)
}

fn shards(cluster: &Cluster) -> u16 {
    cluster.redis.cli(&["HGET", "tm:meta", "shards"]).parse().expect("a number")
}

fn paused(cluster: &Cluster) -> usize {
    let of_shard = |n| cluster.redis.cli(&["ZCARD", &format!("tm:{{{n}}}:runs:paused")]).parse::<usize>();
    (0..shards(cluster)).filter_map(|n| of_shard(n).ok()).sum()
}

/// Begins so many runs and waits until all of them wait.
pub(super) async fn begin(cluster: &Cluster, client: &Client, runs: usize) -> Vec<String> {
    let before = paused(cluster);
    let letter = "Where is my parcel? It was to come three weeks ago, and I have heard nothing since. Please tell me \
                  when it comes, or give me my money back. Ada, order 4711";
    let body = json!({"workflow": REVIEW, "inputs": {"letter": letter}});
    let body = &body;
    let begun =
        stream::iter(0..runs).map(|_| async move { client.submit(body).await }).buffer_unordered(AT_ONCE);
    let begun: Vec<String> = begun.collect().await;
    let bound = LONG + Duration::from_millis(runs as u64 * 10);
    until("all runs to wait", bound, async || match paused(cluster) - before {
        all if all == runs => Ok(()),
        some => Err(some.to_string()),
    })
    .await;
    begun
}

/// A number of `INFO`.
fn info(cluster: &Cluster, section: &str, name: &str) -> f64 {
    let text = cluster.redis.cli(&["INFO", section]);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.trim().parse().ok()).expect("a number of INFO")
}

/// The memory of the data, in bytes; the buffers of connections and of the log come and go.
fn memory(cluster: &Cluster) -> f64 {
    let of = |name: &str| info(cluster, "memory", name);
    of("used_memory") - of("mem_clients_normal") - of("mem_aof_buffer")
}

/// The bytes of each key of a run, by the end of its name.
fn by_key(cluster: &Cluster, run: &str) -> BTreeMap<String, String> {
    let found = cluster.redis.cli(&["--scan", "--pattern", &format!("tm:*:run:{run}*")]);
    let size = |key: &str| cluster.redis.cli(&["MEMORY", "USAGE", key, "SAMPLES", "0"]);
    let end = |key: &str| key.rsplit(run).next().unwrap_or_default().trim_start_matches(':').to_owned();
    found.lines().map(|key| (end(key), size(key))).collect()
}

/// The form that a run waits at, and its answer.
async fn answer(client: &Client, run: &str) -> Duration {
    let shown = client.run(run).await;
    let pause = shown["pauses"][0]["pause_id"].as_str().expect("it waits").to_owned();
    assert_eq!(shown["pauses"][0]["actions"].as_array().map(Vec::len), Some(2), "{shown:#}");
    let said = json!({"action": "approve", "inputs": {"note": "Sorry!"}});
    let begin = Instant::now();
    let accepted = client.post(&format!("/api/v1/runs/{run}/pauses/{pause}/answer"), &said).await;
    let took = begin.elapsed();
    assert!(accepted.status < 300, "{}", accepted.text);
    took
}

/// The longest but 1 % of them, in ms.
fn p99(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[(times.len() * 99 / 100).min(times.len() - 1)].as_secs_f64() * 1e3
}

async fn timed<T>(times: &mut Vec<Duration>, work: impl Future<Output = T>) -> T {
    let begin = Instant::now();
    let done = work.await;
    times.push(begin.elapsed());
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_is_small_and_its_followers_read_all_of_the_question() {
    let cluster = cluster(&[("scheduler.shards", "1")]).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    begin(&cluster, &client, 20).await;
    let before = memory(&cluster);
    let runs = begin(&cluster, &client, 400).await;
    // Buffers of connections go soon after the requests. The tables of indexes grow in steps, which is much for some
    // hundred runs.
    until("a waiting run to be small", LONG, async || {
        match (memory(&cluster) - before) / runs.len() as f64 {
            each if each < BYTES_MAX * 1.1 => Ok(()),
            each => Err(format!("{each} bytes a run: {:?}", by_key(&cluster, &runs[0]))),
        }
    })
    .await;

    let run = &runs[7];
    let told = client.get(&format!("/api/v1/runs/{run}/events?follow=false")).await;
    let once = told.text.matches("Note: {{#$output.note#}}").count();
    assert_eq!(once, 2, "the pause and the request for it both have the form:\n{}", told.text);
    assert!(told.text.contains("hitl_required") && told.text.contains("Do not send it"), "{}", told.text);
    assert!(!told.text.contains("\"short\"") && !told.text.contains("\"asks\""), "{}", told.text);
    let stored = cluster.redis.cli(&["XRANGE", &format!("tm:{{0}}:run:{run}:events"), "-", "+"]);
    assert!(!stored.contains("Do not send it"), "the question is stored once:\n{stored}");
    answer(&client, run).await;
    let ended = client.ended(run).await;
    assert_eq!((&ended["status"], &ended["outputs"]["note"]), (&json!("succeeded"), &json!("Sorry!")));
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_stored_in_full_while_an_older_process_lives() {
    let cluster = cluster(&[("scheduler.shards", "1")]).await;
    // A worker of the version before: it is alive, and not in the list of those that know the present version.
    let time = cluster.redis.cli(&["TIME"]);
    let seconds: u64 = time.lines().next().and_then(|text| text.parse().ok()).expect("a time");
    let far = ((seconds + 3600) * 1000).to_string();
    cluster.redis.cli(&["ZADD", "tm:workers", &far, "w-older"]);
    cluster.redis.cli(&["HSET", "tm:meta", "v", "3", "shards", "1", "shards_first", "1"]);
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let run = begin(&cluster, &client, 1).await.remove(0);
    let stored = cluster.redis.cli(&["XRANGE", &format!("tm:{{0}}:run:{run}:events"), "-", "+"]);
    assert_eq!(stored.matches("Do not send it").count(), 2, "{stored}");
    assert_eq!(cluster.redis.cli(&["HGET", "tm:meta", "v"]), "3");
    cluster.redis.cli(&["ZREM", "tm:workers", "w-older"]);
    until("the version to be raised", LONG, async || match cluster.redis.cli(&["HGET", "tm:meta", "v"]) {
        version if version == "5" => Ok(()),
        other => Err(other),
    })
    .await;
    for run in [run, begin(&cluster, &client, 1).await.remove(0)] {
        answer(&client, &run).await;
        assert_eq!(client.ended(&run).await["status"], "succeeded");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make pressure"]
#[allow(clippy::print_stderr, reason = "the numbers are what the long forms are for")]
async fn a_million_runs_may_wait() {
    let runs = number("PRESSURE_WAITING", 20_000);
    let cluster = cluster(&[]).await;
    let mut scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let (_, other) = client.register(&Flow::new("start -> end")).await;
    begin(&cluster, &client, 200).await;
    let idle = async || {
        let commands = || info(&cluster, "stats", "total_commands_processed");
        let first = commands();
        tokio::time::sleep(Duration::from_secs(5)).await;
        (commands() - first) / 5.0
    };
    let (few, before) = (idle().await, memory(&cluster));
    let waiting = begin(&cluster, &client, runs).await;
    let each = (memory(&cluster) - before) / runs as f64;
    eprintln!("{runs} waiting runs: {each:.0} bytes each; by key {:?}", by_key(&cluster, &waiting[0]));
    eprintln!("idle: {few:.0} commands a second with 200 runs, {:.0} with {runs}", idle().await);

    let (mut listing, mut filtered, mut logs, mut answers) = (vec![], vec![], vec![], vec![]);
    for run in waiting.iter().take(200) {
        answers.push(answer(&client, run).await);
    }
    let mut next = String::new();
    for _ in 0..20 {
        let page = timed(&mut listing, client.get(&format!("/api/v1/runs?limit=100{next}"))).await.body;
        next = format!("&before={}", page["next"].as_str().expect("there are more pages"));
        let filter = client.get("/api/v1/runs?status=paused&limit=100");
        assert_eq!(timed(&mut filtered, filter).await.body["data"].as_array().map(Vec::len), Some(100));
        let mine = timed(&mut logs, other.get("/v1/workflows/logs")).await;
        assert_eq!(mine.body["data"], Json::Array(vec![]), "{}", mine.text);
    }
    eprintln!(
        "answers: p99 {:.1} ms; a page of 100: {:.1} ms, of those that wait: {:.1} ms",
        p99(answers),
        p99(listing),
        p99(filtered)
    );
    eprintln!("logs of an app without runs: {:.1} ms", p99(logs));

    scheduler.process.kill();
    let killed = Instant::now();
    let next = cluster.scheduler().await;
    let owners = || (0..shards(&cluster)).map(|n| cluster.redis.cli(&["GET", &format!("tm:{{{n}}}:owner")]));
    until("the other scheduler to own all shards", LONG, async || {
        let owners: Vec<String> = owners().collect();
        if owners.iter().all(|owner| *owner == next.id) { Ok(()) } else { Err(format!("{owners:?}")) }
    })
    .await;
    let owned = killed.elapsed();
    let client = next.client();
    let run = waiting.last().expect("one of them");
    answer(&client, run).await;
    assert_eq!(client.ended(run).await["status"], "succeeded");
    eprintln!(
        "after a kill: owned in {:.1} s (the lease is 5 s), answered in {:.1} s",
        owned.as_secs_f64(),
        killed.elapsed().as_secs_f64()
    );
    assert!(each < BYTES_MAX, "{each} bytes a run");
}
