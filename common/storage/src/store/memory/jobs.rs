//! [`Jobs`] in memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::queue::JobSource;
use super::shard::Shard;
use super::{Inner, MemoryStore, announce, calls, journal, wait_for_items};
use crate::store::{
    Accepted, App, AppRecords, Called, Catalog, Completion, Delivered, EntryBegin, EntryPut, EntryStored,
    Fleet, GiveLimit, Hint, Hints, JobReader, Jobs, JournalKey, KnowledgeBases, LimitTaken, Meta, Paused,
    PluginValue, PluginValuePut, PutEntry, RunOwner, Stale, StoreError, TakeLimit, TakeOver,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, EntryId, RunId, ShardId};

struct MemoryJobReader {
    inner: Arc<Inner>,
    consumer: String,
}

#[async_trait]
impl JobReader for MemoryJobReader {
    fn id(&self) -> u64 {
        0
    }

    async fn read(
        &mut self,
        streams: &[(ShardId, Arc<str>)],
        count: usize,
        block: Duration,
    ) -> Result<Vec<Delivered>, StoreError> {
        let (inner, consumer) = (&self.inner, self.consumer.as_str());
        inner.count();
        let take = || {
            let now = inner.now();
            let mut space = inner.look();
            let mut taken = Vec::new();
            for (shard, queue) in streams {
                let source = JobSource { shard: *shard, queue };
                let keys = space.shard(*shard).queues.entry(queue.clone()).or_default();
                taken.extend(keys.read(&source, consumer, count, now));
            }
            taken
        };
        wait_for_items(&inner.jobs_came, block, take).await
    }
}

struct MemoryHints(broadcast::Receiver<Hint>);

