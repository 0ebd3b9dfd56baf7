//! The connections of one process break; it may connect again at once.

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::{Fault, anybody};

pub(crate) struct NetCut;

#[async_trait(?Send)]
impl Fault for NetCut {
    fn name(&self) -> &'static str {
        "net-cut"
    }
    fn what(&self) -> &'static str {
        "every connection of one process to Redis breaks"
    }
    fn repeats(&self) -> bool {
        false
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let (at, name) = anybody(fleet, dice);
        fleet.members[at].proxy.cut();
        name
    }
}
