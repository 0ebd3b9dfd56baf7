//! Redis itself dies and starts again.

use serde_json::json;
use tidemill_tests::check::answered;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;

use super::{QUICK, chat};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_after_redis_was_killed_and_restarted() {
    let pieces = llm::many_pieces(40);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 60).await;
    let mut cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();

    let run = client
        .start(&Flow::new("start -> a -> llm -> b -> answer").answer("answer", "{{#llm.text#}}"), &[])
        .await;
    client.follow(&run, None).await.until_text("<3>").await;
    cluster.redis.kill();
    cluster.redis.restart().await;

    answered(&client.ended(&run).await, &pieces.concat());
    let told = client.follow(&run, None).await.to_the_end().await;
    assert_eq!(told.text(), pieces.concat());
    told.is_whole();
    told.nodes_end_once();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_work_is_done_after_redis_was_stopped_and_started() {
    let model = llm::slow(&["done"], 0).await;
    let mut cluster = Cluster::start(&QUICK, Some(&model)).await;
    let scheduler = cluster.scheduler().await;
    let run = scheduler.client().start(&chat(), &[]).await;
    scheduler.client().node_is(&run, "llm", "queued").await;
    cluster.redis.stop().await;
    cluster.redis.restart().await;
    let _worker = cluster.worker().await;
    answered(&scheduler.client().ended(&run).await, "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_waits_is_made_once_after_redis_was_killed_and_restarted() {
    let refused = json!({"match": {}, "status": 500, "error": "down", "fail_times": 1,
        "headers": {"x-should-retry": "false"}, "reply": "fine"});
    let model = llm::rules(json!([refused])).await;
    let mut cluster = Cluster::start(&QUICK, Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();

    let retry = json!({"retry_enabled": true, "max_retries": 3, "retry_interval": 3000});
    let run = client.start(&chat().with("llm", json!({"retry_config": retry})), &[]).await;
    client.node_is(&run, "llm", "retrying").await;
    cluster.redis.kill();
    cluster.redis.restart().await;

    let ended = client.ended(&run).await;
    // As on Dify a retry counts as an exception.
    assert_eq!(
        (&ended["status"], &ended["exceptions_count"]),
        (&json!("partial-succeeded"), &json!(1)),
        "{ended:#}"
    );
    assert_eq!(ended["outputs"]["answer"], "fine", "{ended:#}");
    assert_eq!(model.requests().len(), 2, "one call failed and one succeeded");
}
