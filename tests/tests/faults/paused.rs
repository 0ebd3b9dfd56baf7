//! A Redis that is paused, as in each planned fail-over of `FAILOVER` and `CLUSTER FAILOVER`: some versions crash when
//! `CLIENT UNBLOCK` meets a connection that waits for the end of the pause.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::config::RedisConfig;
use tidemill_common::ids::ShardId;
use tidemill_common::store::Jobs as _;
use tidemill_common::store::redis::{RedisStore, StoreLimits};
use tidemill_tests::redis::Redis;
use tidemill_tests::redis_cluster::RedisCluster;
use tidemill_tests::wait::{LONG, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_jobs_that_is_woken_while_redis_is_paused_leaves_it_alive() {
    let redis = Redis::start().await;
    wakes(&redis.url(), &redis).await;
    let cluster = RedisCluster::start_of(1).await;
    wakes(&cluster.url(), &cluster.servers[0]).await;
}

async fn wakes(url: &str, redis: &Redis) {
    let config = RedisConfig { url: url.into(), ..RedisConfig::default() };
    let store = RedisStore::new(&config, StoreLimits::default()).expect("an address");
    let mut reader = store.job_reader("reader").await.expect("a reader");
    let wanted: [(ShardId, Arc<str>); 1] = [(ShardId(0), "default".into())];
    let first = reader.read(&wanted, 1, Duration::from_millis(10)).await.expect("a read");
    assert!(first.is_empty());
    redis.cli(&["CLIENT", "PAUSE", "1500", "WRITE"]);
    let id = reader.id();
    let reading = tokio::spawn(async move { reader.read(&wanted, 1, Duration::from_secs(3)).await });
    until("the reader to wait for the end of the pause", LONG, async || {
        let info = redis.cli(&["INFO", "clients"]);
        if info.contains("blocked_clients:1") { Ok(()) } else { Err(info) }
    })
    .await;
    store.wake(id).await.expect("it is woken");
    let read = reading.await.expect("it does not panic");
    assert!(read.is_ok_and(|jobs| jobs.is_empty()));
    assert_eq!(redis.cli(&["PING"]), "PONG");
}
