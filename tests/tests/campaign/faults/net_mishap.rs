//! A request or a reply of one process is lost, several times in a row.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tidemill_sim::dice::Dice;
use tidemill_tests::fleet::Fleet;
use tidemill_tests::proxy::Mishap;

use super::{Fault, anybody};

/// The longest wait until a mishap happens.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The kind of mishap.
pub(crate) struct NetMishap(pub(crate) Mishap);

#[async_trait(?Send)]
impl Fault for NetMishap {
    fn name(&self) -> &'static str {
        match self.0 {
            Mishap::LoseRequest => "net-lose-request",
            Mishap::LoseReply => "net-lose-reply",
            Mishap::HalveReply => "net-halve-reply",
        }
    }
    fn what(&self) -> &'static str {
        match self.0 {
            Mishap::LoseRequest => "requests of one process are lost, and their connections end",
            Mishap::LoseReply => "requests of one process take effect, but their replies are lost",
            Mishap::HalveReply => "connections of one process end in the middle of a reply",
        }
    }
    fn repeats(&self) -> bool {
        false
    }
    fn weight(&self) -> usize {
        3
    }
    async fn happen(&self, fleet: &mut Fleet, dice: &mut Dice) -> String {
        let ((at, name), times) = (anybody(fleet, dice), dice.between(1, 6));
        for _ in 0..times {
            fleet.members[at].proxy.suffer(self.0);
            let asked = Instant::now();
            while fleet.members[at].proxy.is_owed(self.0) && asked.elapsed() < WAIT_MAX {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        format!("{name}, {times} times")
    }
}
