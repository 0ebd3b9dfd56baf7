//! A job that vanished.

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
    assert_eq!(cluster.redis.cli(&["XDEL", &jobs, &entry]), "1", "the entry is where the node says");

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
