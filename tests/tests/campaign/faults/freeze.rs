//! A process is stopped for longer than its lease, and then continues with everything that it held.

use std::time::Duration;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::{Fleet, Role};

use super::{Fault, Place, one_of};

pub(crate) struct Freeze(pub(crate) Role);

#[async_trait(?Send)]
impl Fault for Freeze {
    fn name(&self) -> &'static str {
        match self.0 {
            Role::Worker => "freeze-worker",
            Role::Scheduler => "freeze-scheduler",
        }
    }
    fn what(&self) -> &'static str {
        match self.0 {
            Role::Worker => "SIGSTOP to a worker beyond its lease, then SIGCONT",
            Role::Scheduler => "SIGSTOP to a scheduler beyond its lease, then SIGCONT",
        }
    }
    fn repeats(&self) -> bool {
        self.0 == Role::Worker
    }
    fn place(&self) -> Place {
        Place::Anywhere
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let (at, ms) = (one_of(fleet, self.0, dice), dice.between(1_000, 5_000));
        fleet.freeze(at);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        fleet.thaw(at);
        format!("{:?} {at} for {ms} ms", self.0)
    }
}
