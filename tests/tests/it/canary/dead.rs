//! Dead letters of a workflow that cannot be read. Its secrets are unknown, so the letters withhold all texts.

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::Cluster;
use tidemill_tests::wait::{LONG, until};

use super::super::called::file;
use super::workflows::{DERIVED, DERIVED_PART, template};
use super::{Canary, VisibleTexts, may_hold_values, with_secrets};

/// A template in the scheduler passes a text with the secret to one on a worker.
fn workflow() -> String {
    let on_worker = json!({"type": "template-transform", "title": "W", "template": "{{ x }}", "tidemill": {"runs_on": "worker"},
        "variables": [{"variable": "x", "value_selector": ["t", "output"]}]});
    let nodes = [("t", template("t-{{ k }}", "DERIVED")), ("w", on_worker)];
    let document: Json = serde_json::from_str(&file("Dead", &[], &nodes, &[])).expect("JSON");
    with_secrets(document, &[("DERIVED", DERIVED)]).to_string()
}

async fn letters(client: &tidemill_tests::client::Client, count: usize) {
    until("the letters", LONG, async || {
        let all = client.get("/api/v1/dead").await;
        let there = all.body["data"].as_array().map_or(0, Vec::len);
        if there == count { Ok(()) } else { Err(all.text) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_of_a_workflow_that_cannot_be_read_show_no_secret() {
    let settings = [
        ("scheduler.secret_key", "a secret key of the tests"),
        ("scheduler.shards", "1"),
        ("scheduler.shard_lease_ms", "600"),
        ("scheduler.shard_renew_ms", "200"),
        ("log.level", "trace"),
    ];
    let cluster = Cluster::start(&settings, None).await;
    let mut scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let run = client.submit(&json!({"workflow": workflow(), "inputs": {}, "user": "u"})).await;
    client.node_is(&run, "w", "queued").await;
    let redis = &cluster.redis;
    let job = redis.cli(&["XRANGE", "tm:{0}:jobs:default", "-", "+"]);
    let job = job.lines().find(|line| line.starts_with('{')).expect("the job is queued").to_owned();
    assert!(Canary::of(DERIVED_PART).seen_in(&job).is_some(), "the job contains the text: {job}");

    // Two jobs that no worker can read. The second does not name its attempt, so its node is unknown.
    for (from, to) in [("\"execution\":\"", "\"execution\":7,\"x\":\""), ("\"attempt\"", "\"at\"")] {
        let other = job.replacen(from, to, 1);
        assert_ne!(other, job, "the format of jobs has changed");
        redis.cli(&["XADD", "tm:{0}:jobs:default", "*", "run", &run, "job", &other]);
    }
    let worker = cluster.worker().await;
    // The report about the second job becomes a dead letter, too.
    letters(&client, 3).await;
    drop(worker);

    // A report about a run whose workflow no longer exists.
    let run = client.submit(&json!({"workflow": workflow(), "inputs": {}, "user": "u"})).await;
    client.node_is(&run, "w", "queued").await;
    scheduler.process.kill();
    let graph = redis.cli(&["HGET", &format!("tm:{{0}}:run:{run}"), "version"]);
    redis.cli(&["DEL", &format!("tm:{{0}}:graph:{graph}")]);
    let report = json!({"node": "w", "attempt": 1, "error": DERIVED, "outputs": {"o": DERIVED}}).to_string();
    redis.cli(&["XADD", "tm:{0}:inbox", "*", "kind", "failed", "run", &run, "fact", &report]);
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client().undescribed();
    letters(&client, 4).await;

    let mut shown = VisibleTexts::default();
    shown.lists(&client).await;
    shown.get(&client, &format!("/api/v1/runs/{run}")).await;
    shown.command(&cluster, &scheduler.address, &["dead", "ls"]).await;
    shown.logs(&cluster);
    shown.redis(redis, may_hold_values).await;
    shown.has_none_of(&[&Canary::of(DERIVED_PART)]);
    let withheld =
        |(what, text): &&(String, String)| what.starts_with("/api/v1/dead/") && text.contains("(withheld)");
    assert_eq!(shown.0.iter().filter(withheld).count(), 3, "{:#?}", shown.0);
}
