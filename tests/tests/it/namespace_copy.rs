//! `tidemill namespace copy`: everything of one server goes to a cluster, back, and to another name; runs that waited go on
//! there, and nothing is copied from a living fleet or over other data.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::messages::{message, streamed};
use tidemill_tests::proxy::Proxy;
use tidemill_tests::redis::Redis;
use tidemill_tests::redis_cluster::RedisCluster;
use tidemill_tests::wait::{LONG, until};

use super::doctor::doctor;

const ASK: &str = include_str!("workflows/ask_twice.yml");
const NIGHTLY: &str = include_str!("workflows/nightly.yml");
const SETTINGS: [(&str, &str); 2] = [("scheduler.shards", "6"), ("scheduler.secret_key", "the key of all")];
/// Runs that wait.
const WAITING: usize = 12;
/// `v` of a copy that is not finished, as every version has to refuse it.
const UNFINISHED: &str = "4294967295";

async fn model() -> Running {
    llm::rules(json!([{"match": {}, "chunks": ["an ", "answer"]}])).await
}

/// Runs `tidemill namespace copy --json`. Returns its exit code and what it said.
async fn copy(cluster: &Cluster, arguments: &[&str]) -> (i32, String) {
    let mut command = cluster.command("tidemill");
    command.args(["namespace", "copy", "--json"]).args(arguments);
    let mut process = cluster.spawn("copy", command);
    let exit = process.ended(LONG).await;
    (exit.code().unwrap_or(-1), process.log_text())
}

/// Copies, and returns the number of keys.
async fn copied(cluster: &Cluster, arguments: &[&str]) -> u64 {
    let (code, said) = copy(cluster, arguments).await;
    let last = said.lines().collect::<Vec<_>>().join("");
    let done: Json = serde_json::from_str(&last).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!((code, &done["keys_left_out"]), (0, &json!(0)), "{said}");
    done["keys"].as_u64().expect("a number")
}

/// Submits runs that wait for two forms, and waits until they do.
async fn waiting(client: &Client) -> Vec<String> {
    let mut runs = Vec::new();
    for _ in 0..WAITING {
        runs.push(client.submit(&json!({"workflow": ASK, "inputs": {"name": "Ada"}})).await);
    }
    for run in &runs {
        paused(client, run).await;
    }
    runs
}

async fn paused(client: &Client, run: &str) -> Json {
    until("the run to wait", LONG, async || {
        let shown = client.run(run).await;
        let open = shown["pauses"].as_array().map_or(0, Vec::len);
        if shown["status"] == "paused" && open == 2 { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}

/// Answers both forms of a run, and checks its end.
async fn answered(client: &Client, run: &str) {
    let shown = paused(client, run).await;
    for pause in shown["pauses"].as_array().expect("it waits") {
        let id = pause["pause_id"].as_str().expect("an id");
        let said = match pause["node_id"].as_str() {
            Some("left") => json!({"action": "ok", "inputs": {"word": "deep"}}),
            _ => json!({"action": "go", "inputs": {}}),
        };
        let answer = client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &said).await;
        assert!(answer.status < 300, "{}", answer.text);
    }
    let ended = client.ended(run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]["out"]),
        (&json!("succeeded"), &json!("deep/Go")),
        "{ended:#}"
    );
}

/// The keys of a server and when each expires (ms), without those that tell of living processes and the settings.
async fn keys_of(redis: &Redis) -> BTreeMap<String, i64> {
    let mut keys = BTreeMap::new();
    for key in redis.ask::<Vec<String>>(&["KEYS", "*"]).await {
        let until: i64 = redis.ask(&["PEXPIRETIME", &key]).await;
        keys.insert(key, until);
    }
    without_processes(keys)
}

async fn keys_of_cluster(servers: &RedisCluster) -> BTreeMap<String, i64> {
    let mut keys = BTreeMap::new();
    for at in servers.masters().await {
        for key in servers.ask::<Vec<String>>(at, &["KEYS", "*"]).await {
            let until: i64 = servers.ask(at, &["PEXPIRETIME", &key]).await;
            keys.insert(key.replacen("{tm}:", "tm:", 1), until);
        }
    }
    without_processes(keys)
}

