//! The memory of Redis is full for a while.

use std::time::Duration;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::Fault;

pub(crate) struct Full;

#[async_trait(?Send)]
impl Fault for Full {
    fn name(&self) -> &'static str {
        "redis-full"
    }
    fn what(&self) -> &'static str {
        "maxmemory is reached for a while: Redis refuses every command that needs memory"
    }
    fn repeats(&self) -> bool {
        false
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let ms = dice.between(200, 4_000);
        fleet.cluster.redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        fleet.cluster.redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        format!("for {ms} ms")
    }
}
