//! One process cannot reach Redis for a while, perhaps for longer than its lease.

use std::time::Duration;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::{Fault, anybody};

pub(crate) struct NetClose;

#[async_trait(?Send)]
impl Fault for NetClose {
    fn name(&self) -> &'static str {
        "net-close"
    }
    fn what(&self) -> &'static str {
        "one process cannot reach Redis for a while"
    }
    fn repeats(&self) -> bool {
        true
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let ((at, name), ms) = (anybody(fleet, dice), dice.between(500, 5_000));
        fleet.members[at].proxy.close();
        tokio::time::sleep(Duration::from_millis(ms)).await;
        fleet.members[at].proxy.open();
        format!("{name} for {ms} ms")
    }
}
