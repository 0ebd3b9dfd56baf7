//! An idle worker: the requests of `worker/src/jobs/consume.rs` (its read loop) and `heartbeat.rs`, at the same times. The
//! worker itself does its heartbeat on a thread of its own, which no simulated time reaches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidemill_common::ids::ShardId;
use tidemill_common::limits;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{Fleet, Jobs, StoreError};
use tokio::time::{Instant, sleep};

use crate::dice::Dice;

const BLOCK: Duration = Duration::from_secs(1);
const REFRESH: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_millis(limits::JOB_LEASE_MS);

/// Works until it is dropped. It gets no job.
pub(super) async fn run(store: MemoryStore, number: u16) {
    let name = format!("w-{number}");
    let fleet = AtomicUsize::new(1);
    let beating = async {
        loop {
            if let Ok(workers) = beat(&store, &name).await {
                fleet.store(workers.max(1), Ordering::Relaxed);
            }
            sleep(LEASE / 3).await;
        }
    };
    tokio::select! {
        _ = read(&store, &name, number, &fleet) => {}
        () = beating => {}
    }
}

/// Returns the number of live workers.
async fn beat(store: &MemoryStore, name: &str) -> Result<usize, StoreError> {
    let workers = store.announce_worker(name, LEASE * 3).await?;
    store.note_worker(name, LEASE * 3, 0, None).await?;
    Ok(workers)
}

async fn read(store: &MemoryStore, name: &str, number: u16, fleet: &AtomicUsize) -> Result<(), StoreError> {
    let mut dice = Dice::new(u64::from(number));
    let mut reader = store.job_reader(name).await?;
    let (mut streams, mut refreshed, mut look_at): (Vec<(ShardId, Arc<str>)>, Option<Instant>, _) =
        (Vec::new(), None, Instant::now());
    loop {
        if refreshed.is_none_or(|at: Instant| at.elapsed() >= REFRESH) {
            let shards = store.namespace().await?.shards;
            streams = (0..shards).map(|shard| (ShardId(shard), "default".into())).collect();
            refreshed = Some(Instant::now());
        }
        if Instant::now() >= look_at {
            let workers = u32::try_from(fleet.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
            let part = 500 + u32::try_from(dice.below(500)).unwrap_or(0);
            look_at = Instant::now() + LOOK_EVERY * workers / 1000 * part;
            store.are_held(&streams).await?;
        }
        reader.read(&streams, 4, BLOCK).await?;
    }
}
