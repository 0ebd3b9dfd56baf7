//! memory: the memory of idle processes, and the memory in Redis of an ended run.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use redis::AsyncCommands;
use tidemill_common::ids::ShardId;

use super::Workload;
use super::workflow::{self, Executor};
use crate::engine::Engine;
use crate::error::Error;
use crate::fleet::Plan;
use crate::floor::Shape;
use crate::lab::Lab;
use crate::measure::Load;
use crate::report::Row;
use crate::server::info;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "memory",
    about: "memory of an idle scheduler and worker, and of an ended run of 20 steps in Redis",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

const SHAPE: Shape = Shape::Chain(20);
const MIB: f64 = 1024.0 * 1024.0;
/// The owner trims its inbox within seconds.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

async fn measure(lab: &Lab) -> Result<(), Error> {
    let server = lab.server().await?;
    let plan = Plan::of(&server, 1, 1);
    let mut engine = lab.engine(&server, &plan, workflow::job(SHAPE, Executor::Worker)).await?;
    let load = Load::at_once(if lab.is_quick { 200 } else { 1000 }).warmed_by(200);
    add_process_rows(lab, &engine, "idle", "without any work so far")?;
    engine.warm_up(&load).await?;
    let before = used(&mut engine).await?;
    engine.measure(&load).await?;
    let after = used(&mut engine).await?;
    add_process_rows(lab, &engine, "later", "after these runs")?;
    let bytes = (after - before) / (load.runs * load.times) as f64;
    lab.add_row(Row::bare(
        "memory/run",
        bytes,
        "bytes",
        "memory in Redis for an ended run of 20 steps, with its events",
    ));
    Ok(())
}

/// Adds the rows for the memory of the processes.
fn add_process_rows(lab: &Lab, engine: &Engine, when: &str, about: &str) -> Result<(), Error> {
    for (kind, name, processes) in
        [("scheduler", "sched", &engine.fleet.schedulers), ("worker", "work", &engine.fleet.workers)]
    {
        for process in processes {
            lab.add_row(Row {
                targets: &[Target::AtMost(40.0)],
                ..Row::bare(
                    format!("memory/{name}/{when}"),
                    process.memory()?.resident / MIB,
                    "MB",
                    &format!("resident memory of a {kind} {about}"),
                )
            });
        }
    }
    Ok(())
}

/// Returns the bytes that redis-server uses after the temporary data is gone: no job is left when the runs have ended,
/// and each inbox is trimmed up to its cursor.
async fn used(engine: &mut Engine) -> Result<f64, Error> {
    let began = Instant::now();
    loop {
        let mut facts = 0;
        for shard in (0..engine.shards).map(ShardId) {
            let inbox = engine.store.keys().inbox(shard);
            let left: usize = engine.connection.xlen(inbox).await?;
            // The fact at the cursor may remain.
            facts += left.saturating_sub(1);
        }
        if facts == 0 {
            let [bytes] = info(&mut engine.connection, "memory", ["used_memory"]).await?;
            return Ok(bytes);
        }
        if began.elapsed() > PATIENCE {
            return Err(Error::Wrong(format!("{facts} facts remain in the inboxes")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