fn without_processes(mut keys: BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let of_processes = ["tm:workers", "tm:schedulers", "tm:worker:", "tm:knowing:", "tm:probe", "tm:meta"];
    keys.retain(|key, _| {
        !of_processes.iter().any(|begin| key.starts_with(begin))
            && !key.ends_with(":owner")
            && !key.ends_with(":probe")
    });
    keys
}

async fn stopped(schedulers: Vec<Scheduler>, workers: Vec<Worker>) {
    let processes =
        schedulers.into_iter().map(|one| one.process).chain(workers.into_iter().map(|one| one.process));
    for mut process in processes {
        process.terminate();
        process.ended(LONG).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_wait_on_one_server_go_on_in_a_copy_on_a_cluster() {
    let model = model().await;
    let one = Cluster::start(&SETTINGS, Some(&model)).await;
    let (scheduler, worker) = (one.scheduler().await, one.worker().await);
    let client = scheduler.client();
    let runs = waiting(&client).await;
    let planned = client.post("/api/v1/apps", &json!({"workflow": NIGHTLY})).await;
    assert_eq!(planned.status, 201, "{}", planned.text);
    let flow = Flow::new("start -> llm -> answer").answer("answer", "{{#llm.text#}}");
    let (_, app) = client.register(&flow).await;
    let said = streamed(&app, "/v1/chat-messages", &message("one", "", "streaming")).await;
    let conversation = said[0]["conversation_id"].as_str().expect("an id").to_string();
    let large = "x".repeat(9 * 1024 * 1024);
    let flow = Flow::new("start -> a -> end").inputs(&["text"]).template("a", "{{ x }}", "text");
    let ended = client.start(&flow, &[("text", &large)]).await;
    client.ended(&ended).await;

    // Nothing is copied while somebody lives there.
    let servers = RedisCluster::start().await;
    let (from, to) = (one.redis.url(), servers.url());
    let arguments = ["--from", from.as_str(), "--to", to.as_str()];
    let (code, why) = copy(&one, &arguments).await;
    assert!(
        code == 1 && why.contains("scheduler") && why.contains("worker") && why.contains("stop all"),
        "{why}"
    );
    assert!(keys_of_cluster(&servers).await.is_empty(), "and the target was not touched");
    stopped(vec![scheduler], vec![worker]).await;

    let before = keys_of(&one.redis).await;
    let keys = copied(&one, &arguments).await;
    assert_eq!(keys_of(&one.redis).await, before, "nothing was removed");
    assert_eq!(keys_of_cluster(&servers).await, before, "the same keys, and the same times of expiry");
    assert_eq!(keys, before.len() as u64);
    let (code, why) = copy(&one, &arguments).await;
    assert!(code == 1 && why.contains("is not empty: it has the key {tm}:meta"), "{why}");

    // A fleet on the copy does what the old one would have done.
    let new = Cluster::start(&SETTINGS, Some(&model)).await.at(&to);
    let (schedulers, worker) = ([new.scheduler().await, new.scheduler().await], new.worker().await);
    let client = schedulers[1].client();
    for run in &runs {
        answered(&client, run).await;
    }
    let triggers = client.get("/api/v1/triggers").await;
    assert!(triggers.text.contains("\"schedule\""), "{}", triggers.text);
    let app = client.with_key(app.key());
    let more = app.post("/v1/chat-messages", &message("two", &conversation, "blocking")).await;
    assert_eq!((more.status, &more.body["answer"]), (200, &json!("an answer")), "{}", more.text);
    assert_eq!(client.run(&ended).await["outputs"]["a"].as_str().map(str::len), Some(large.len()));
    let (is_well, found) = doctor(&new, &[]).await;
    assert!(is_well, "{found}");

    // And back, under another name on the server that has the first one.
    let [first, second] = schedulers;
    stopped(vec![first, second], vec![worker]).await;
    copied(&new, &["--from", &to, "--to", &from, "--namespace-to", "back"]).await;
    let back = Cluster::start(&[SETTINGS[0], SETTINGS[1], ("redis.namespace", "back")], Some(&model))
        .await
        .at(&from);
    let scheduler = back.scheduler().await;
    let shown = scheduler.client().run(&runs[0]).await;
    assert_eq!(shown["outputs"]["out"], "deep/Go");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_starts_on_a_copy_that_was_interrupted_until_it_was_made_again() {
    let model = model().await;
    let one = Cluster::start(&SETTINGS, Some(&model)).await;
    let (scheduler, worker) = (one.scheduler().await, one.worker().await);
    let runs = waiting(&scheduler.client()).await;
    stopped(vec![scheduler], vec![worker]).await;
    let target = Redis::start().await;
    let to = target.url();

    // Killed when it has copied some keys: each request takes its time.
    let slow = Proxy::start(one.redis.port()).await;
    slow.delay(std::time::Duration::from_millis(100));
    let mut command = one.command("tidemill");
    command.args(["namespace", "copy", "--from", &slow.url(), "--to", &to]);
    let mut process = one.spawn("copy", command);
    until("some keys to be copied", LONG, async || {
        let keys: Vec<String> = target.ask(&["KEYS", "tm:{*"]).await;
        if keys.is_empty() { Err("no key".to_string()) } else { Ok(()) }
    })
    .await;
    process.kill();
    assert_eq!(target.cli(&["HGET", "tm:meta", "v"]), UNFINISHED);
    target.cli(&["SET", "tm:{1}:graph:stray", "left by the first one"]);
    target.cli(&["SET", "tm:other:meta", "of another namespace"]);

    let new = Cluster::start(&SETTINGS, Some(&model)).await.at(&to);
    let is_refused =
        |said: &str| said.contains("is an unfinished copy of") && said.contains("namespace copy");
    for program in ["tidemill-scheduler", "tidemill-worker"] {
        let mut command = new.command(program);
        command.args(["--listen", "127.0.0.1:0"]);
        let mut process = new.spawn(program, command);
        let end = process.ended(LONG).await;
        assert!(!end.success() && is_refused(&process.log_text()), "{program}: {}", process.log_text());
    }
    let (is_well, found) = doctor(&new, &[]).await;
    assert!(!is_well && is_refused(&found["errors"].to_string()), "{found}");
    let from = one.redis.url();
    let arguments = ["--from", from.as_str(), "--to", to.as_str()];
    let (code, why) = copy(&one, &arguments).await;
    assert!(code == 1 && is_refused(&why) && why.contains("--again"), "{why}");
    // It is no source either.
    let (code, why) = copy(&one, &["--from", &to, "--to", &to, "--namespace-to", "x"]).await;
    assert!(code == 1 && is_refused(&why), "{why}");

    copied(&one, &[&arguments[..], &["--again"]].concat()).await;
    assert_eq!(target.cli(&["EXISTS", "tm:{1}:graph:stray"]), "0");
    assert_eq!(target.cli(&["GET", "tm:other:meta"]), "of another namespace");
    let (scheduler, _worker) = (new.scheduler().await, new.worker().await);
    for run in &runs {
        answered(&scheduler.client(), run).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_cannot_be_made_says_why() {
    let one = Cluster::start(&SETTINGS, None).await;
    let target = Redis::start().await;
    let (from, to) = (one.redis.url(), target.url());
    let (code, why) = copy(&one, &["--from", &from, "--to", &to]).await;
    assert!(code == 1 && why.contains("there is no namespace \"tm\""), "{why}");
    let scheduler = one.scheduler().await;
    stopped(vec![scheduler], vec![]).await;
    target.cli(&["SET", "tm:{0}:graph:x", "something"]);
    let (code, why) = copy(&one, &["--from", &from, "--to", &to]).await;
    assert!(code == 1 && why.contains("is not empty: it has the key tm:{0}:graph:x"), "{why}");
    assert_eq!(target.cli(&["EXISTS", "tm:meta"]), "0", "the mark is gone");
    let (code, why) = copy(&one, &["--from", &from, "--to", "redis://127.0.0.1:1"]).await;
    assert!(code == 3 && why.contains("127.0.0.1:1"), "{why}");
    // A target that is full refuses the mark already.
    target.cli(&["DEL", "tm:{0}:graph:x"]);
    target.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let (code, why) = copy(&one, &["--from", &from, "--to", &to]).await;
    assert!(code == 1 && why.contains("OOM"), "{why}");
}
