//! [`Shards`] in memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Inner, MemoryStore, announce, commit, wait_for_items};
use crate::store::{
    Claim, Commit, CommitError, Due, FactReader, Hint, Indexed, Memory, Owner, RawFact, Shards, StoreError,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, RunId, ShardId};
use tidemill_base::limits;
use tidemill_wire::state::AtRest;

struct MemoryOwner {
    inner: Arc<Inner>,
    claim: Claim,
}

#[async_trait]
impl Owner for MemoryOwner {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    async fn commit(&mut self, commit: &Commit) -> Result<(), CommitError> {
        let now = self.inner.now();
        let cancelled = {
            let mut space = self.inner.lock();
            let shard = space.shard(self.claim.shard);
            // Every claim has a new epoch, so it identifies the holder, too.
            if shard.fence.epoch != self.claim.epoch {
                return Err(CommitError::Lost(self.claim.shard));
            }
            commit::check(shard, commit)?;
            commit::write(shard, commit, now)
        };
        for execution in cancelled {
            // There may be no listener.
            let _ = self.inner.hints.send(Hint::Stop(execution));
        }
        self.inner.facts_came.notify_waiters();
        self.inner.jobs_came.notify_waiters();
        self.inner.events_came.publish(None);
        Ok(())
    }
}

struct MemoryFactReader {
    inner: Arc<Inner>,
    shard: ShardId,
}

#[async_trait]
impl FactReader for MemoryFactReader {
    async fn read(
        &mut self,
        after: EntryId,
        count: usize,
        block: Duration,
    ) -> Result<Vec<RawFact>, StoreError> {
        let (inner, shard) = (&self.inner, self.shard);
        inner.count();
        wait_for_items(&inner.facts_came, block, || inner.look().shard(shard).facts(after, count)).await
    }
}

#[async_trait]
impl Shards for MemoryStore {
    async fn announce_scheduler(&self, id: &str, ttl: Duration) -> Result<Vec<String>, StoreError> {
        let now = self.inner.now();
        Ok(announce(&mut self.inner.lock().schedulers, id, ttl, now))
    }

    async fn raise_version(&self) -> Result<u32, StoreError> {
        // All its processes are in one program, so they have one version.
        Ok(tidemill_wire::VERSION)
    }

    async fn retire_scheduler(&self, id: &str) -> Result<(), StoreError> {
        self.inner.lock().schedulers.remove(id);
        Ok(())
    }

    async fn holder(&self, shard: ShardId) -> Result<Option<String>, StoreError> {
        let now = self.inner.now();
        Ok(self.inner.lock().shard(shard).holder(now).map(str::to_string))
    }

