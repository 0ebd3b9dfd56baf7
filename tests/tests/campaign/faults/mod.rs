//! The faults of a campaign, each with a file and a row. A fault repairs its damage before it returns; the round
//! starts processes again that have ended meanwhile.

mod client_kill;
mod client_pause;
mod cluster_cut;
mod cluster_master;
mod cluster_mishap;
mod cluster_server;
mod cluster_slot;
mod freeze;
mod full;
mod kill_scheduler;
mod kill_worker;
mod net_close;
mod net_cut;
mod net_delay;
mod net_mishap;
mod redis_cut;
mod redis_kill;
mod rolling;
mod script_flush;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::{Fleet, Role};
use tidemill_tests::proxy::Mishap;

/// Where a fault can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// To processes, on any form of Redis.
    Anywhere,
    /// To the one Redis, or on the way to it.
    One,
    /// To the servers of a Redis Cluster.
    Cluster,
}

impl Place {
    /// Whether it can happen in such a round.
    pub(crate) fn is_on(self, cluster: bool) -> bool {
        match self {
            Self::Anywhere => true,
            Self::One => !cluster,
            Self::Cluster => cluster,
        }
    }
}

/// A fault that can be injected into a fleet.
#[async_trait(?Send)]
pub(crate) trait Fault: Sync {
    fn name(&self) -> &'static str;
    /// A description.
    fn what(&self) -> &'static str;
    /// True when it may make a worker repeat work that was done.
    fn repeats(&self) -> bool;
    /// The most times that it can hit one job. A job moves on to a worker that a rolling restart reaches later.
    fn hits(&self, _fleet: &Fleet) -> usize {
        1
    }
    /// True when Redis loses acknowledged writes.
    fn loses(&self) -> bool {
        false
    }
    /// Where it can happen.
    fn place(&self) -> Place {
        Place::One
    }
    /// The number of processes that it kills.
    fn kills(&self) -> usize {
        0
    }
    /// How often it is drawn, compared with the others.
    fn weight(&self) -> usize {
        2
    }
    /// Injects the fault and repairs the damage; returns the details.
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String;
}

/// Every fault.
pub(crate) const FAULTS: &[&dyn Fault] = &[
    &kill_worker::KillWorker,
    &kill_scheduler::KillScheduler,
    &freeze::Freeze(Role::Worker),
    &freeze::Freeze(Role::Scheduler),
    &rolling::Rolling,
    &redis_kill::RedisKill,
    &redis_cut::RedisCut,
    &client_kill::ClientKill("normal"),
    &client_kill::ClientKill("pubsub"),
    &client_pause::ClientPause,
    &script_flush::ScriptFlush,
    &full::Full,
    &net_cut::NetCut,
    &net_close::NetClose,
    &net_delay::NetDelay,
    &net_mishap::NetMishap(Mishap::LoseRequest),
    &net_mishap::NetMishap(Mishap::LoseReply),
    &net_mishap::NetMishap(Mishap::HalveReply),
    &cluster_master::ClusterMaster { freezes: false },
    &cluster_master::ClusterMaster { freezes: true },
    &cluster_slot::ClusterSlot,
    &cluster_server::ClusterServer,
    &cluster_cut::ClusterCut,
    &cluster_mishap::ClusterMishap,
];

/// Draws one of these faults by their weights.
pub(crate) fn draw<'a>(possible: &[&'a dyn Fault], dice: &mut Dice) -> &'a dyn Fault {
    let total: usize = possible.iter().map(|fault| fault.weight()).sum();
    let mut at = dice.below(total);
    for fault in possible {
        if at < fault.weight() {
            return *fault;
        }
        at -= fault.weight();
    }
    possible[0]
}

/// The number of processes that a fault kills.
pub(crate) fn kills(name: &str) -> usize {
    FAULTS.iter().find(|fault| fault.name() == name).map_or(0, |fault| fault.kills())
}

/// Draws a member with this role.
fn one_of(fleet: &Fleet, role: Role, dice: &mut Dice) -> usize {
    let all = fleet.of(role);
    all[dice.below(all.len())]
}

/// Draws any member; returns its index and a name for messages.
fn anybody(fleet: &Fleet, dice: &mut Dice) -> (usize, String) {
    let at = dice.below(fleet.members.len());
    (at, format!("{:?} {at}", fleet.members[at].role))
}
