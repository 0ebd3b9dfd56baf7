//! The connection of one process to Redis is slow, or nearly dead, but does not break.

use std::time::Duration;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::{Fault, anybody};

pub(crate) struct NetDelay;

#[async_trait(?Send)]
impl Fault for NetDelay {
    fn name(&self) -> &'static str {
        "net-delay"
    }
    fn what(&self) -> &'static str {
        "everything between one process and Redis arrives late"
    }
    fn repeats(&self) -> bool {
        true
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let (at, name) = anybody(fleet, dice);
        let delays = [20, 100, 500, 2_500];
        let (by, ms) = (delays[dice.below(delays.len())], dice.between(1_000, 4_000));
        fleet.members[at].proxy.delay(Duration::from_millis(by));
        tokio::time::sleep(Duration::from_millis(ms)).await;
        fleet.members[at].proxy.delay(Duration::ZERO);
        format!("{name} by {by} ms for {ms} ms")
    }
}
