//! idle: the cost of a fleet that has nothing to do.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

use super::Workload;
use crate::error::Error;
use crate::fleet::{Fleet, Plan};
use crate::lab::Lab;
use crate::report::Row;
use crate::server::info;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "idle",
    about: "1 scheduler with 8 shards, 10 workers, no runs",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

/// Time between the start of the fleet and the first look. Work that is done once after a start has ended then.
const SETTLING: Duration = Duration::from_secs(3);
const WATCHED: Duration = Duration::from_secs(10);
const WATCHED_QUICK: Duration = Duration::from_secs(3);
/// The second INFO also counts the first one.
const OWN_COMMANDS: f64 = 1.0;

async fn measure(lab: &Lab) -> Result<(), Error> {
    let server = lab.server().await?;
    let plan = Plan { shards: Some(8), ..Plan::of(&server, 1, 10) };
    let fleet = Fleet::start(&server, &lab.programs, &plan).await?;
    let mut connection = server.connect().await?;
    tokio::time::sleep(SETTLING).await;
    let [commands_before] = info(&mut connection, "stats", ["total_commands_processed"]).await?;
    let (cpu_before, began) = (fleet.cpu()?, Instant::now());
    tokio::time::sleep(if lab.is_quick { WATCHED_QUICK } else { WATCHED }).await;
    let (cpu, seconds) = (fleet.cpu()?, began.elapsed().as_secs_f64());
    let [commands] = info(&mut connection, "stats", ["total_commands_processed"]).await?;

    let share = cpu.map_with(cpu_before, |after, before| (after - before) * 100.0 / seconds);
    lab.add_row(Row {
        targets: &[Target::Below(1.0)],
        ..Row::bare(
            "idle",
            share.sum(),
            "% core",
            "8 shards, 1 scheduler, 10 workers, no runs: all processes",
        )
    });
    for (name, part, about) in [
        ("idle/redis", share.redis, "the part of redis-server"),
        ("idle/sched", share.scheduler, "the part of the scheduler"),
        ("idle/work", share.worker, "the part of the 10 workers"),
    ] {
        lab.add_row(Row::bare(name, part, "% core", about));
    }
    let commands = (commands - commands_before - OWN_COMMANDS) / seconds;
    lab.add_row(Row {
        targets: &[Target::Below(100.0)],
        ..Row::bare("idle/cmds", commands, "per s", "commands that redis-server carries out")
    });
    Ok(())
}
