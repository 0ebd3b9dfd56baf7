//! Access for the simulator only: reads internal state, and causes the damage that people with access to the
//! server can cause.

use std::sync::Arc;

use super::MemoryStore;
use tidemill_base::ids::{EntryId, ShardId};

impl MemoryStore {
    /// The jobs of a shard, waiting or held: queue, entry, and the run as written.
    pub fn jobs(&self, shard: ShardId) -> Vec<(Arc<str>, EntryId, String)> {
        let mut space = self.inner.lock();
        let queues = &space.shard(shard).queues;
        let of_queue = |(name, queue): (&Arc<str>, &super::queue::Queue)| {
            queue.all().map(|(entry, run)| (name.clone(), entry, run.to_string())).collect::<Vec<_>>()
        };
        queues.iter().flat_map(of_queue).collect()
    }

    /// Deletes an unfinished job.
    pub fn lose_job(&self, shard: ShardId, queue: &str, entry: EntryId) {
        if let Some(queue) = self.inner.lock().shard(shard).queues.get_mut(queue) {
            queue.remove(entry);
        }
    }
}
