//! [`Fleet`] in memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::store::{Fleet, LiveWorker, QueueState, Raised, ShardUse, StoreError};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, ShardId};
use tidemill_base::limits;
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::worker::{self, AboutWorker};

/// A worker's record.
#[derive(Debug)]
pub(super) struct StoredRecord {
    held: u64,
    about: Option<String>,
    seen_at: Timestamp,
    until: Timestamp,
}

#[async_trait]
impl Fleet for MemoryStore {
    async fn note_worker(
        &self,
        name: &str,
        ttl: Duration,
        held: usize,
        about: Option<&AboutWorker>,
    ) -> Result<bool, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        space.records.retain(|_, record| record.until > now);
        let before = space.records.remove(name);
        let is_new = before.is_none();
        let about = about.map(worker::to_json).or_else(|| before.and_then(|before| before.about));
        let record = StoredRecord { held: held as u64, about, seen_at: now, until: now.plus(ttl) };
        space.records.insert(name.to_string(), record);
        Ok(is_new)
    }

    async fn workers(&self) -> Result<Vec<LiveWorker>, StoreError> {
        let now = self.inner.now();
        let space = self.inner.lock();
        let one = |(name, until): (&String, &Timestamp)| {
            let record = space.records.get(name).filter(|record| record.until > now);
            let about = record.and_then(|record| record.about.as_deref());
            LiveWorker {
                name: name.clone(),
                seen_at: record.map_or(*until, |record| record.seen_at),
                held: record.map(|record| record.held),
                about: about.and_then(|text| worker::from_json(text).ok()).map(Arc::new),
            }
        };
        Ok(space.workers.iter().take(limits::WORKERS_SHOWN_MAX).map(one).collect())
    }

    async fn fingerprint_salt(&self, fresh: &str) -> Result<String, StoreError> {
        Ok(self.inner.lock().fingerprint_salt.get_or_insert_with(|| fresh.to_string()).clone())
    }

    async fn queue_names(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.inner.lock().queue_names.iter().take(limits::QUEUES_SHOWN_MAX).cloned().collect())
    }

    async fn queue_state(
        &self,
        shard: ShardId,
        queue: &str,
        asked: &[EntryId],
    ) -> Result<QueueState, StoreError> {
        let mut space = self.inner.lock();
        let queue = space.shard(shard).queues.get(queue);
        Ok(queue.map_or_else(|| super::queue::state_of_none(asked), |queue| queue.state(asked)))
    }
    async fn shard_uses(&self, count: u16) -> Result<Vec<ShardUse>, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let mut found = Vec::new();
        for shard in (0..count).map(ShardId) {
            let of_shard = space.shard(shard);
            let with =
                |status| of_shard.runs.values().filter(|run| run.status() == Some(status)).count() as u64;
            found.push(ShardUse {
                shard,
                owner: of_shard.holder(now).map(str::to_string),
                scheduled: with(RunStatus::Scheduled),
                running: with(RunStatus::Running),
                paused: with(RunStatus::Paused),
                ended: of_shard.runs.values().filter(|run| run.ended_at.is_some()).count() as u64,
                inbox: of_shard.inbox.len() as u64,
            });
        }
        Ok(found)
    }

    async fn raise_shards(&self, to: u16) -> Result<Raised, StoreError> {
        Ok(self.inner.raise_shards(to))
    }
}
