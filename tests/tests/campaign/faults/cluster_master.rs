//! A master of a Redis Cluster dies or hangs, and its replica takes over. Later it is back as a replica.

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::{Fault, Place};

/// Also says whether it hangs instead of dying.
pub(crate) struct ClusterMaster {
    pub(crate) freezes: bool,
}

#[async_trait(?Send)]
impl Fault for ClusterMaster {
    fn name(&self) -> &'static str {
        if self.freezes { "freeze-master" } else { "kill-master" }
    }
    fn what(&self) -> &'static str {
        if self.freezes {
            "SIGSTOP to a master of the cluster until its replica is promoted"
        } else {
            "SIGKILL to a master of the cluster; its replica is promoted, and it comes back as a replica"
        }
    }
    fn repeats(&self) -> bool {
        true
    }
    fn loses(&self) -> bool {
        true
    }
    fn place(&self) -> Place {
        Place::Cluster
    }
    fn kills(&self) -> usize {
        usize::from(!self.freezes)
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let Some(servers) = &mut fleet.servers else { return "no cluster".into() };
        servers.is_whole().await;
        let masters = servers.masters().await;
        let master = masters[dice.below(masters.len())];
        let replicas = servers.replicas_of(master).await;
        let Some(replica) = replicas.first().copied() else { return "it has no replica".into() };
        if self.freezes {
            servers.servers[master].process().freeze();
            servers.is_master(replica).await;
            servers.servers[master].process().thaw();
        } else {
            servers.servers[master].kill();
            servers.is_master(replica).await;
            servers.servers[master].restart().await;
        }
        servers.is_whole().await;
        format!("server {master}, replaced by {replica}")
    }
}
