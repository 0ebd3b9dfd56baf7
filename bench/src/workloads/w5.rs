//! W5: a large iteration. Measures the items per second, and whether the scheduler's memory grows with their number: it
//! should hold only open items.

use futures_util::FutureExt as _;

use super::w2;
use super::workflow;
use super::{Unit, Workload};
use crate::error::Error;
use crate::fleet::Plan;
use crate::lab::Lab;
use crate::measure::Load;
use crate::process::{Memory, Process};
use crate::report::Row;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "W5",
    about: "one run over 10 000 items, 100 at once, a step on a worker each",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

const ITEMS: usize = 10_000;
const ITEMS_QUICK: usize = 2_000;
/// Number of items of the runs in the warm-up. It is larger than the number of open items, so that their memory does
/// not count as growth.
const ITEMS_BEFORE: usize = 1_000;
/// Number of started nodes per item, with a reserve: the start of the body, its step, and those of the run.
const STARTS_PER_ITEM: usize = 3;
const MIB: f64 = 1024.0 * 1024.0;

async fn measure(lab: &Lab) -> Result<(), Error> {
    let items = if lab.is_quick { ITEMS_QUICK } else { ITEMS };
    let floor = lab.floor(&w2::FLOOR).await?;
    let server = lab.server().await?;
    let plan = Plan::of(&server, 1, 1);
    let mut engine = lab.engine(&server, &plan, workflow::job_over_items(ITEMS_BEFORE)).await?;
    // The started nodes of the items count, as in Dify.
    engine.allow_steps(STARTS_PER_ITEM * items);
    let load = Load::one_by_one(if lab.is_quick { 1 } else { 3 }).warmed_by(2);
    // As many items in all as the long runs will have, so that only the length of a run differs.
    engine.warm_up(&load.warmed_by((load.warm_up + load.times) * items / ITEMS_BEFORE)).await?;

    let before = memory(&engine.fleet.schedulers)?;
    engine.fleet.schedulers.iter().try_for_each(Process::forget_peak)?;
    engine.take(workflow::items(items), items);
    let figure = engine.measure(&load).await?;
    let after = memory(&engine.fleet.schedulers)?;

    let unit = Unit::ItemsPerSecond;
    let value = unit.value(figure.seconds, items);
    lab.add_row(Row {
        ratio_to_floor: Some(value / floor),
        // 15 000 on a machine whose floor makes 57 000 steps.
        targets: &[Target::AtLeast(15_000.0), Target::FloorAtLeast(15.0 / 57.0)],
        cpu_us_per_step: Some(figure.cpu_us_per_step),
        ..Row::bare("W5", value, unit.name(), WORKLOAD.about)
    });
    let row = |name: &str, bytes: f64, about: &str| Row::bare(name, bytes / MIB, "MB", about);
    lab.add_row(row(
        "W5/before",
        before.resident,
        "memory of the scheduler after as many items, in runs of 1 000 each",
    ));
    lab.add_row(row("W5/peak", after.peak, "the highest value during the runs"));
    lab.add_row(row("W5/after", after.resident, "the value after them"));
    lab.add_row(Row {
        targets: &[Target::AtMost(1.25)],
        ..Row::bare(
            "W5/growth",
            after.peak / before.resident,
            "x",
            "the highest value divided by the value before",
        )
    });
    Ok(())
}

/// Returns the memory of all processes together.
fn memory(processes: &[Process]) -> Result<Memory, Error> {
    let mut sum = Memory { resident: 0.0, peak: 0.0 };
    for process in processes {
        let memory = process.memory()?;
        sum.resident += memory.resident;
        sum.peak += memory.peak;
    }
    Ok(sum)
}
