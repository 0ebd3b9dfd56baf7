//! The Redis store keeps the contract of every store. Each case has its own namespace on one private Redis.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, future, stream};
use tidemill_common::config::RedisConfig;
use tidemill_common::store::redis::{RedisStore, StoreLimits};
use tidemill_tests::contract::{CASES, Control, Subject};
use tidemill_tests::redis::Redis;

const INBOX_MAX: u64 = 8;
const QUEUE_MAX: u64 = 7;
/// The number of cases at the same time: most of them wait for a lease.
const AT_ONCE: usize = 8;

/// Redis has its own clock, so the tests must wait for time to pass.
struct Waiting;

#[async_trait]
impl Control for Waiting {
    async fn advance(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }
    fn lease(&self) -> Duration {
        Duration::from_millis(1200)
    }
    fn patience(&self) -> Duration {
        Duration::from_secs(3)
    }
    fn inbox_max(&self) -> u64 {
        INBOX_MAX
    }
    fn queue_max(&self) -> u64 {
        QUEUE_MAX
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_keeps_the_contract_of_every_store() {
    let redis = Redis::start().await;
    kept_by(|namespace| RedisConfig {
        url: redis.url().into(),
        namespace: namespace.into(),
        ..RedisConfig::default()
    })
    .await;
}

/// Runs every case, each in its own namespace.
pub(crate) async fn kept_by(config: impl Fn(&str) -> RedisConfig) {
    kept_by_some(AT_ONCE, config).await;
}

/// As [`kept_by`], with this many cases at the same time: where each begins with work, a busy machine answers too late else.
pub(crate) async fn kept_by_some(at_once: usize, config: impl Fn(&str) -> RedisConfig) {
    let playing = stream::iter(CASES).map(|(name, case)| {
        let limits = StoreLimits { inbox_max: INBOX_MAX, queue_max: QUEUE_MAX, ..StoreLimits::default() };
        let store = RedisStore::new(&config(name), limits).expect("an address");
        let playing = case(Subject { store, control: Arc::new(Waiting) });
        async move { playing.await.err().map(|error| format!("{name}: {error}")) }
    });
    let broken: Vec<String> = playing.buffer_unordered(at_once).filter_map(future::ready).collect().await;
    assert!(
        broken.is_empty(),
        "{} of {} promises are broken:\n{}",
        broken.len(),
        CASES.len(),
        broken.join("\n")
    );
}
