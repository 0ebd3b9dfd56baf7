//! A new version is rolled out: every process is stopped and replaced, one after another.

use std::time::Duration;

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::{Fleet, Role};

use super::{Fault, Place};

/// The grace period is one second; the rest is for results and jobs that are handed in or back.
const STOP_MAX: Duration = Duration::from_secs(15);

pub(crate) struct Rolling;

#[async_trait(?Send)]
impl Fault for Rolling {
    fn name(&self) -> &'static str {
        "rolling-restart"
    }
    fn what(&self) -> &'static str {
        "SIGTERM to every process in turn, each replaced when it has ended"
    }
    fn repeats(&self) -> bool {
        // Work that does not end within the grace period is handed back.
        true
    }
    fn hits(&self, fleet: &Fleet) -> usize {
        fleet.members.iter().filter(|member| member.role == Role::Worker).count()
    }
    fn weight(&self) -> usize {
        1
    }
    fn place(&self) -> Place {
        Place::Anywhere
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        for at in 0..fleet.members.len() {
            fleet.replace(at, STOP_MAX, dice).await;
            tokio::time::sleep(Duration::from_millis(dice.between(0, 500))).await;
        }
        format!("{} processes", fleet.members.len())
    }
}
