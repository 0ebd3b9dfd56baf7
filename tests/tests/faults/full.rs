//! The memory of Redis is full for a while.

use tidemill_tests::check::answered;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{QUICK, chat};

/// Fills Redis: from now on it refuses commands that need memory.
fn fill(cluster: &Cluster) {
    cluster.redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
}

fn empty(cluster: &Cluster) {
    cluster.redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_while_redis_is_full_and_then_continues() {
    let pieces = llm::many_pieces(30);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 50).await;
    let cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();

    let run = client.start(&chat(), &[]).await;
    client.follow(&run, None).await.until_text("<3>").await;
    fill(&cluster);
    let refused = client.submit_answer(&chat()).await;
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert!(refused.headers.contains_key("retry-after"), "{:?}", refused.headers);
    assert_eq!(client.get("/readyz").await.status, 503, "it accepts no work");
    assert_eq!(client.get("/livez").await.status, 200, "but it need not be restarted");
    // Longer than every lease.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    empty(&cluster);

    assert_eq!(client.get("/readyz").await.status, 200);
    answered(&client.ended(&run).await, &pieces.concat());
    let told = client.follow(&run, None).await.to_the_end().await;
    assert_eq!(told.text(), pieces.concat());
    told.is_whole();
    told.nodes_end_once();
    assert_eq!(cluster.redis.cli(&["HGET", "tm:{0}:fence", "takeovers"]), "1", "no scheduler lost the shard");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_is_taken_over_and_released_even_while_redis_is_full() {
    let one = [QUICK.as_slice(), &[("scheduler.shards", "1")]].concat();
    let cluster = Cluster::start(&one, None).await;
    let mut first = cluster.scheduler().await;
    let run = first.client().start(&chat(), &[]).await;
    first.client().node_is(&run, "llm", "queued").await;
    first.process.kill();
    // The next owner cannot write its first commit.
    cluster.redis.cli(&["XADD", "tm:{0}:inbox", "*", "kind", "stop", "run", &run, "fact", "{}"]);
    fill(&cluster);

    let mut second = cluster.scheduler().await;
    until("the shard to be taken over", LONG, async || {
        let owner = cluster.redis.cli(&["GET", "tm:{0}:owner"]);
        if owner == second.id { Ok(()) } else { Err(owner) }
    })
    .await;
    second.process.wait_for_log("a commit was refused and is tried again").await;
    second.process.terminate();
    second.process.ended(LONG).await;
    assert_eq!(cluster.redis.cli(&["EXISTS", "tm:{0}:owner"]), "0", "given up");

    empty(&cluster);
    let third = cluster.scheduler().await;
    assert_eq!(third.client().ended(&run).await["status"], "stopped");
}
