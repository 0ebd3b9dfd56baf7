//! Everything that is done to a fleet: a file and a row each. A fault heals before it returns; what ends by itself
//! meanwhile is started again by the round.

mod client_kill;
mod client_pause;
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

/// Something that happens to a fleet.
#[async_trait(?Send)]
pub(crate) trait Fault: Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// What happens.
    fn what(&self) -> &'static str;
    /// Whether it may make a worker do again what was done.
    fn repeats(&self) -> bool;
    /// Whether Redis loses what it had acknowledged.
    fn loses(&self) -> bool {
        false
    }
    /// Processes that it kills.
    fn kills(&self) -> usize {
        0
    }
    /// How often it is drawn, beside the others.
    fn weight(&self) -> usize {
        2
    }
    /// Lets it happen and heals it; says what exactly was done.
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
];

/// One of these faults, by their weights.
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

/// Processes that a fault kills.
pub(crate) fn kills(name: &str) -> usize {
    FAULTS.iter().find(|fault| fault.name() == name).map_or(0, |fault| fault.kills())
}

/// Somebody of a role.
fn one_of(fleet: &Fleet, role: Role, dice: &mut Dice) -> usize {
    let all = fleet.of(role);
    all[dice.below(all.len())]
}

/// Anybody, and how to call it.
fn anybody(fleet: &Fleet, dice: &mut Dice) -> (usize, String) {
    let at = dice.below(fleet.members.len());
    (at, format!("{:?} {at}", fleet.members[at].role))
}
