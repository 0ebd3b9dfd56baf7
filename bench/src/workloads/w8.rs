//! W8: the gain from more processes: the load of W2 on larger fleets. On a machine with few cores the throughput stops
//! growing when they are used up, which is a limit of the machine. The processor time per step shows which process it
//! is.

use futures_util::FutureExt as _;

use super::{Workload, w2};
use crate::error::Error;
use crate::fleet::Plan;
use crate::lab::Lab;
use crate::report::Row;

pub(super) const WORKLOAD: Workload = Workload {
    name: "W8",
    about: "W2 with 1, 2, 4 workers and 1, 2 schedulers",
    floor: Some(&w2::FLOOR),
    measure: |lab| measure(lab).boxed_local(),
};

async fn measure(lab: &Lab) -> Result<(), Error> {
    let floor = lab.floor(&w2::FLOOR).await?;
    for schedulers in [1, 2] {
        for workers in [1, 2, 4] {
            let server = lab.server().await?;
            let plan = Plan::of(&server, schedulers, workers);
            let mut engine = lab.engine(&server, &plan, w2::TIMED.job()).await?;
            let row = w2::TIMED.row(lab, &mut engine, floor).await?;
            lab.add_row(Row {
                name: format!("W8/{schedulers}s{workers}w"),
                about: format!("W2 with schedulers: {schedulers}, workers: {workers}"),
                targets: &[],
                ..row
            });
        }
    }
    Ok(())
}
