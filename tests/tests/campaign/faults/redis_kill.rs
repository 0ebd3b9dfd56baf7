//! Redis dies and starts again from its append-only file.

use std::time::Duration;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::Fault;

pub(crate) struct RedisKill;

#[async_trait(?Send)]
impl Fault for RedisKill {
    fn name(&self) -> &'static str {
        "kill-redis"
    }
    fn what(&self) -> &'static str {
        "SIGKILL to redis-server, started again on its append-only file"
    }
    fn repeats(&self) -> bool {
        true
    }
    fn kills(&self) -> usize {
        1
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let ms = dice.between(0, 1_500);
        let always = fleet.cluster.redis.cli(&["CONFIG", "GET", "appendfsync"]).contains("always");
        fleet.cluster.redis.kill();
        tokio::time::sleep(Duration::from_millis(ms)).await;
        fleet.cluster.redis.restart().await;
        if always {
            // A new server has only the settings of its start. Nothing was lost before: a killed process leaves its
            // acknowledged writes with the operating system.
            fleet.cluster.redis.cli(&["CONFIG", "SET", "appendfsync", "always"]);
        }
        format!("away for {ms} ms")
    }
}
