//! How long ended runs stay: by age and, when Redis fills up, by the memory that is left. In small pieces, so that it
//! holds nobody up; runs that are not over are never touched.
//!
//! Files go after their run: removing it notes in the same script that its files are left, and that is forgotten when
//! they are gone. So a place for files that is away keeps no run from being removed, and no crash leaves files behind.

use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::crash::{self, Place};
use tidemill_common::files::{Files, FilesError};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::limits;
use tidemill_common::store::{Shards, StoreError};

use crate::metrics as names;

/// Runs that one look removes for each reason at most.
const PIECE: usize = 50;
/// Runs whose large values get their time in one look.
const BLOBS_PIECE: usize = 200;
/// Removed runs whose files one look removes.
const FILES_PIECE: usize = 50;
/// Files of one run that go in one piece.
const FILES_OF_RUN: usize = 100;
/// Longest time that a look spends on files: other housekeeping waits for it, and the place may be far away.
const FILES_TIME: Duration = Duration::from_secs(2);
/// A run's end and the values that are written with it may be told in another order than they happened, by this much at
/// most.
const SETTLED: Duration = Duration::from_secs(5);
/// Between two looks when there is nothing to do.
const QUIET: Duration = Duration::from_secs(8);
/// Between two looks when there is more to remove.
const BUSY: Duration = Duration::from_millis(250);

/// When ended runs go.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// How long they are kept.
    pub age: Duration,
    /// Memory above which they go before their time: bytes, 0 for no bound, -1 for half of what the store may use.
    pub bytes: i64,
}

/// What a look has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Runs removed since their time was over.
    pub aged: usize,
    /// Runs removed for want of memory.
    pub evicted: usize,
    /// Removed runs whose files were removed.
    pub files: usize,
    /// When to look again.
    pub pause: Duration,
}

impl Default for Swept {
    fn default() -> Self {
        Self { aged: 0, evicted: 0, files: 0, pause: QUIET }
    }
}

impl Retention {
    /// Bytes above which ended runs go, when the store may use so many.
    fn bound(&self, max: Option<u64>) -> Option<u64> {
        match self.bytes {
            0 => None,
            bytes if bytes < 0 => max.map(|max| max / 2),
            bytes => Some(bytes.unsigned_abs()),
        }
    }

    /// Looks once at what is to go from a shard, oldest first.
    ///
    /// # Errors
    /// The store's; what was not removed is removed by a later look.
    pub async fn look(
        &self,
        store: &dyn Shards,
        files: &dyn Files,
        shard: ShardId,
        epoch: u64,
        now: Timestamp,
    ) -> Result<Swept, StoreError> {
        let aged = store.sweep(shard, epoch, before(now, self.age), PIECE).await?;
        let memory = store.memory().await?;
        metrics::gauge!(names::REDIS_USED.name).set(memory.used as f64);
        metrics::gauge!(names::REDIS_MAX.name).set(memory.max.unwrap_or(0) as f64);
        let is_over = self.bound(memory.max).is_some_and(|bound| memory.used > bound);
        let young = Duration::from_secs(limits::EVICTION_AGE_SECONDS);
        let evicted = if is_over { store.sweep(shard, epoch, before(now, young), PIECE).await? } else { 0 };
        if evicted > 0 {
            tracing::warn!(%shard, evicted, used = memory.used, "ended runs were removed before their time to make room (scheduler.retention_bytes)");
        }
        // Last, since it writes, which a full Redis refuses: what makes room comes before.
        let timed = store.expire_blobs(shard, before(now, SETTLED), BLOBS_PIECE).await?;
        let left = store.files_left(shard, FILES_PIECE).await?;
        let removed = remove_files(store, files, &left).await?;
        let are_files_left = left.len() >= FILES_PIECE && removed > 0;
        let is_more = aged >= PIECE || evicted >= PIECE || timed >= BLOBS_PIECE || are_files_left;
        Ok(Swept { aged, evicted, files: removed, pause: if is_more { BUSY } else { QUIET } })
    }
}

/// Removes the files of removed runs while there is time; answers of how many. What is not done is told again.
async fn remove_files(store: &dyn Shards, files: &dyn Files, runs: &[RunId]) -> Result<usize, StoreError> {
    let until = tokio::time::Instant::now() + FILES_TIME;
    for (removed, run) in runs.iter().enumerate() {
        match tokio::time::timeout_at(until, remove_all(files, run)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%run, %error, "the files of a removed run cannot be removed; they are tried again");
                return Ok(removed);
            }
            // Slow, or many: the next look goes on.
            Err(_) => return Ok(removed),
        }
        crash::pass(Place::FilesRemoved);
        store.files_gone(*run).await?;
    }
    Ok(runs.len())
}

async fn remove_all(files: &dyn Files, run: &RunId) -> Result<(), FilesError> {
    while !files.remove(run, FILES_OF_RUN).await? {}
    Ok(())
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.micros().saturating_sub(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_what_was_set_or_half_of_what_there_is() {
        for (bytes, max, bound) in [
            (0, Some(100), None),
            (-1, Some(100), Some(50)),
            (-1, None, None),
            (70, Some(100), Some(70)),
            (70, None, Some(70)),
        ] {
            let retention = Retention { age: Duration::ZERO, bytes };
            assert_eq!(retention.bound(max), bound, "{bytes} {max:?}");
        }
    }
}
