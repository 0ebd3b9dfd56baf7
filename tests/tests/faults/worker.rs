//! Workers that die, freeze, drain, or share work.

use std::time::Duration;

use serde_json::json;
use tidemill_tests::check::answered;
use tidemill_tests::cluster::{Cluster, Worker};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{QUICK, chat};

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_the_parallel_nodes_of_a_run() {
    let model = llm::rules(json!([{"match": {}, "echo": "last_user", "delay_ms": 1000}])).await;
    let cluster = Cluster::start(&[&QUICK[..], &[("worker.permits", "4")]].concat(), Some(&model)).await;
    let (scheduler, first, second) =
        (cluster.scheduler().await, cluster.worker().await, cluster.worker().await);
    let client = scheduler.client();

    let run = client
        .start(&Flow::new("start -> (llm1, llm2, llm3, llm4, llm5, llm6, llm7, llm8) -> end"), &[])
        .await;
    // Neither worker can hold all jobs: each takes at most four.
    let jobs = format!("tm:{{{}}}:jobs:default", client.run(&run).await["shard"]);
    until("both workers to hold jobs", LONG, async || {
        let held = cluster.redis.cli(&["XPENDING", &jobs, "workers", "-", "+", "20"]);
        if held.contains(&first.consumer) && held.contains(&second.consumer) { Ok(()) } else { Err(held) }
    })
    .await;
    let ended = client.ended(&run).await;

    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    for n in 1..=8 {
        assert_eq!(ended["outputs"][format!("llm{n}")], format!("llm{n}"), "{ended:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_run_comes_once_although_its_worker_was_killed_while_it_streamed() {
    let pieces = llm::many_pieces(20);
    let all: String = pieces.concat();
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 60).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (scheduler, mut first) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();

    let run = client.start(&chat(), &[]).await;
    let mut follower = client.follow(&run, None).await;
    follower.until_text("<3>").await;
    first.process.kill();
    let _second = cluster.worker().await;

    let told = follower.to_the_end().await;
    answered(&client.ended(&run).await, &all);
    assert_eq!(told.text(), all);
    assert_eq!(
        told.of_kind("node_run_stream_replaced").count(),
        1,
        "the text of the dead worker is withdrawn"
    );
    told.is_whole();
    told.nodes_end_once();
    assert_eq!(model.requests().len(), 2, "each worker called it once");
}

#[tokio::test(flavor = "multi_thread")]
async fn xc_02_a_frozen_worker_that_wakes_up_applies_nothing() {
    let pieces = llm::many_pieces(10);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 100).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (scheduler, frozen) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();

    let run = client.start(&chat(), &[]).await;
    let mut follower = client.follow(&run, None).await;
    follower.until_text("<2>").await;
    frozen.process.freeze();
    let mut second = cluster.worker().await;
    let told = follower.to_the_end().await;
    let before = client.ended(&run).await;
    answered(&before, &pieces.concat());

    // It wakes up with half of its reply read, and must run the next run alone. When that has ended, its old result
    // has been reported too.
    second.process.kill();
    frozen.process.thaw();
    let next = client.start(&chat(), &[]).await;
    answered(&client.ended(&next).await, &pieces.concat());

    assert_eq!(told.text(), pieces.concat());
    told.is_whole();
    told.nodes_end_once();
    assert_eq!(client.follow(&run, None).await.to_the_end().await.events, told.events, "nothing was added");
    assert_eq!(client.run(&run).await["outputs"], before["outputs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_drains_hands_its_jobs_back_at_once() {
    let pieces = llm::many_pieces(30);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 60).await;
    // With this lease, a job moves in time only if it is handed back.
    let lease = [("worker.job_lease_ms", "120000"), ("worker.grace_seconds", "0")];
    let cluster = Cluster::start(&[&QUICK[..2], &lease].concat(), Some(&model)).await;
    let (scheduler, mut first) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();

    let run = client.start(&chat(), &[]).await;
    let mut follower = client.follow(&run, None).await;
    follower.until_text("<2>").await;
    let _second = cluster.worker().await;
    first.process.terminate();
    assert!(first.process.ended(LONG).await.success(), "a drained worker ends with success");

    let told = follower.to_the_end().await;
    let ended = client.ended(&run).await;
    answered(&ended, &pieces.concat());
    assert_eq!(told.text(), pieces.concat());
    told.is_whole();
    let node = ended["nodes"].as_array().into_iter().flatten().find(|node| node["id"] == "llm");
    assert_eq!(
        node.map(|node| &node["delivery"]),
        Some(&json!(1)),
        "a delivery that was handed back is not counted: {ended:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_drains_finishes_jobs_that_end_within_its_grace_period() {
    let model = llm::slow(&llm::many_pieces(8).iter().map(String::as_str).collect::<Vec<_>>(), 60).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();

    let run = client.start(&chat(), &[]).await;
    client.follow(&run, None).await.until_text("<2>").await;
    worker.process.terminate();
    assert!(worker.process.ended(LONG).await.success());
    answered(&client.ended(&run).await, &llm::many_pieces(8).concat());
    assert_eq!(model.requests().len(), 1, "no call was repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_three_workers_fails_its_node_and_spares_the_other_workers() {
    let model = llm::rules(json!([{"match": {"equals": "poison"}, "reply": "x", "delay_ms": 60_000},
        {"match": {}, "reply": "fine"}]))
    .await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();

    let run = client.start(&chat().prompt("llm", "poison"), &[]).await;
    for asked in 1..=3 {
        let mut worker = cluster.worker().await;
        until_asked(&model, asked, &worker).await;
        worker.process.kill();
    }
    let _last = cluster.worker().await;
    let ended = client.ended_within(&run, Duration::from_secs(60)).await;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    let node = ended["nodes"].as_array().into_iter().flatten().find(|node| node["id"] == "llm");
    assert!(node.is_some_and(|node| node["error"].to_string().contains("worker")), "{ended:#}");
    answered(&client.ended(&client.start(&chat(), &[]).await).await, "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_goes_on_over_the_deaths_of_a_worker_that_has_one_permit() {
    let slow = |node: &str| json!({"match": {"equals": node}, "echo": "last_user", "delay_ms": 1500});
    let model = llm::rules(json!([slow("llm1"), slow("llm3"), {"match": {}, "echo": "last_user"}])).await;
    let cluster = Cluster::start(&[&QUICK[..], &[("worker.permits", "1")]].concat(), Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();

    let run = client.start(&Flow::new("start -> llm1 -> llm2 -> llm3 -> llm4 -> end"), &[]).await;
    for asked in [1, 4] {
        let mut worker = cluster.worker().await;
        until_asked(&model, asked, &worker).await;
        worker.process.kill();
    }
    let _last = cluster.worker().await;
    let ended = client.ended_within(&run, Duration::from_secs(60)).await;

    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    assert_eq!(ended["outputs"]["llm4"], "llm4", "{ended:#}");
    assert_eq!(model.requests().len(), 6, "only the two calls under way were made again");
}

async fn until_asked(model: &tidemill_mock_llm::Running, times: usize, worker: &Worker) {
    until("the model to be called", LONG, async || match model.requests().len() {
        asked if asked >= times => Ok(()),
        asked => Err(format!("{asked} times; the worker says {}", worker.process.log_text())),
    })
    .await;
}
