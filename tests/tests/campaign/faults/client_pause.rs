//! Redis answers no process for a while, longer than a lease.

use std::time::Duration;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::Fault;

pub(crate) struct ClientPause;

#[async_trait(?Send)]
impl Fault for ClientPause {
    fn name(&self) -> &'static str {
        "client-pause"
    }
    fn what(&self) -> &'static str {
        "CLIENT PAUSE: Redis answers no process for a while"
    }
    fn repeats(&self) -> bool {
        true
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let ms = dice.between(300, 4_000);
        fleet.cluster.redis.cli(&["CLIENT", "PAUSE", &ms.to_string(), "ALL"]);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        format!("for {ms} ms")
    }
}