#[async_trait]
impl Hints for MemoryHints {
    async fn next(&mut self) -> Option<Hint> {
        loop {
            match self.0.recv().await {
                Ok(hint) => return Some(hint),
                // The heartbeat covers missed hints.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

fn complete(shard: &mut Shard, queue: &str, consumer: &str, it: &Completion, now: Timestamp) -> Accepted {
    let is_held = shard.queues.get(queue).is_some_and(|q| q.is_held(it.entry, consumer, it.number));
    if !is_held {
        return Accepted::NotYours;
    }
    if !shard.has_blobs(&it.blobs, now) {
        return Accepted::BlobMissing;
    }
    shard.add_fact(now, it.run.to_string(), it.kind, &it.body);
    shard.accept_blobs(it.run, &it.blobs);
    if let Some(dead) = &it.dead {
        shard.bury(dead, now);
    }
    if let Some(queue) = shard.queues.get_mut(queue) {
        queue.remove(it.entry);
    }
    Accepted::Stored
}

#[async_trait]
impl Jobs for MemoryStore {
    fn knowledge(&self) -> &dyn KnowledgeBases {
        self
    }

    fn fleet(&self) -> &dyn Fleet {
        self
    }

    async fn namespace(&self) -> Result<Meta, StoreError> {
        Ok(self.inner.meta())
    }

    async fn accepts_writes(&self) -> Result<(), StoreError> {
        crate::store::Runs::writable(self).await
    }

    async fn announce_worker(&self, consumer: &str, ttl: Duration) -> Result<usize, StoreError> {
        let now = self.inner.now();
        Ok(announce(&mut self.inner.lock().workers, consumer, ttl, now).len())
    }

    async fn retire_worker(&self, consumer: &str) -> Result<(), StoreError> {
        let mut space = self.inner.lock();
        space.workers.remove(consumer);
        space.records.remove(consumer);
        Ok(())
    }

    async fn job_reader(&self, consumer: &str) -> Result<Box<dyn JobReader>, StoreError> {
        Ok(Box::new(MemoryJobReader { inner: self.inner.clone(), consumer: consumer.to_string() }))
    }

    async fn held(&self, shard: ShardId, queue: &str, consumer: &str) -> Result<Vec<Delivered>, StoreError> {
        let name: Arc<str> = queue.into();
        let source = JobSource { shard, queue: &name };
        let mut space = self.inner.lock();
        Ok(space.shard(shard).queues.get(queue).map_or_else(Vec::new, |queue| queue.held(&source, consumer)))
    }

    async fn report(
        &self,
        shard: ShardId,
        facts: &[(RunId, &'static str, String)],
    ) -> Result<(), StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        for (run, kind, body) in facts {
            space.shard(shard).add_fact(now, run.to_string(), kind, body);
        }
        self.inner.facts_came.notify_waiters();
        Ok(())
    }

    async fn complete(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        results: &[Completion],
    ) -> Result<Vec<Accepted>, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let keys = space.shard(shard);
        let accepted = results.iter().map(|it| complete(keys, queue, consumer, it, now)).collect();
        self.inner.facts_came.notify_waiters();
        Ok(accepted)
    }

    async fn heartbeat(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        entries: &[EntryId],
    ) -> Result<Vec<EntryId>, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let queue = space.shard(shard).queues.get_mut(queue);
        Ok(queue.map_or_else(|| entries.to_vec(), |queue| queue.heartbeat(consumer, entries, now)))
    }

    async fn are_held(&self, streams: &[(ShardId, Arc<str>)]) -> Result<Vec<bool>, StoreError> {
        let mut space = self.inner.lock();
        let held = |(shard, queue): &(ShardId, Arc<str>)| {
            space.shard(*shard).queues.get(queue).is_some_and(|queue| queue.holds_any())
        };
        Ok(streams.iter().map(held).collect())
    }

    async fn stale(&self, streams: &[(ShardId, Arc<str>)], idle: Duration) -> Result<Stale, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let mut jobs = Vec::new();
        for (shard, queue) in streams {
            let source = JobSource { shard: *shard, queue };
            let found = space.shard(*shard).queues.get(queue).map(|of_it| of_it.stale(&source, idle, now));
            jobs.extend(found.into_iter().flatten());
        }
        let cleared = if jobs.is_empty() { BTreeSet::new() } else { space.cleared.clone() };
        Ok(Stale { jobs, cleared })
    }

    async fn take_over(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        idle: Duration,
        jobs: &[TakeOver],
    ) -> Result<Vec<Delivered>, StoreError> {
        let now = self.inner.now();
        let name: Arc<str> = queue.into();
        let source = JobSource { shard, queue: &name };
        let mut space = self.inner.lock();
        let Some(queue) = space.shard(shard).queues.get_mut(queue) else { return Ok(Vec::new()) };
        Ok(jobs.iter().filter_map(|it| queue.take_over(&source, consumer, idle, it, now)).collect())
    }

    async fn clear_suspects(&self, origin: &str) -> Result<(), StoreError> {
        self.inner.lock().cleared.insert(origin.to_string());
        Ok(())
    }

    async fn forget_suspects(
        &self,
        shard: ShardId,
        queue: &str,
        entries: &[EntryId],
    ) -> Result<(), StoreError> {
        if let Some(queue) = self.inner.lock().shard(shard).queues.get_mut(queue) {
            entries.iter().for_each(|entry| queue.forget(*entry));
        }
        Ok(())
    }

    async fn hand_back(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        entries: &[(EntryId, u32)],
    ) -> Result<(), StoreError> {
        let mut space = self.inner.lock();
        if let Some(queue) = space.shard(shard).queues.get_mut(queue) {
            entries.iter().for_each(|(entry, number)| queue.hand_back(consumer, *entry, *number));
        }
        // There may be no listener.
        let _ = self.inner.hints.send(Hint::HandedBack(shard));
        Ok(())
    }

    async fn drop_consumers(
        &self,
        shard: ShardId,
        queue: &str,
        consumer: &str,
        idle: Duration,
    ) -> Result<(), StoreError> {
        let now = self.inner.now();
        if let Some(queue) = self.inner.lock().shard(shard).queues.get_mut(queue) {
            queue.drop_consumers(consumer, idle, now);
        }
        Ok(())
    }

    async fn hints(&self) -> Result<Box<dyn Hints>, StoreError> {
        Ok(Box::new(MemoryHints(self.inner.hints.subscribe())))
    }

    async fn begin_step(&self, of: &JournalKey, step: &str, another: bool) -> Result<EntryBegin, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        Ok(journal::begin(space.shard(of.shard), of, step, another, now))
    }

    async fn park_step(&self, of: &JournalKey, step: &str) -> Result<(), StoreError> {
        let mut space = self.inner.lock();
        journal::park(space.shard(of.shard), of, step);
        Ok(())
    }

    async fn record_step(
        &self,
        of: &JournalKey,
        step: &str,
        result: &str,
        fact: (&'static str, &str),
        blobs: &[(BlobId, u64)],
    ) -> Result<EntryStored, StoreError> {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        let kept = journal::record(space.shard(of.shard), of, step, (result, fact, blobs), now);
        self.inner.facts_came.notify_waiters();
        Ok(kept)
    }

    async fn paused(&self, run: RunId, pause: &str) -> Result<Paused, StoreError> {
        let mut space = self.inner.lock();
        let known = space.shard(run.shard()).runs.get(&run);
        let field = |name: &str| known.and_then(|run| run.pauses.get(name)).map(String::as_str);
        Paused::of(field(pause), field(&format!("{pause}:answer")))
    }

    async fn called(&self, caller: RunId, run: RunId) -> Result<Called, StoreError> {
        Ok(calls::called(self.inner.lock().shard(caller.shard()), caller, run))
    }

    async fn take_limit(&self, take: TakeLimit<'_>) -> Result<LimitTaken, StoreError> {
        let now = self.inner.now();
        Ok(self.inner.lock().limits.take(take, now.millis()))
    }

    async fn give_limit(&self, give: GiveLimit<'_>) -> Result<u32, StoreError> {
        let now = self.inner.now();
        Ok(self.inner.lock().limits.give(give, now.millis()))
    }

    async fn catalog_version(&self) -> Result<u64, StoreError> {
        Ok(self.inner.lock().catalog.version())
    }

    async fn load_catalog(&self) -> Result<Catalog, StoreError> {
        Ok(self.inner.lock().catalog.all())
    }

    async fn package(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.inner.lock().packages.get(hash).cloned())
    }

    async fn plugin_value(&self, plugin: &str, key: &str) -> Result<Option<String>, StoreError> {
        Ok(self.inner.lock().plugin_values.get(plugin).and_then(|values| values.get(key).cloned()))
    }

    async fn put_plugin_value(&self, put: PluginValue<'_>) -> Result<PluginValuePut, StoreError> {
        Ok(self.inner.lock().put_plugin_value(put))
    }

    async fn put_call(&self, put: PutEntry<'_>) -> Result<EntryPut, StoreError> {
        let now = self.inner.now();
        Ok(self.inner.lock().catalog.put(put, now))
    }

    async fn app_called(&self, wanted: &str) -> Result<Option<App>, StoreError> {
        let space = self.inner.lock();
        let mut named = space.apps.values().filter(|app| app.name == wanted);
        let only = named.next().filter(|_| named.next().is_none());
        Ok(space.apps.get(wanted).or(only).cloned())
    }

    async fn note_files(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.inner.lock().note_files(run))
    }

    async fn owner_of_run(&self, run: RunId) -> Result<Option<RunOwner>, StoreError> {
        let found = self.fields_of_runs(&[run], &RunOwner::FIELDS).await?;
        found.first().map_or(Ok(None), RunOwner::of)
    }

    async fn wake(&self, _reader: u64) -> Result<(), StoreError> {
        Ok(())
    }

    async fn graph_document(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.inner.graph_text(shard, hash))
    }

    async fn load_blob(&self, shard: ShardId, id: &BlobId) -> Result<Option<String>, StoreError> {
        Ok(self.inner.blob_text(shard, id))
    }

    async fn store_blob(&self, shard: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError> {
        self.inner.keep_blob(shard, id, text);
        Ok(())
    }
}
