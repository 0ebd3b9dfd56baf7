//! fibo: one run of many code nodes that do almost nothing, one after the other. A published comparison of workflow
//! engines has this load; docs/benchmarks.md has its figures, and what differs.

use futures_util::FutureExt as _;
use tidemill_common::machine::state::options::RunOptions;

use super::{Workload, workflow};
use crate::engine::Job;
use crate::error::Error;
use crate::fleet::Plan;
use crate::lab::Lab;
use crate::measure::Load;
use crate::report::Row;

pub(super) const WORKLOAD: Workload = Workload {
    name: "fibo",
    about: "one run of 400 code nodes, fibo(10) in Python each, one after the other, one worker",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

/// The lengths that the comparison has, each with its rows: seconds of a run, and milliseconds of a task.
const LENGTHS: [(usize, [&str; 2]); 2] =
    [(40, ["fibo/40", "fibo/40/task"]), (400, ["fibo/400", "fibo/400/task"])];
const TIMES: usize = 3;

async fn measure(lab: &Lab) -> Result<(), Error> {
    for (tasks, [whole, part]) in LENGTHS {
        let server = lab.server().await?;
        let mut engine = lab.engine(&server, &Plan::of(&server, 1, 1), job(tasks)).await?;
        let load = Load::one_by_one(if lab.is_quick { 1 } else { TIMES }).warmed_by(1);
        engine.warm_up(&load).await?;
        let figure = engine.measure(&load).await?;
        let about = format!("one run of {tasks} code nodes that compute fibo(10) in Python, one worker");
        lab.add_row(Row {
            cpu_us_per_step: Some(figure.cpu_us_per_step),
            ..Row::bare(whole, figure.seconds, "s", &about)
        });
        lab.add_row(Row::bare(part, figure.seconds * 1e3 / tasks as f64, "ms", "the same, for each task"));
    }
    Ok(())
}

fn job(tasks: usize) -> Job {
    // The start node and the end node also count as steps.
    let counted = tasks + 2;
    let default = RunOptions::default();
    Job {
        workflow: workflow::fibo(tasks),
        inputs: vec![("n", 10.into())],
        options: RunOptions { steps_max: default.steps_max.max(counted as u64), ..default },
        steps: tasks,
        counted,
    }
}
