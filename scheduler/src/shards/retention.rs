//! Removes ended runs: by age and, when Redis fills up, by memory. It works in small pieces so that it delays nothing.
//! Open runs are never touched.
//!
//! Files are removed after their run. The script that removes a run notes that its files remain, and the note goes when
//! they are removed. So a run can be removed while the file store is down, and a crash leaves no files for ever. This also
//! holds for files that came with a request: their note is older than the files, and if there is no run an hour later, they
//! are removed as if there had been one.

use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::files::{Files, FilesError};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::limits;
use tidemill_common::store::{Indexed, Shards, StoreError};

use crate::metrics as names;

/// The most runs that one look removes for each reason.
const PIECE: usize = 50;
/// The most runs whose blobs get their TTL in one look.
const BLOBS_PIECE: usize = 200;
/// The most removed runs whose files one look removes.
const FILES_PIECE: usize = 50;
/// Labels whose lists of runs one look tidies.
const LABELS_PIECE: usize = 5;
/// Files of one run that are removed in one piece.
const FILES_OF_RUN: usize = 100;
/// The longest time that a look spends on files: other background work waits for it, and the file store may be slow.
const FILES_TIME: Duration = Duration::from_secs(2);
/// The end of a run and the blobs written with it may be recorded in a different order than they happened, by this much
/// at most.
const SETTLED: Duration = Duration::from_secs(5);
/// The pause between two looks when there is nothing to do.
const QUIET: Duration = Duration::from_secs(8);
/// The pause between two looks when there is more to remove.
const BUSY: Duration = Duration::from_millis(250);

/// Says when ended runs are removed.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// The time that ended runs are kept.
    pub age: Duration,
    /// The limit of Redis's memory in bytes; above it ended runs are removed early. 0: no limit, -1: half of
    /// `maxmemory`.
    pub bytes: i64,
}

/// The result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Runs removed because of their age.
    pub aged: usize,
    /// Runs removed to free memory.
    pub evicted: usize,
    /// Removed runs whose files were removed.
    pub files: usize,
    /// The result, if runs were listed by app.
    pub indexed: Option<Indexed>,
    /// The pause before the next look.
    pub pause: Duration,
}

impl Default for Swept {
    fn default() -> Self {
        Self { aged: 0, evicted: 0, files: 0, indexed: None, pause: QUIET }
    }
}

impl Retention {
    /// The limit in bytes above which ended runs are removed early. `max` is the memory that the store may use.
    fn bound(&self, max: Option<u64>) -> Option<u64> {
        match self.bytes {
            0 => None,
            bytes if bytes < 0 => max.map(|max| max / 2),
            bytes => Some(bytes.unsigned_abs()),
        }
    }

    /// Looks once for ended runs to remove from a shard, oldest first.
    ///
    /// # Errors
    /// Errors of the store. A later look removes what is left.
    pub async fn sweep(
        &self,
        store: &dyn Shards,
        files: &dyn Files,
        shard: ShardId,
        epoch: u64,
        now: Timestamp,
    ) -> Result<Swept, StoreError> {
        let aged = store.sweep(shard, epoch, before(now, self.age), PIECE).await?;
        let memory = store.memory(shard).await?;
        metrics::gauge!(names::REDIS_USED.name).set(memory.used as f64);
        metrics::gauge!(names::REDIS_MAX.name).set(memory.max.unwrap_or(0) as f64);
        let is_over = self.bound(memory.max).is_some_and(|bound| memory.used > bound);
        let young = Duration::from_secs(limits::EVICTION_AGE_SECONDS);
        let evicted = if is_over { store.sweep(shard, epoch, before(now, young), PIECE).await? } else { 0 };
        if evicted > 0 {
            tracing::warn!(%shard, evicted, used = memory.used, "ended runs were removed before their time to make room (scheduler.retention_bytes)");
        }
        // Last, because it writes, and a full Redis refuses that: the removals before it make room.
        let timed = store.expire_blobs(shard, before(now, SETTLED), BLOBS_PIECE).await?;
        let early = before(now, Duration::from_secs(limits::EARLY_FILES_SECONDS));
        let early = store.settle_early_files(shard, early, FILES_PIECE).await?;
        let left = store.files_left(shard, FILES_PIECE).await?;
        let removed = remove_files(store, files, &left).await?;
        store.tidy_labels(shard, LABELS_PIECE).await?;
        let are_files_left = left.len() >= FILES_PIECE && removed > 0;
        let is_more = aged >= PIECE || evicted >= PIECE || timed >= BLOBS_PIECE;
        let is_more = is_more || early >= FILES_PIECE || are_files_left;
        Ok(Swept { aged, evicted, files: removed, indexed: None, pause: if is_more { BUSY } else { QUIET } })
    }
}

/// Removes the files of removed runs while time is left. Returns the number of finished runs; the rest stays noted.
async fn remove_files(store: &dyn Shards, files: &dyn Files, runs: &[RunId]) -> Result<usize, StoreError> {
    let until = tokio::time::Instant::now() + FILES_TIME;
    for (removed, run) in runs.iter().enumerate() {
        match tokio::time::timeout_at(until, remove_all(files, run)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%run, %error, "the files of a removed run cannot be removed yet; it is tried again");
                return Ok(removed);
            }
            // The store is slow, or there are many files: the next look continues.
            Err(_) => return Ok(removed),
        }
        crash::pass(CrashPoint::FilesRemoved);
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
    fn the_memory_limit_is_the_setting_or_half_of_maxmemory() {
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
