//! Measures how many runs per second one scheduler accepts. The clients submit again as soon as they have an answer,
//! and follow no run. This is a closed loop, because it measures a rate and not times. The model answers with a single
//! word, so that the accepted runs also end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidemill_common::ids::ShardId;
use tidemill_common::store::Runs;
use tokio::time::{Instant, sleep};

use super::client::{RUNS, Watched};
use super::connection_pool::Fault;
use super::fleet::{Fleet, Shares};
use crate::error::Error;

/// Time until all runs must have ended.
const PATIENCE: Duration = Duration::from_secs(120);

/// The results.
pub(crate) struct Starts {
    /// Accepted runs per second.
    pub(crate) per_second: f64,
    /// Ended runs per second, until the last one had ended.
    pub(crate) ended_per_second: f64,
    /// Processor time while runs were submitted.
    pub(crate) shares: Shares,
}

/// Submits with so many clients for so long, and waits until all runs have ended.
pub(crate) async fn starts(fleet: &Fleet, clients: usize, lasts: Duration) -> Result<Starts, Error> {
    let before = ended(fleet).await?;
    let (began, used) = (Instant::now(), fleet.used()?);
    let until = began + lasts;
    let taken = AtomicU64::new(0);
    let watched = fleet.watched();
    let submitted = (0..clients).map(|_| submit(&watched, until, &taken));
    let faults = futures_util::future::join_all(submitted).await;
    let (lasted, shares) = (began.elapsed(), fleet.used()?.since(&used));
    if let Some(fault) = faults.into_iter().find_map(Result::err) {
        return Err(Error::Wrong(format!("submitting: {fault}{}", fleet.last_words())));
    }
    let taken = taken.into_inner();
    while ended(fleet).await? < before + taken {
        if began.elapsed() > PATIENCE {
            let ended = ended(fleet).await? - before;
            return Err(Error::Wrong(format!("{ended} of {taken} runs ended{}", fleet.last_words())));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(Starts {
        per_second: taken as f64 / lasted.as_secs_f64(),
        ended_per_second: taken as f64 / began.elapsed().as_secs_f64(),
        shares,
    })
}

async fn submit(watched: &Watched, until: Instant, taken: &AtomicU64) -> Result<(), Fault> {
    let mut connection = watched.pool.connect().await?;
    let submission = watched.submission(1);
    while Instant::now() < until {
        connection.ready().await?;
        watched.pool.post(&mut connection, RUNS, &submission).await?;
        taken.fetch_add(1, Ordering::Relaxed);
    }
    watched.pool.release(connection);
    Ok(())
}

/// Number of ended runs on all shards.
async fn ended(fleet: &Fleet) -> Result<u64, Error> {
    let mut pipe = redis::pipe();
    for shard in (0..fleet.store.meta().await?.shards).map(ShardId) {
        pipe.zcard(fleet.store.keys().ended(shard));
    }
    let counts: Vec<u64> = pipe.query_async(&mut fleet.redis().await?).await?;
    Ok(counts.into_iter().sum())
}
