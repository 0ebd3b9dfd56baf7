//! The slot of a shard, or of the namespace, moves to another master.

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::{Fault, Place};

pub(crate) struct ClusterSlot;

#[async_trait(?Send)]
impl Fault for ClusterSlot {
    fn name(&self) -> &'static str {
        "move-slot"
    }
    fn what(&self) -> &'static str {
        "the slot of a shard or of the namespace moves to another master, key by key"
    }
    fn repeats(&self) -> bool {
        true
    }
    fn place(&self) -> Place {
        Place::Cluster
    }
    fn weight(&self) -> usize {
        4
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let Some(servers) = &fleet.servers else { return "no cluster".into() };
        servers.is_whole().await;
        let keys = ["{tm}:meta", "tm:{0}:fence", "tm:{1}:fence", "tm:{2}:fence", "tm:{3}:fence"];
        let key = keys[dice.below(keys.len())];
        let masters = servers.masters().await;
        let slot = servers.slot_of(key).await;
        let from = servers.owner_of(slot, masters[0]).await;
        let others: Vec<usize> = masters.into_iter().filter(|master| *master != from).collect();
        let to = others[dice.below(others.len())];
        servers.move_slot(slot, from, to).await;
        format!("{key} from server {from} to {to}")
    }
}