    async fn claim(
        &self,
        shard: ShardId,
        id: &str,
        lease: Duration,
    ) -> Result<Option<Box<dyn Owner>>, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let keys = space.shard(shard);
        if keys.holder(now).is_some_and(|holder| holder != id) {
            return Ok(None);
        }
        keys.lease = Some((id.to_string(), now.plus(lease)));
        let fence = &mut keys.fence;
        fence.epoch += 1;
        fence.holder = id.to_string();
        fence.takeovers += 1;
        fence.commit = (fence.commit + 1).max(u64::try_from(now.micros()).unwrap_or(0));
        let claim = Claim {
            shard,
            epoch: fence.epoch,
            commit: fence.commit,
            cursor: fence.cursor,
            takeovers: fence.takeovers,
            trying: fence.trying.clone(),
        };
        Ok(Some(Box::new(MemoryOwner { inner: self.inner.clone(), claim })))
    }

    async fn renew(&self, shards: &[ShardId], id: &str, lease: Duration) -> Result<Vec<ShardId>, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let mut lost = Vec::new();
        for shard in shards {
            let keys = space.shard(*shard);
            if keys.holder(now) == Some(id) {
                keys.lease = Some((id.to_string(), now.plus(lease)));
            } else {
                lost.push(*shard);
            }
        }
        Ok(lost)
    }

    async fn release(&self, shard: ShardId, id: &str) -> Result<(), StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let keys = space.shard(shard);
        if keys.holder(now) == Some(id) {
            keys.lease = None;
            keys.fence.takeovers = 0;
            keys.fence.trying.clear();
        }
        Ok(())
    }

    async fn reader(&self, shard: ShardId) -> Result<Box<dyn FactReader>, StoreError> {
        Ok(Box::new(MemoryFactReader { inner: self.inner.clone(), shard }))
    }

    async fn load_run(&self, run: RunId) -> Result<Option<AtRest>, StoreError> {
        Ok(self.inner.at_rest(run))
    }

    async fn load_graph(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.inner.graph_text(shard, hash))
    }

    async fn due(
        &self,
        shard: ShardId,
        facts: Option<(EntryId, usize)>,
        now: Timestamp,
        timers: usize,
    ) -> Result<Due, StoreError> {
        let mut space = self.inner.lock();
        let keys = space.shard(shard);
        let (timers, next) = keys.timers.due(now, timers);
        let facts = facts.map(|(after, count)| keys.facts(after, count)).unwrap_or_default();
        Ok(Due { facts, timers, next })
    }

    async fn next_timer(&self, shard: ShardId) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.inner.lock().shard(shard).timers.next())
    }

    async fn note_trying(&self, shard: ShardId, facts: &[EntryId]) -> Result<(), StoreError> {
        self.inner.lock().shard(shard).fence.trying.extend_from_slice(facts);
        Ok(())
    }

    async fn trim_inbox(&self, shard: ShardId, epoch: u64) -> Result<(), StoreError> {
        let mut space = self.inner.lock();
        let keys = space.shard(shard);
        if keys.fence.epoch == epoch {
            let cursor = keys.fence.cursor;
            keys.inbox.trim_through(cursor);
        }
        Ok(())
    }

    async fn open_runs(
        &self,
        shard: ShardId,
        from: usize,
        count: usize,
    ) -> Result<(Vec<RunId>, Option<usize>), StoreError> {
        let mut space = self.inner.lock();
        let runs = &space.shard(shard).runs;
        let mut open: Vec<(Timestamp, RunId)> = runs
            .iter()
            .filter(|(_, run)| run.is_under_way())
            .map(|(id, run)| (run.created_at, *id))
            .collect();
        open.sort_unstable();
        let next = from.saturating_add(count);
        let page = open.iter().skip(from).take(count).map(|(_, id)| *id).collect();
        Ok((page, (next < open.len()).then_some(next)))
    }

    async fn idle_of(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<Vec<Option<Duration>>, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let queue = space.shard(shard).queues.get(queue);
        Ok(entries.iter().map(|entry| queue?.idle(*entry, now)).collect())
    }

    async fn lost_jobs(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<Vec<EntryId>, StoreError> {
        let mut space = self.inner.lock();
        let queue = space.shard(shard).queues.get(queue);
        Ok(entries.iter().copied().filter(|e| queue.is_none_or(|queue| queue.is_lost(*e))).collect())
    }

    async fn sweep(
        &self,
        shard: ShardId,
        epoch: u64,
        ended_before: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError> {
        let mut space = self.inner.lock();
        let keys = space.shard(shard);
        if keys.fence.epoch != epoch {
            return Ok(0);
        }
        let mut due: Vec<(Timestamp, RunId)> = keys
            .runs
            .iter()
            .filter_map(|(id, run)| Some((run.ended_at.filter(|at| *at < ended_before)?, *id)))
            .collect();
        due.sort_unstable();
        due.truncate(count);
        due.iter().for_each(|(_, id)| keys.remove_run(*id));
        Ok(due.len())
    }

    async fn index_runs(&self, _: ShardId, _: u64, _: Timestamp, _: usize) -> Result<Indexed, StoreError> {
        // It has no namespaces of an earlier version.
        Ok(Indexed::All)
    }

    async fn tidy_labels(&self, _: ShardId, _: usize) -> Result<(), StoreError> {
        // It was written by no other version.
        Ok(())
    }

    async fn settle_early_files(
        &self,
        shard: ShardId,
        noted_by: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError> {
        Ok(self.inner.lock().shard(shard).settle_early(noted_by, count))
    }

    async fn files_left(&self, shard: ShardId, count: usize) -> Result<Vec<RunId>, StoreError> {
        Ok(self.inner.lock().shard(shard).files_left.iter().take(count).copied().collect())
    }

    async fn files_gone(&self, run: RunId) -> Result<(), StoreError> {
        self.inner.lock().shard(run.shard()).files_left.remove(&run);
        Ok(())
    }

    async fn expire_blobs(
        &self,
        shard: ShardId,
        ended_by: Timestamp,
        count: usize,
    ) -> Result<usize, StoreError> {
        let now = self.inner.now();
        let seconds = limits::RETENTION_SECONDS + 24 * 3600;
        let mut space = self.inner.lock();
        Ok(space.shard(shard).expire_blobs(ended_by, count, now.plus(Duration::from_secs(seconds))))
    }

    async fn trim_jobs(&self, shard: ShardId, queue: &str) -> Result<(), StoreError> {
        if let Some(queue) = self.inner.lock().shard(shard).queues.get_mut(queue) {
            queue.trim();
        }
        Ok(())
    }

    async fn memory(&self, _: ShardId) -> Result<Memory, StoreError> {
        self.inner.count();
        Ok(Memory::default())
    }

    async fn time_at(&self, _: ShardId) -> Result<Timestamp, StoreError> {
        Ok(self.inner.now())
    }

    async fn inbox_len(&self, shard: ShardId) -> Result<u64, StoreError> {
        Ok(self.inner.lock().shard(shard).inbox.len() as u64)
    }
}
