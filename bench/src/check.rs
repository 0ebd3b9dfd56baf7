//! Checks the state in Redis after a load: an engine that loses work is not fast.

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redis::streams::StreamPendingReply;
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::store::Runs;
use tidemill_common::store::redis::RedisStore;

use crate::error::Error;

/// Number of runs whose events are read.
const SAMPLE: usize = 20;
/// Entries of events read at once.
const EVENTS_PAGE: usize = 1000;
const QUEUE: &str = "default";
const GROUP: &str = "workers";

/// A run that must have ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) run: RunId,
    /// Expected number of steps, including start node and end node.
    pub(crate) steps: usize,
}

/// Checks that every run succeeded with all its steps, that the events of a sample have no gap, and that no job is
/// left.
pub(crate) async fn all_went_well(
    store: &RedisStore,
    connection: &mut MultiplexedConnection,
    shards: u16,
    runs: &[Ended],
) -> Result<(), Error> {
    for Ended { run, steps } in runs {
        let steps = steps.to_string();
        let fields = store.run_fields(*run).await?.unwrap_or_default();
        let field = |name: &str| fields.get(name).map(String::as_str);
        if field("status") != Some("succeeded") || field("steps") != Some(&steps) {
            let error = field("error").unwrap_or("no error is given");
            let (status, seen) = (field("status"), field("steps"));
            return Err(Error::Wrong(format!(
                "run {run}: status {status:?}, {seen:?} of {steps} steps, {error}"
            )));
        }
    }
    for ended in runs.iter().step_by((runs.len() / SAMPLE).max(1)) {
        check_events(store, ended.run).await?;
    }
    for shard in (0..shards).map(ShardId) {
        let stream = store.keys().jobs(shard, QUEUE);
        let left: usize = connection.xlen(&stream).await?;
        if left > 0 {
            return Err(Error::Wrong(format!("{left} jobs are still queued on shard {shard}")));
        }
        if connection.exists(&stream).await? {
            let pending: StreamPendingReply = connection.xpending(&stream, GROUP).await?;
            if pending.count() > 0 {
                return Err(Error::Wrong(format!("{} jobs are pending on shard {shard}", pending.count())));
            }
        }
    }
    Ok(())
}

/// Checks that the events are numbered 1, 2, 3 … up to one that ends the run.
async fn check_events(store: &RedisStore, run: RunId) -> Result<(), Error> {
    let (mut after, mut last) = (EntryId::default(), 0);
    let mut is_ended = false;
    loop {
        let events = store.events(run, after, EVENTS_PAGE).await?;
        let Some(newest) = events.last() else { break };
        after = newest.entry;
        for event in &events {
            if event.seq != last + 1 || is_ended {
                return Err(Error::Wrong(format!("run {run}: event {} comes after {last}", event.seq)));
            }
            last = event.seq;
            is_ended = event.is_terminal();
        }
    }
    if is_ended { Ok(()) } else { Err(Error::Wrong(format!("run {run}: its events do not end"))) }
}
