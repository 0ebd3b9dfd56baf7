//! Redis forgets every script.

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::Fault;

pub(crate) struct ScriptFlush;

#[async_trait(?Send)]
impl Fault for ScriptFlush {
    fn name(&self) -> &'static str {
        "script-flush"
    }
    fn what(&self) -> &'static str {
        "SCRIPT FLUSH: every script must be sent again"
    }
    fn repeats(&self) -> bool {
        false
    }
    async fn happen(&self, fleet: &mut Fleet, _dice: &mut Dice) -> String {
        fleet.cluster.redis.cli(&["SCRIPT", "FLUSH"])
    }
}
