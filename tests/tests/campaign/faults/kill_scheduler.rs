//! A scheduler dies at any instruction; another one is started in its place at once.

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::{Fleet, Role};

use super::{Fault, Place, one_of};

pub(crate) struct KillScheduler;

#[async_trait(?Send)]
impl Fault for KillScheduler {
    fn name(&self) -> &'static str {
        "kill-scheduler"
    }
    fn what(&self) -> &'static str {
        "SIGKILL to a scheduler, started again at once"
    }
    fn repeats(&self) -> bool {
        false
    }
    fn kills(&self) -> usize {
        1
    }
    fn weight(&self) -> usize {
        6
    }
    fn place(&self) -> Place {
        Place::Anywhere
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let at = one_of(fleet, Role::Scheduler, dice);
        fleet.kill(at, dice);
        format!("scheduler {at}, its clock is off by {} ms now", fleet.members[at].clock_offset_ms)
    }
}
