//! A worker dies at any instruction; another one is started in its place at once.

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::{Fleet, Role};

use super::{Fault, Place, one_of};

pub(crate) struct KillWorker;

#[async_trait(?Send)]
impl Fault for KillWorker {
    fn name(&self) -> &'static str {
        "kill-worker"
    }
    fn what(&self) -> &'static str {
        "SIGKILL to a worker, started again at once"
    }
    fn repeats(&self) -> bool {
        true
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
        let at = one_of(fleet, Role::Worker, dice);
        fleet.kill(at, dice);
        format!("worker {at}, its clock is off by {} ms now", fleet.members[at].clock_offset_ms)
    }
}
