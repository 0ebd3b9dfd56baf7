//! Schedulers that die.

use std::time::{Duration, Instant};

use serde_json::json;
use tidemill_tests::check::answered;
use tidemill_tests::cluster::{Cluster, Scheduler};
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{QUICK, chat};

/// The extra time for a take-over after the end of the lease, on a busy machine.
const SLACK: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn when_a_scheduler_dies_another_continues_and_clients_miss_nothing() {
    let pieces = llm::many_pieces(40);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 50).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (first, second) = (cluster.scheduler().await, cluster.scheduler().await);
    let _worker = cluster.worker().await;
    shards_are_shared(&cluster, [&first, &second]).await;

    let run = first.client().start(&chat(), &[]).await;
    let shard = first.client().run(&run).await["shard"].to_string();
    let owner: String = cluster.redis.ask(&["GET", &format!("tm:{{{shard}}}:owner")]).await;
    let (mut dies, lives) = if owner == first.id { (first, second) } else { (second, first) };

    let mut follower = dies.client().follow(&run, None).await;
    follower.until_text("<5>").await;
    dies.process.kill();
    let killed = Instant::now();
    let mut told = follower.to_the_end().await;
    told.forget_unfinished();
    let last = told.last_id().expect("events carry ids").to_string();

    let mut follower = lives.client().follow(&run, Some(&last)).await;
    follower.next().await.expect("the run continues");
    let waited = killed.elapsed();
    assert!(waited < Duration::from_millis(1500) + SLACK, "the take-over took {waited:?}");
    told.append(follower.to_the_end().await);

    answered(&lives.client().ended(&run).await, &pieces.concat());
    assert_eq!(told.text(), pieces.concat());
    told.is_whole();
    told.nodes_end_once();
    assert_eq!(model.requests().len(), 1, "the worker called the model only once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_scheduler_that_dies_right_after_the_submission_is_run_by_the_next() {
    let model = llm::rules(json!([{"match": {}, "reply": "late"}])).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let mut first = cluster.scheduler().await;
    let runs = [first.client().start(&chat(), &[]).await, first.client().start(&chat(), &[]).await];
    first.process.kill();
    let (second, _worker) = (cluster.scheduler().await, cluster.worker().await);
    for run in runs {
        answered(&second.client().ended(&run).await, "late");
        let told = second.client().follow(&run, None).await.to_the_end().await;
        told.is_whole();
        told.nodes_end_once();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_scheduler_that_wakes_up_applies_nothing() {
    let pieces = llm::many_pieces(30);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 60).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (first, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let run = first.client().start(&chat(), &[]).await;
    first.client().follow(&run, None).await.until_text("<3>").await;
    first.process.freeze();
    let second = cluster.scheduler().await;
    let mut follower = second.client().follow(&run, None).await;
    follower.until_text("<12>").await;
    first.process.thaw();

    let told = follower.to_the_end().await;
    answered(&second.client().ended(&run).await, &pieces.concat());
    assert_eq!(told.text(), pieces.concat());
    told.is_whole();
    told.nodes_end_once();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_is_stopped_releases_its_shards_at_once() {
    let model = llm::rules(json!([{"match": {}, "reply": "soon"}])).await;
    // With this lease only shards that were given up are taken in time.
    let lease = [("scheduler.shard_lease_ms", "120000")];
    let cluster = Cluster::start(&lease, Some(&model)).await;
    let (mut first, _worker) = (cluster.scheduler().await, cluster.worker().await);
    answered(&first.client().ended(&first.client().start(&chat(), &[]).await).await, "soon");
    first.process.terminate();
    assert!(first.process.ended(LONG).await.success(), "a stopped scheduler ends with success");
    let second = cluster.scheduler().await;
    answered(&second.client().ended(&second.client().start(&chat(), &[]).await).await, "soon");
}

async fn shards_are_shared(cluster: &Cluster, between: [&Scheduler; 2]) {
    until("both schedulers to own a shard", LONG, async || {
        let mut owners = Vec::new();
        for shard in 0..2 {
            let owner: Option<String> = cluster.redis.ask(&["GET", &format!("tm:{{{shard}}}:owner")]).await;
            owners.extend(owner);
        }
        let shared = between.iter().all(|scheduler| owners.contains(&scheduler.id));
        if shared { Ok(()) } else { Err(format!("{owners:?}")) }
    })
    .await;
}
