//! Forgets ended runs and conversations before their time. A fleet removes them by age; an engine in somebody's process
//! keeps only those that its host still looks at, and a bounded number of others.

use super::shard::Shard;
use super::{MemoryStore, Namespace};
use tidemill_base::ids::RunId;
use tidemill_wire::conversation::{conversation_copy, variable_of_field};

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

    /// Removes the conversations that were not used for the longest time, until at most `max` are left. One with a run
    /// whose turn is not stored yet stays.
    pub fn forget_conversations(&self, max: usize) {
        let mut space = self.inner.lock();
        let count: usize = space.shards.values().map(|shard| shard.conversations.len()).sum();
        let surplus = count.saturating_sub(max);
        if surplus == 0 {
            return;
        }
        let all = space.shards.iter().flat_map(|(shard, of_it)| {
            let idle = of_it.conversations.iter().filter(|(_, kept)| !kept.has_open_runs());
            idle.map(|(id, kept)| (kept.used_at, *shard, id.clone()))
        });
        let mut idle: Vec<_> = all.collect();
        idle.sort_unstable();
        for (_, shard, id) in idle.into_iter().take(surplus) {
            space.shard(shard).forget_conversation(&id);
        }
    }

    /// Removes what has expired: conversations, blobs and idempotency keys. Redis does so by itself.
    pub fn forget_expired(&self) {
        let now = self.inner.now();
        let mut space = self.inner.lock();
        space.reserved.retain(|_, reserved| reserved.until > now);
        for shard in space.shards.values_mut() {
            shard.conversations.retain(|_, kept| kept.until.is_none_or(|until| until > now));
            shard.blobs.retain(|_, blob| blob.until.is_none_or(|until| until > now));
        }
    }
}

impl Shard {
    pub(super) fn forget_conversation(&mut self, id: &str) {
        let Some(kept) = self.conversations.remove(id) else { return };
        for variable in kept.fields.keys().filter_map(|field| variable_of_field(field)) {
            self.blobs.remove(&conversation_copy(id, variable));
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
