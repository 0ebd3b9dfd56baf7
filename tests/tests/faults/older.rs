//! Redis starts with older data: its last acknowledged writes are lost.

use tidemill_tests::check::answered;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;

use super::{QUICK, chat};

#[tokio::test(flavor = "multi_thread")]
async fn runs_continue_from_the_data_that_redis_still_has() {
    let pieces = llm::many_pieces(40);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 40).await;
    let mut cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(client.start(&chat(), &[]).await);
    }
    for lost in [500, 3_000, 77, 9_999] {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        cluster.redis.kill();
        cluster.redis.forget(lost);
        cluster.redis.restart().await;
        // Otherwise the beginning of a cut transaction would stay in the file, and the next loss would apply it.
        cluster.redis.rewrite_log().await;
    }
    for run in &runs {
        answered(&client.ended(run).await, &pieces.concat());
        let told = client.follow(run, None).await.to_the_end().await;
        assert_eq!(told.text(), pieces.concat());
        told.nodes_end_once();
    }
}
