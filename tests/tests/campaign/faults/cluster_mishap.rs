//! A request to a master of a Redis Cluster is lost, or its reply, or half of the reply.

use std::time::Duration;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;
use tidemill_tests::proxy::Mishap;

use super::{Fault, Place};

/// Longest wait for the next request.
const WAIT_MAX: Duration = Duration::from_secs(3);

pub(crate) struct ClusterMishap;

#[async_trait(?Send)]
impl Fault for ClusterMishap {
    fn name(&self) -> &'static str {
        "mishap-master"
    }
    fn what(&self) -> &'static str {
        "a request to a master of the cluster is lost, or its reply, or half of it; its connection ends"
    }
    fn repeats(&self) -> bool {
        false
    }
    fn place(&self) -> Place {
        Place::Cluster
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let Some(servers) = &fleet.servers else { return "no cluster".into() };
        let masters = servers.masters().await;
        let master = masters[dice.below(masters.len())];
        let mishaps = [Mishap::LoseRequest, Mishap::LoseReply, Mishap::HalveReply];
        let mishap = mishaps[dice.below(mishaps.len())];
        servers.proxy(master).suffer(mishap);
        let until = tokio::time::Instant::now() + WAIT_MAX;
        while servers.proxy(master).is_owed(mishap) && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        format!("server {master}: {mishap:?}")
    }
}
