//! Forgets ended runs before their time. A fleet removes them by age; an engine in somebody's process keeps only those
//! that its host still looks at.

use super::{MemoryStore, Namespace};
use tidemill_base::ids::RunId;

impl MemoryStore {
    /// Removes an ended run, and the ended runs that it has called. Returns false if it stays for now: it has not ended, or
    /// the turn of its conversation is not stored yet.
    pub fn forget_run(&self, run: RunId) -> bool {
        self.inner.lock().forget_run(run)
    }

    /// The number of runs.
    pub fn run_count(&self) -> usize {
        self.inner.lock().shards.values().map(|shard| shard.runs.len()).sum()
    }

    /// Removes the oldest ended runs until at most `max` ended ones are left, besides those that are held.
    pub fn forget_ended(&self, max: usize, is_held: &dyn Fn(RunId) -> bool) {
        let mut space = self.inner.lock();
        let runs = space.shards.values().flat_map(|shard| &shard.runs);
        let ended = runs.filter_map(|(id, run)| Some((run.ended_at?, *id))).filter(|(_, id)| !is_held(*id));
        let mut ended: Vec<_> = ended.collect();
        ended.sort_unstable();
        let surplus = ended.len().saturating_sub(max);
        for (_, run) in ended.into_iter().take(surplus) {
            space.forget_run(run);
        }
    }
}

impl Namespace {
    fn forget_run(&mut self, run: RunId) -> bool {
        let shard = self.shard(run.shard());
        let Some(found) = shard.runs.get(&run) else { return true };
        if found.ended_at.is_none() || shard.unsettled.contains(&run) {
            return false;
        }
        let called: Vec<RunId> = found.calls.keys().copied().collect();
        shard.remove_run(run);
        for run in called {
            self.forget_run(run);
        }
        true
    }
}
