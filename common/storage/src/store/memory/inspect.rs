//! Access for the simulator only: reads internal state, and causes the damage that people with access to the
//! server and fail-overs can cause.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::MemoryStore;
use super::shard::Shard;
use tidemill_base::ids::{EntryId, RunId, ShardId};

/// What a replica has: the state of some shards at one moment.
pub struct Snapshot(Vec<(ShardId, Shard)>);

impl Snapshot {
    /// Returns true if the run is in it.
    pub fn has_run(&self, run: RunId) -> bool {
        self.0.iter().any(|(shard, keys)| *shard == run.shard() && keys.runs.contains_key(&run))
    }
}

impl MemoryStore {
    /// The jobs of a shard, waiting or held: queue, entry, and the run as written.
    pub fn jobs(&self, shard: ShardId) -> Vec<(Arc<str>, EntryId, String)> {
        let mut space = self.inner.look();
        let queues = &space.shard(shard).queues;
        let of_queue = |(name, queue): (&Arc<str>, &super::queue::Queue)| {
            queue.all().map(|(entry, run)| (name.clone(), entry, run.to_string())).collect::<Vec<_>>()
        };
        queues.iter().flat_map(of_queue).collect()
    }

    /// Deletes an unfinished job.
    pub fn lose_job(&self, shard: ShardId, queue: &str, entry: EntryId) {
        if let Some(queue) = self.inner.look().shard(shard).queues.get_mut(queue) {
            queue.remove(entry);
        }
    }

    /// The number of requests to this store so far. A read that waits is one.
    pub fn requests(&self) -> u64 {
        self.inner.requests.load(Ordering::Relaxed)
    }

    /// The number of lists of runs so far that were not those of an app or a label.
    pub fn lists_of_all_runs(&self) -> u64 {
        self.inner.lists_of_all.load(Ordering::Relaxed)
    }

    /// Who holds the leases of shards now: a name for each shard that has an owner.
    pub fn owners(&self) -> Vec<String> {
        let now = self.inner.now();
        self.inner.look().shards.values().filter_map(|shard| shard.holder(now).map(str::to_string)).collect()
    }

    /// Copies these shards, all at one moment.
    pub fn snapshot(&self, shards: &[ShardId]) -> Snapshot {
        let mut space = self.inner.look();
        Snapshot(shards.iter().map(|shard| (*shard, space.shard(*shard).clone())).collect())
    }

    /// Sets the shards of a snapshot back to it: everything that was written to them since then is lost, as when a replica
    /// becomes the master that had received nothing since then. The other shards stay as they are.
    pub fn restore(&self, snapshot: Snapshot) {
        self.inner.look().shards.extend(snapshot.0);
        self.inner.facts_came.notify_waiters();
        self.inner.jobs_came.notify_waiters();
        self.inner.events_came.publish(None);
    }
}
