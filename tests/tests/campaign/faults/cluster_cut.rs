//! All processes are cut off from a master of a Redis Cluster, which the other servers still see.

use std::time::Duration;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;

use super::{Fault, Place};

pub(crate) struct ClusterCut;

#[async_trait(?Send)]
impl Fault for ClusterCut {
    fn name(&self) -> &'static str {
        "cut-master"
    }
    fn what(&self) -> &'static str {
        "no process reaches a master of the cluster for 0.3 to 5 seconds; the other servers do"
    }
    fn repeats(&self) -> bool {
        true
    }
    fn place(&self) -> Place {
        Place::Cluster
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let Some(servers) = &fleet.servers else { return "no cluster".into() };
        servers.is_whole().await;
        let masters = servers.masters().await;
        let master = masters[dice.below(masters.len())];
        let ms = dice.between(300, 5000);
        servers.close(master);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        servers.open(master);
        format!("server {master} for {ms} ms")
    }
}
