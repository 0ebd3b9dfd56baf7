//! W6: how often a value travels between Redis and the processes when nodes pass it on. A worker has to fetch and to
//! store it, which is two times its size per node; everything more is the cost of the engine.

use futures_util::FutureExt as _;
use tidemill_common::machine::state::options::RunOptions;

use super::Workload;
use super::workflow::{self, Executor};
use crate::counting_proxy::CountingProxy;
use crate::engine::{Engine, Job};
use crate::error::Error;
use crate::fleet::Plan;
use crate::floor::Shape;
use crate::lab::Lab;
use crate::measure::Load;
use crate::report::Row;
use crate::server::info;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "W6",
    about: "values of 1 KB, 100 KB, 10 MB passed through 10 steps on a worker: bytes to and from Redis",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

const NODES: usize = 10;

/// Name, size of the value in bytes, number of runs, and number of runs in a quick measurement.
const VALUES: [(&str, usize, usize, usize); 3] =
    [("1KB", 1_000, 50, 10), ("100KB", 100_000, 20, 4), ("10MB", 10_000_000, 2, 1)];

async fn measure(lab: &Lab) -> Result<(), Error> {
    for (name, bytes, runs, runs_quick) in VALUES {
        let server = lab.server().await?;
        // Proxies for the scheduler and for the load; the other bytes that the server counts are those of the worker.
        let (scheduler, own) = (CountingProxy::open(server.port())?, CountingProxy::open(server.port())?);
        let plan = Plan { scheduler_url: scheduler.url(), load_url: own.url(), ..Plan::of(&server, 1, 1) };
        let mut engine = lab.engine(&server, &plan, job(bytes)).await?;
        let load = Load::one_by_one(if lab.is_quick { runs_quick } else { runs }).warmed_by(2);
        engine.warm_up(&load).await?;
        let before = Bytes::so_far(&mut engine, &scheduler, &own).await?;
        engine.run_only(&load).await?;
        let after = Bytes::so_far(&mut engine, &scheduler, &own).await?;
        engine.check().await?;

        let carried = (load.times * NODES * bytes) as f64;
        let all = (after.all - before.all) / carried;
        let of_scheduler = (after.scheduler - before.scheduler) / carried;
        let about = format!(
            "bytes to and from Redis per node, divided by the size of the value of {name} that it passes on"
        );
        lab.add_row(Row {
            targets: &[Target::AtMost(3.0)],
            ..Row::bare(format!("W6/{name}"), all, "x", &about)
        });
        lab.add_row(Row::bare(format!("W6/{name}/sched"), of_scheduler, "x", "the part of the scheduler"));
    }
    Ok(())
}

/// Builds runs that pass on a text of so many bytes. Each step adds a letter, because an unchanged value is not stored
/// again. Dify's limit for the output of a template is raised for it.
fn job(bytes: usize) -> Job {
    let job = workflow::job(Shape::Chain(NODES), Executor::Worker);
    let template_chars_max = job.options.template_chars_max.max(bytes + NODES);
    Job {
        workflow: job.workflow.replace("{{ text }}", "{{ text }}x"),
        inputs: vec![("text", "x".repeat(bytes).into())],
        options: RunOptions { template_chars_max, ..job.options },
        ..job
    }
}

/// Bytes to and from Redis so far.
struct Bytes {
    /// Without the bytes of the load for submitting and looking.
    all: f64,
    scheduler: f64,
}

impl Bytes {
    async fn so_far(
        engine: &mut Engine,
        scheduler: &CountingProxy,
        own: &CountingProxy,
    ) -> Result<Self, Error> {
        let names = ["total_net_input_bytes", "total_net_output_bytes"];
        let [input, output] = info(&mut engine.connection, "stats", names).await?;
        Ok(Self { all: input + output - own.bytes() as f64, scheduler: scheduler.bytes() as f64 })
    }
}
