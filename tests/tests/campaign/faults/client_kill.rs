//! Redis ends connections of one kind, all at once.

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::Fault;

/// The kind: `normal` or `pubsub`.
pub(crate) struct ClientKill(pub(crate) &'static str);

#[async_trait(?Send)]
impl Fault for ClientKill {
    fn name(&self) -> &'static str {
        if self.0 == "pubsub" { "client-kill-pubsub" } else { "client-kill" }
    }
    fn what(&self) -> &'static str {
        if self.0 == "pubsub" {
            "CLIENT KILL of every subscription"
        } else {
            "CLIENT KILL of every other connection"
        }
    }
    fn repeats(&self) -> bool {
        false
    }
    async fn happen(&self, fleet: &mut Fleet, _dice: &mut Dice) -> String {
        format!(
            "{} connections",
            fleet.cluster.redis.cli(&["CLIENT", "KILL", "TYPE", self.0, "SKIPME", "yes"])
        )
    }
}
