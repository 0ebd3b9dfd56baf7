//! Redis dies and starts again without the last bytes of its append-only file, as after a power loss.

use std::time::Duration;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::Fault;

/// The most bytes that are lost: some hundred commits.
const BYTES_MAX: u64 = 100_000;

pub(crate) struct RedisCut;

#[async_trait(?Send)]
impl Fault for RedisCut {
    fn name(&self) -> &'static str {
        "cut-redis"
    }
    fn what(&self) -> &'static str {
        "SIGKILL to redis-server, its append-only file cut at a random byte, started again"
    }
    fn repeats(&self) -> bool {
        true
    }
    fn loses(&self) -> bool {
        true
    }
    fn kills(&self) -> usize {
        1
    }
    fn weight(&self) -> usize {
        4
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let ms = dice.between(0, 1_000);
        let redis = &mut fleet.cluster.redis;
        redis.kill();
        let bytes = dice.between(1, BYTES_MAX).min(redis.written());
        redis.forget(bytes);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        redis.restart().await;
        // Without this, the next start could apply half of a transaction: Redis 7.0 leaves the beginning of a cut
        // transaction in the file.
        redis.rewrite_log().await;
        format!("{bytes} bytes, down for {ms} ms")
    }
}
