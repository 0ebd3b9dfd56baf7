//! A job that disappeared, and a result that comes twice.

use serde_json::json;
use tidemill_tests::check::answered;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{QUICK, chat};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_entry_that_was_deleted_is_enqueued_again() {
    let model = llm::rules(json!([{"match": {}, "reply": "found"}])).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();

    let run = client.start(&chat(), &[]).await;
    let node = client.node_is(&run, "llm", "queued").await;
    let entry =
        node["job"].as_str().unwrap_or_else(|| panic!("a queued node names its job: {node}")).to_string();
    let shard = client.run(&run).await["shard"].to_string();
    let jobs = format!("tm:{{{shard}}}:jobs:default");
    assert_eq!(
        cluster.redis.cli(&["XDEL", &jobs, &entry]),
        "1",
        "the entry is in the stream that the node names"
    );

    until("another entry", LONG, async || {
        let entries = cluster.redis.cli(&["XRANGE", &jobs, "-", "+"]);
        if entries.is_empty() { Err("no entry".into()) } else { Ok(()) }
    })
    .await;
    let _worker = cluster.worker().await;
    answered(&client.ended(&run).await, "found");
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    told.nodes_end_once();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_consumer_was_deleted_with_it_is_enqueued_again() {
    let model = llm::rules(json!([{"match": {}, "reply": "found"}])).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();

    let run = client.start(&chat(), &[]).await;
    client.node_is(&run, "llm", "queued").await;
    let shard = client.run(&run).await["shard"].to_string();
    let jobs = format!("tm:{{{shard}}}:jobs:default");
    let redis = &cluster.redis;
    redis.cli(&["XGROUP", "CREATE", &jobs, "workers", "0"]);
    redis.cli(&["XREADGROUP", "GROUP", "workers", "ghost", "STREAMS", &jobs, ">"]);
    assert_eq!(redis.cli(&["XGROUP", "DELCONSUMER", &jobs, "workers", "ghost"]), "1", "it held the job");

    let _worker = cluster.worker().await;
    answered(&client.ended(&run).await, "found");
    assert_eq!(redis.cli(&["XLEN", &jobs]), "0", "the old entry is gone as well");
}

#[tokio::test(flavor = "multi_thread")]
async fn xc_03_a_result_that_comes_twice_takes_effect_once() {
    let model = llm::slow(&["found"], 0).await;
    let mut settings = QUICK.to_vec();
    settings.push(("scheduler.shards", "1"));
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let mut scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let run = client.start(&chat(), &[]).await;
    client.node_is(&run, "llm", "queued").await;
    // No scheduler reads the inbox while the worker hands its result in.
    scheduler.process.kill();
    let _worker = cluster.worker().await;
    let inbox = "tm:{0}:inbox";
    let fact = until("the result to be handed in", LONG, async || {
        let facts: Vec<(String, Vec<String>)> = cluster.redis.ask(&["XRANGE", inbox, "-", "+"]).await;
        let mut ends = facts.into_iter().map(|(_, fields)| fields);
        let is_end = |fields: &Vec<String>| fields.iter().any(|field| field == "done");
        ends.find(is_end).ok_or_else(|| "no result".to_owned())
    })
    .await;
    let mut again = vec!["XADD", inbox, "*"];
    again.extend(fact.iter().map(String::as_str));
    cluster.redis.cli(&again);
    cluster.redis.cli(&again);

    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let ended = client.ended(&run).await;
    answered(&ended, "found");
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    told.nodes_end_once();
    let ledger: Vec<String> = cluster.redis.ask(&["HVALS", &format!("tm:{{0}}:run:{run}:ledger")]).await;
    assert_eq!((ledger.len(), model.requests().len()), (1, 1), "{ledger:?}");
}
