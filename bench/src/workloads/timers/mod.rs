//! timers: how late timers fire, from the time when they are due to the commit that applies them.
//!
//! Runs wait for a worker that does not exist, each with its own deadline. The commit that ends a run at its deadline
//! tells the followers of the run, so the moment at which this program hears of it is the end of the measurement.

mod listener;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use redis::AsyncCommands;
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::ids::ShardId;

use self::listener::{Heard, Listener};
use super::Workload;
use super::workflow::{self, Executor};
use crate::engine::Engine;
use crate::error::Error;
use crate::fleet::Plan;
use crate::floor::Shape;
use crate::lab::Lab;
use crate::measure::Load;
use crate::report::Row;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "timers",
    about: "1 000 runs that end at their deadlines: idle, beside a full load, and after a take-over",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

/// The longest lateness of 99 of 100 timers, in milliseconds.
const LATE_MS: f64 = 20.0;
/// The same as a multiple of the bare round trip in the same run, where the machine is busy.
const LATE_TIMES: f64 = 3.0;
/// Time between the submission and the first deadline.
const AHEAD: Duration = Duration::from_secs(4);
/// Time after the last deadline in which a run may still end.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What else the fleet does meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// Nothing.
    Idle,
    /// A worker executes as many steps as it can.
    Load,
    /// One of two schedulers dies; only timers that are due after the other has its shards count.
    TakeOver,
}

async fn measure(lab: &Lab) -> Result<(), Error> {
    for (name, meanwhile) in [
        ("timers/idle", Meanwhile::Idle),
        ("timers/busy", Meanwhile::Load),
        ("timers/takeover", Meanwhile::TakeOver),
    ] {
        let row = late(lab, name, meanwhile).await?;
        lab.add_row(row);
    }
    Ok(())
}

async fn late(lab: &Lab, name: &str, meanwhile: Meanwhile) -> Result<Row, Error> {
    let (runs, lasts) =
        if lab.is_quick { (100, Duration::from_secs(3)) } else { (1000, Duration::from_secs(20)) };
    let server = lab.server().await?;
    let plan = match meanwhile {
        Meanwhile::Idle => Plan::of(&server, 1, 0),
        Meanwhile::Load => Plan::of(&server, 1, 1),
        Meanwhile::TakeOver => Plan::of(&server, 2, 0),
    };
    let mut engine = lab.engine(&server, &plan, workflow::job_without_worker()).await?;
    let ahead = if meanwhile == Meanwhile::TakeOver { 3 * AHEAD } else { AHEAD };
    let listener = Listener::start(server.url(), engine.store.keys().ticks())?;
    for at in 0..runs {
        let wait = ahead + lasts * u32::try_from(at).unwrap_or(0) / u32::try_from(runs).unwrap_or(1);
        engine.submit_with_deadline(wait).await?;
    }
    let due = deadlines(&mut engine, runs).await?;
    let last = due.values().copied().max().unwrap_or_default();
    let mut from = 0;
    match meanwhile {
        Meanwhile::Idle => {}
        Meanwhile::Load => {
            engine.change(workflow::job(Shape::Chain(20), Executor::Worker))?;
            while SystemClock.now().millis() < last {
                engine.run_only(&Load { warm_up: 0, ..Load::at_once(400) }).await?;
            }
        }
        Meanwhile::TakeOver => from = taken_over(&mut engine).await?,
    }
    let wait = u64::try_from(last - SystemClock.now().millis()).unwrap_or(0);
    tokio::time::sleep(Duration::from_millis(wait)).await;
    let heard = listener.stop_after(&due, PATIENCE)?;
    row(name, &due, &heard, from)
}

/// Kills a scheduler; returns the time at which the other one owned all shards.
async fn taken_over(engine: &mut Engine) -> Result<i64, Error> {
    drop(engine.fleet.schedulers.pop());
    let began = Instant::now();
    loop {
        let mut owners = Vec::new();
        for shard in (0..engine.shards).map(ShardId) {
            let owner: Option<String> = engine.connection.get(engine.store.keys().owner(shard)).await?;
            owners.extend(owner);
        }
        let is_complete = owners.len() == usize::from(engine.shards);
        owners.dedup();
        if is_complete && owners.len() == 1 {
            return Ok(SystemClock.now().millis());
        }
        if began.elapsed() > PATIENCE {
            return Err(Error::Wrong("the shards of a dead scheduler are not taken over".into()));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until every run has begun; returns the due time of each, in milliseconds.
async fn deadlines(engine: &mut Engine, runs: usize) -> Result<HashMap<String, i64>, Error> {
    let began = Instant::now();
    loop {
        let mut due = HashMap::new();
        for shard in (0..engine.shards).map(ShardId) {
            let timers: Vec<(String, f64)> =
                engine.connection.zrange_withscores(engine.store.keys().timers(shard), 0, -1).await?;
            for (member, at) in timers {
                let run = member.split(' ').next().unwrap_or_default().to_string();
                due.insert(run, at as i64);
            }
        }
        if due.len() == runs {
            return Ok(due);
        }
        if began.elapsed() > PATIENCE {
            return Err(Error::Wrong(format!("only {} of {runs} runs have begun", due.len())));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn row(name: &str, due: &HashMap<String, i64>, heard: &Heard, from: i64) -> Result<Row, Error> {
    let mut late: Vec<f64> = Vec::with_capacity(due.len());
    for (run, at) in due.iter().filter(|(_, at)| **at >= from) {
        let end = heard.ends.get(run).ok_or_else(|| Error::Wrong(format!("run {run} did not end")))?;
        late.push((end - at * 1000) as f64 / 1e3);
    }
    let mut trips = heard.round_trips_ms.clone();
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| quantile(&mut late, part));
    let trip = quantile(&mut trips, 0.99);
    let about = format!(
        "p99 of {} timers from due to heard of, p50 {p50:.1}, max {max:.1}; bare round trip p99 {trip:.2}",
        late.len()
    );
    // Either bound is enough.
    let targets: &[Target] =
        if p99 <= LATE_MS { &[Target::AtMost(LATE_MS)] } else { &[Target::FloorAtMost(LATE_TIMES)] };
    Ok(Row { targets, ratio_to_floor: Some(p99 / trip), ..Row::bare(name, p99, "ms p99", &about) })
}

/// The value below which this part of the values is; 0 if there are none.
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get(((last as f64) * part).round() as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_value_at_its_place() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| quantile(&mut values, part)), [0.0, 50.0, 99.0, 100.0]);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }
}
