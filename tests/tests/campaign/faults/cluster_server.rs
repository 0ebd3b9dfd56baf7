//! A server joins a Redis Cluster, has slots for a while, and leaves again.

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::{Fault, Place};

pub(crate) struct ClusterServer;

#[async_trait(?Send)]
impl Fault for ClusterServer {
    fn name(&self) -> &'static str {
        "add-server"
    }
    fn what(&self) -> &'static str {
        "a master is added, has the slots of some shards for a while, and is removed"
    }
    fn repeats(&self) -> bool {
        true
    }
    fn place(&self) -> Place {
        Place::Cluster
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let Some(servers) = &mut fleet.servers else { return "no cluster".into() };
        servers.is_whole().await;
        let new = servers.add().await;
        let mut moved = Vec::new();
        for shard in 0..dice.between(1, 4) {
            let slot = servers.slot_of(&format!("tm:{{{shard}}}:fence")).await;
            let owner = servers.owner_of(slot, new).await;
            servers.move_slot(slot, owner, new).await;
            moved.push((slot, owner));
        }
        let count = moved.len();
        for (slot, owner) in moved {
            servers.move_slot(slot, new, owner).await;
        }
        servers.remove(new).await;
        format!("server {new} had {count} slots")
    }
}
